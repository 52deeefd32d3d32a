package gpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/cuda"
)

// cudaMemory is a GPU's memory through the CUDA driver, by the kernel fill that
// assay verify checks memory with: no kernel of ours is there twice.
type cudaMemory struct {
	ctx  *cuda.Context
	fill *cuda.Kernel
}

// openCUDA opens the first device of the CUDA driver, for the probes of memory.
func openCUDA(native Native) (*gpuDevice, error) {
	device, err := firstCUDA(native)
	if err != nil {
		return nil, err
	}
	ctx, err := device.NewContext(cuda.Kernels)
	if err != nil {
		return nil, fmt.Errorf("%w: open %s by CUDA: %w", claims.ErrUnavailable, device.Name, err)
	}
	m := &cudaMemory{ctx: ctx}
	if m.fill, err = ctx.Kernel("fill"); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: on %s by CUDA: %w", claims.ErrUnavailable, device.Name, err), ctx.Close())
	}
	largest := uint64(0)
	if free, _, err := ctx.Free(); err == nil {
		largest = free
	}
	return &gpuDevice{
		identity: gpuIdentity{Name: device.Name, Type: "GPU", Backend: "cuda", UUID: device.UUID, PCIBusID: device.PCIBusID},
		largest:  largest, memory: m, close: ctx.Close,
	}, nil
}

func firstCUDA(native Native) (*cuda.Device, error) {
	lib, err := cuda.Open(cuda.Options{Libraries: native.CUDA})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", claims.ErrUnavailable, err)
	}
	devices, err := lib.Devices()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: the devices of CUDA cannot be listed: %w", claims.ErrUnavailable, err)
	case len(devices) == 0:
		return nil, fmt.Errorf("%w: the CUDA driver shows no device", claims.ErrUnavailable)
	}
	return devices[0], nil
}

// openclMissing is the error of a probe that runs by OpenCL alone, with what to
// install where a GPU is there and only OpenCL is not.
func openclMissing(native Native, err error) error {
	device, cerr := firstCUDA(native)
	if cerr != nil {
		return err
	}
	return fmt.Errorf("%w; %s is reached by the CUDA driver, and this probe needs OpenCL on it: install NVIDIA's OpenCL library (libnvidia-opencl.so.1, in the packages nvidia-opencl-icd or libnvidia-compute, with ocl-icd-libopencl1), and in a container set NVIDIA_DRIVER_CAPABILITIES=compute,utility", err, device.Name)
}

func (m *cudaMemory) alloc(bytes int) (deviceMemory, error) {
	b, err := m.ctx.NewBuffer(bytes)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// write fills all of the memory: its kernel knows no pages.
func (m *cudaMemory) write(to deviceMemory, bytes int, seed uint64, _ bool) (time.Duration, error) {
	const group, groups, random = 256, 4096, 2
	words := bytes / 4
	return m.fill.Run([2]int{min(groups, (words+group-1)/group), 1}, [2]int{group, 1}, to, uint32(words), uint64(0), uint32(random), foldSeed(seed))
}

func (m *cudaMemory) check(host []byte, seed uint64, _ bool) error {
	for i := range len(host) / 4 {
		if got, want := binary.LittleEndian.Uint32(host[4*i:]), cudaWord(uint32(i), foldSeed(seed)); got != want {
			return fmt.Errorf("%w: byte %d begins %#x instead of %#x", claims.ErrWrong, 4*i, got, want)
		}
	}
	return nil
}

func foldSeed(seed uint64) uint32 { return uint32(seed ^ seed>>32) }

// cudaWord is the word of a place, as the kernel fill has it in its random mode:
// verify/pattern.go says what it is.
func cudaWord(place, arg uint32) uint32 {
	x := place + arg*0x85EBCA6B
	x ^= x >> 16
	x *= 0x7FEB352D
	x ^= x >> 15
	x *= 0x846CA68B
	return x ^ x>>16
}
