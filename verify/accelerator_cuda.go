package verify

import (
	"errors"
	"fmt"
	"time"

	"github.com/assay-bench/assay/internal/cuda"
)

func cudaCandidates(native Native) ([]candidate, error) {
	lib, err := cuda.Open(cuda.Options{Libraries: native.CUDA})
	if err != nil {
		return nil, err
	}
	devices, err := lib.Devices()
	if err != nil {
		return nil, err
	}
	var all []candidate
	for _, d := range devices {
		all = append(all, candidate{
			info: DeviceInfo{Backend: "cuda", Type: "GPU", Identity: Identity{
				Source: "cuda", Name: d.Name, UUID: d.UUID, PCIBusID: d.PCIBusID, CUDA: lib.Version(),
				MemoryBytes: d.MemoryBytes, SMs: d.SMs, BusWidthBits: d.BusWidthBits,
			}},
			open: func() (accelerator, error) { return openCUDA(d) },
		})
	}
	return all, nil
}

type cudaAccelerator struct {
	ctx     *cuda.Context
	kernels map[string]*cuda.Kernel
}

func openCUDA(d *cuda.Device) (accelerator, error) {
	ctx, err := d.NewContext(cuda.Kernels)
	if err != nil {
		return nil, err
	}
	c := &cudaAccelerator{ctx: ctx, kernels: map[string]*cuda.Kernel{}}
	for _, name := range []string{"multiply", "fill", "inspect"} {
		if c.kernels[name], err = ctx.Kernel(name); err != nil {
			return nil, errors.Join(err, ctx.Close())
		}
	}
	return c, nil
}

func (c *cudaAccelerator) Alloc(bytes int) (memory, error) {
	b, err := c.ctx.NewBuffer(bytes)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (c *cudaAccelerator) Run(kernel string, size int, args ...any) (time.Duration, error) {
	k, ok := c.kernels[kernel]
	if !ok {
		return 0, fmt.Errorf("no kernel %s", kernel)
	}
	if kernel == "multiply" {
		return k.Run([2]int{size / tile, size / tile}, [2]int{16, 16}, args...)
	}
	const group, groups = 256, 4096
	return k.Run([2]int{min(groups, (size+group-1)/group), 1}, [2]int{group, 1}, args...)
}

func (c *cudaAccelerator) Free() (free, piece uint64) {
	free, _, err := c.ctx.Free()
	if err != nil {
		return 0, 0
	}
	return free, free
}

func (c *cudaAccelerator) Close() error { return c.ctx.Close() }
