package native

import (
	"context"
	"errors"
	"slices"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/telemetry"
	"github.com/assay-bench/assay/verify"
)

// GPUs is what a verification of this machine's GPUs did and found.
type GPUs struct {
	verify.Result
	Notes []string
}

// Verify verifies the GPUs of this machine. What was found before an error is
// given too.
func Verify(ctx context.Context, o verify.Options) (GPUs, error) {
	var found GPUs
	nvml, err := Command("nvml")
	if err != nil {
		return found, err
	}
	if o.Child, err = Command("verify"); err != nil {
		return found, err
	}
	sources, gpus, notes, err := telemetry.Choose(ctx, telemetry.ChooseOptions{Child: nvml})
	if err != nil {
		return found, err
	}
	found.Notes = notes
	for _, s := range sources {
		_ = s.Close() // only their word on the GPUs was wanted
	}
	for _, g := range gpus {
		o.Identities = append(o.Identities, identity(g))
	}
	found.Result, err = verify.Run(ctx, o)
	if o.SkipCompute && (errors.Is(err, verify.ErrCPUDevice) || errors.Is(err, verify.ErrNoDevice)) {
		// Identity alone was asked for, and has other sources.
		found.Notes = append(found.Notes, "compute API: "+err.Error())
		found.Checks = slices.DeleteFunc(found.Checks, func(c assay.Check) bool { return c.Name == "compute.device" })
		err = nil
		if len(gpus) == 0 {
			err = verify.ErrNoDevice
		}
	}
	return found, err
}

// identity is what a source of readings says of a GPU.
func identity(g assay.GPU) verify.Identity {
	source := g.Source
	if source == "amdgpu" {
		source = "sysfs" // where that driver tells it
	}
	return verify.Identity{
		Source: source, Name: g.Name, UUID: g.UUID, Serial: g.Serial, VBIOS: g.VBIOS, PCIBusID: g.PCIBusID,
		MaxSMHz: g.MaxSMClockHz, MaxMemoryHz: g.MaxMemoryClockHz, MemoryBytes: uint64(max(0, g.MemoryBytes)),
		Driver: g.Driver, CUDA: g.CUDA, SMs: g.SMCount, BusWidthBits: g.BusWidthBits,
		MIG: onOff(g.MIG), VGPU: onOff(g.VGPU),
	}
}

func onOff(s string) string {
	switch s {
	case "":
		return ""
	case "disabled", "none":
		return "off"
	}
	return "on"
}
