package verify

import (
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/assay-bench/assay/internal/opencl"
)

//go:embed kernels.cl
var kernelsCL string

func openclCandidates(native Native) ([]candidate, error) {
	lib, err := opencl.Open(opencl.Options{Libraries: native.OpenCL})
	if err != nil {
		return nil, err
	}
	devices, err := lib.Devices()
	if err != nil {
		return nil, err
	}
	source := kernelsCL
	if native.kernels != nil {
		source = native.kernels(source)
	}
	var all []candidate
	for _, d := range devices {
		all = append(all, candidate{
			cpu: d.Type&opencl.TypeCPU != 0,
			info: DeviceInfo{Backend: "opencl", Type: d.Type.String(), Identity: Identity{
				Source: "opencl", Name: d.Name, UUID: d.UUID, PCIBusID: d.PCIBusID,
				Driver: d.DriverVersion, MemoryBytes: d.MemoryBytes, SMs: d.ComputeUnits,
				// A clock that OpenCL gives is the rated one on some drivers and
				// the highest on others: not compared.
			}},
			open: func() (accelerator, error) { return openOpenCL(d, source) },
		})
	}
	return all, nil
}

type openclAccelerator struct {
	device  *opencl.Device
	ctx     *opencl.Context
	kernels map[string]*opencl.Kernel
	rows    bool // the kernel for CPUs
}

func openOpenCL(d *opencl.Device, source string) (accelerator, error) {
	ctx, err := d.NewContext()
	if err != nil {
		return nil, err
	}
	o := &openclAccelerator{device: d, ctx: ctx, kernels: map[string]*opencl.Kernel{}, rows: d.Type&opencl.TypeCPU != 0}
	if err := o.build(source); err != nil {
		return nil, errors.Join(err, ctx.Close())
	}
	return o, nil
}

func (o *openclAccelerator) build(source string) error {
	program, err := o.ctx.Build(source, "")
	if err != nil {
		return err
	}
	for _, name := range []string{"multiply", "multiply_rows", "fill", "inspect"} {
		if o.kernels[name], err = program.Kernel(name); err != nil {
			return err
		}
	}
	return nil
}

func (o *openclAccelerator) Alloc(bytes int) (memory, error) {
	b, err := o.ctx.NewBuffer(bytes)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (o *openclAccelerator) Run(kernel string, size int, args ...any) (time.Duration, error) {
	var global, local []int
	switch {
	case kernel != "multiply":
		const group, groups = 256, 4096
		global, local = []int{group * min(groups, (size+group-1)/group)}, []int{group}
	case o.rows:
		kernel, global = "multiply_rows", []int{size / 16, size / 4}
	default:
		global, local = []int{size / 5, size / 5}, []int{16, 16}
	}
	k, ok := o.kernels[kernel]
	if !ok {
		return 0, fmt.Errorf("no kernel %s", kernel)
	}
	e, err := k.Launch(global, local, args...)
	if err != nil {
		return 0, err
	}
	return e.Wait()
}

func (o *openclAccelerator) Free() (free, piece uint64) {
	return o.device.FreeBytes, o.device.MaxAllocBytes
}

func (o *openclAccelerator) Close() error { return o.ctx.Close() }
