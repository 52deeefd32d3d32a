package telemetry

import (
	"context"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/nvml"
)

// fast reads what moves. It stops at the first answer that says the GPU is gone.
func (g *nvmlGPU) fast(o *observer, now time.Time) {
	watts, instant, r := g.Power()
	o.value(assay.GPUPower, watts, r)
	if o.fatal != nvml.Success {
		return
	}
	if r == nvml.Success && !now.Before(g.instant) {
		o.flag(assay.GPUPowerInstant, instant, r)
		g.instant = now.Add(instantEvery)
	}
	joules, r := g.Energy()
	o.value(assay.GPUEnergy, joules, r)
	gpu, memory, r := g.Utilization()
	o.value(assay.GPUUtilization, gpu, r)
	o.value(assay.GPUMemoryUtilization, memory, r)
	if m, r := g.Memory(); o.ok(r) && m.Used <= m.Total && m.Free <= m.Total {
		o.value(assay.GPUMemoryUsed, float64(m.Used), r)
		o.value(assay.GPUMemoryFree, float64(m.Free), r)
	}
	celsius, r := g.Temperature()
	o.value(assay.GPUTemperature, celsius, r)
	hertz, r := g.Clock(nvml.SM)
	o.value(assay.GPUSMClock, hertz, r)
	hertz, r = g.Clock(nvml.MemoryClock)
	o.value(assay.GPUMemoryClock, hertz, r)
	if bits, r := g.ClockReasons(); o.ok(r) {
		o.filter.reasons(o.emit, o.device, bits, g.supported)
	}
}

// health reads what is worth a look once a second.
func (g *nvmlGPU) health(o *observer) {
	corrected, uncorrected, r := g.ECC()
	o.value(assay.GPUECCCorrected, float64(corrected), r)
	o.value(assay.GPUECCUncorrected, float64(uncorrected), r)
	pages, r := g.RetiredPages()
	o.value(assay.GPURetiredPages, float64(pages), r)
	rows, r := g.RemappedRows()
	o.flag(assay.GPURowRemapPending, rows.Pending, r)
	o.flag(assay.GPURowRemapFailed, rows.Failed, r)
	action, r := g.RecoveryAction()
	o.value(assay.GPURecoveryAction, float64(action), r)

	replays, r := g.PCIeReplays()
	o.value(assay.GPUPCIeReplays, float64(replays), r)
	link := g.PCIeLink()
	o.known(assay.GPUPCIeLinkWidth, float64(link.Width))
	o.known(assay.GPUPCIeLinkWidthMax, float64(link.WidthMax))
	o.known(assay.GPUPCIeLinkGeneration, float64(link.Generation))
	o.known(assay.GPUPCIeLinkGenMax, float64(link.GenerationMax))

	if n, r := g.NVLinks(); o.ok(r) {
		// A card without a bridge has links, and none of them is up.
		if g.linked = g.linked || n.Up > 0; g.linked {
			o.value(assay.GPUNVLinksDown, float64(n.Links-n.Up), r)
			if n.ErrorsKnown {
				o.value(assay.GPUNVLinkErrors, float64(n.Errors), r)
			}
		}
	}
	ready, r := g.FabricReady()
	o.flag(assay.GPUFabricReady, ready, r)

	watts, r := g.PowerLimit()
	o.value(assay.GPUPowerLimit, watts, r)
	hertz, _ := g.MaxClock(nvml.SM)
	o.known(assay.GPUSMClockMax, hertz)
	hertz, _ = g.MaxClock(nvml.MemoryClock)
	o.known(assay.GPUMemoryClockMax, hertz)
	if m, r := g.Memory(); r == nvml.Success {
		o.known(assay.GPUMemoryTotal, float64(m.Total))
	}
	celsius, r := g.MemoryTemperature()
	o.value(assay.GPUMemoryTemperature, celsius, r)
	fan, r := g.FanSpeed()
	o.value(assay.GPUFanSpeed, fan, r)

	times, r := g.ThrottleTimes()
	for _, t := range [...]struct {
		name string
		nvml.Span
	}{
		{assay.GPUPowerCapSeconds, times.PowerCap},
		{assay.GPUSWThermalSeconds, times.SWThermal},
		{assay.GPUHWThermalSeconds, times.HWThermal},
		{assay.GPUPowerBrakeSeconds, times.PowerBrake},
	} {
		if o.ok(r) && t.Known {
			o.value(t.name, t.Seconds(), r)
		}
	}

	list, count, r := g.Processes(g.processes)
	g.processes = list
	o.value(assay.GPUProcesses, float64(count), r)
	bytes, all := 0., len(list) == count
	for _, p := range list {
		bytes += float64(p.Bytes)
		all = all && p.Bytes != 0 // one that is not known makes the sum unknown
	}
	if all {
		o.value(assay.GPUProcessMemory, bytes, r)
	}
}

// peers reads what takes a call for each pair of GPUs.
func (g *nvmlGPU) peers(o *observer, all []*nvmlGPU) {
	if !g.linked {
		return
	}
	// Only GPUs on switches are known to be meant to reach one another: in a
	// mesh, some pairs have no link.
	if g.onSwitch = g.onSwitch || g.OnNVSwitch(); !g.onSwitch {
		return
	}
	out, asked := 0, false
	for _, peer := range all {
		if peer == g || !peer.onSwitch && !peer.OnNVSwitch() {
			continue
		}
		reaches, r := g.Reaches(peer.Device)
		switch r {
		case nvml.Success:
			asked = true
			if !reaches {
				out++
			}
		case nvml.GPUIsLost:
			return // which of the two it is, gpu_lost says
		}
	}
	if asked {
		o.value(assay.GPUPeersUnreachable, float64(out), nvml.Success)
	}
}

// Describe says which GPUs there are. One that cannot be reached any more is
// counted with them, though all that is known of it is where it was.
func (n *NVML) Describe(ctx context.Context) ([]assay.GPU, error) {
	if n.closed {
		return nil, errClosed
	}
	gpus := []assay.GPU{}
	for _, g := range n.gpus {
		if err := ctx.Err(); err != nil {
			return gpus, err
		}
		id, r := g.Identity()
		if r != nvml.Success {
			id = nvml.Identity{UUID: g.UUID, Index: g.Index}
		}
		gpus = append(gpus, assay.GPU{
			UUID: id.UUID, Name: id.Name, Index: id.Index, Source: n.Name(),
			MemoryBytes: int64(min(id.MemoryBytes, 1<<62)),
			PCIBusID:    id.PCIBusID, Serial: id.Serial, VBIOS: id.VBIOS, Driver: id.Driver, CUDA: id.CUDA,
			SMCount: int(id.SMCount), BusWidthBits: int(id.BusWidthBits),
			MaxSMClockHz: id.MaxSMClockHz, MaxMemoryClockHz: id.MaxMemoryClockHz, PowerLimitWatts: id.PowerLimitWatts,
			MIG: id.MIG, VGPU: id.VGPU,
		})
	}
	for i, index := range n.lib.Lost() {
		gpus = append(gpus, assay.GPU{UUID: n.lost[i], Index: index, Source: n.Name()})
	}
	return gpus, nil
}
