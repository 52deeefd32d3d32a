package verify

import (
	"errors"
	"fmt"
	"slices"
)

// candidates are the devices to verify: the GPUs that OpenCL shows, and those of
// the CUDA driver that OpenCL does not. A CPU is used only where the child's own
// code allows it and there is no GPU.
func (s *server) candidates() ([]candidate, error) {
	var gpus, cpus []candidate
	var why []error
	switch s.req.Backend {
	case "", "opencl", "cuda":
	default:
		return nil, fmt.Errorf("no backend %q", s.req.Backend)
	}
	if s.req.Backend != "cuda" {
		all, err := openclCandidates(s.native)
		if err != nil {
			why = append(why, fmt.Errorf("OpenCL: %w", err))
		}
		for _, c := range all {
			if c.cpu {
				cpus = append(cpus, c)
			} else if !slices.ContainsFunc(gpus, c.same) {
				gpus = append(gpus, c)
			}
		}
	}
	if s.req.Backend != "opencl" {
		all, err := cudaCandidates(s.native)
		if err != nil {
			why = append(why, fmt.Errorf("CUDA: %w", err))
		}
		for _, c := range all {
			if !slices.ContainsFunc(gpus, c.same) {
				gpus = append(gpus, c)
			}
		}
	}
	if len(gpus) == 0 && len(cpus) > 0 {
		if !s.native.AllowCPU {
			return nil, fmt.Errorf("%w: %s (%s)", ErrCPUDevice, cpus[0].info.Name, cpus[0].info.Type)
		}
		gpus = cpus
	}
	if len(gpus) == 0 {
		return nil, errors.Join(append([]error{ErrNoDevice}, why...)...)
	}
	for i := range gpus {
		gpus[i].info.Index = i
	}
	if len(s.req.Devices) == 0 {
		return gpus, nil
	}
	var chosen []candidate
	for _, i := range s.req.Devices {
		if i < 0 || i >= len(gpus) {
			return nil, fmt.Errorf("%w: device %d of %d", ErrNoDevice, i, len(gpus))
		}
		chosen = append(chosen, gpus[i])
	}
	return chosen, nil
}

// same reports whether two candidates are one piece of hardware, as when two
// libraries show it. Slices of one GPU share a bus id and differ by UUID.
func (c candidate) same(d candidate) bool {
	a, b := c.info, d.info
	if a.UUID != "" && b.UUID != "" {
		if canonicalUUID(a.UUID) == canonicalUUID(b.UUID) {
			return true
		}
		if a.Backend == b.Backend {
			return false
		}
	}
	return a.PCIBusID != "" && canonicalBusID(a.PCIBusID) == canonicalBusID(b.PCIBusID)
}
