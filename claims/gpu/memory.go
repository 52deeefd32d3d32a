package gpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/opencl"
)

type gpuCopy struct {
	name  string
	bytes int
}

func gpuCopies() []gpuCopy {
	return []gpuCopy{
		{"memory_tiers/gpu_to_cpu_1mb", 1 << 20},
		{"memory_tiers/gpu_to_cpu_10mb", 10 << 20},
		{"memory_tiers/gpu_to_cpu_100mb", 100 << 20},
		{"memory_tiers/gpu_to_cpu_1gb", 1 << 30},
	}
}

// memoryDevice is a GPU's memory, through whichever library reaches it.
type memoryDevice interface {
	alloc(bytes int) (deviceMemory, error)
	// write lets a kernel write words made from the seed: to all of the memory, or
	// at least to the first word of each page. It waits, and gives the time by the
	// device.
	write(to deviceMemory, bytes int, seed uint64, pages bool) (time.Duration, error)
	// check compares what came to the host with what write wrote.
	check(host []byte, seed uint64, pages bool) error
}

// deviceMemory is a piece of it.
type deviceMemory interface {
	Read([]byte) error
	Free() error
}

// openclMemory is memory by OpenCL, with the kernels of kernels_memory.cl.
type openclMemory struct {
	ctx         *opencl.Context
	fill, touch *opencl.Kernel
}

func newOpenCLMemory(ctx *opencl.Context, program *opencl.Program) (*openclMemory, error) {
	m := &openclMemory{ctx: ctx}
	var errs [2]error
	m.fill, errs[0] = program.Kernel("fill")
	m.touch, errs[1] = program.Kernel("touch")
	return m, errors.Join(errs[:]...)
}

func (m *openclMemory) alloc(bytes int) (deviceMemory, error) {
	b, err := m.ctx.NewBuffer(bytes)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (m *openclMemory) write(to deviceMemory, bytes int, seed uint64, pages bool) (time.Duration, error) {
	kernel, n := m.fill, bytes/8
	items := 64 * min(4096, n/64)
	if pages {
		kernel, n = m.touch, bytes/pageBytes
		items = n
	}
	e, err := kernel.Launch([]int{items}, []int{64}, to, uint64(n), seed)
	if err != nil {
		return 0, err
	}
	return e.Wait()
}

func (m *openclMemory) check(host []byte, seed uint64, pages bool) error {
	step := 8
	if pages {
		step = pageBytes
	}
	for i := range len(host) / step {
		if got, want := binary.LittleEndian.Uint64(host[step*i:]), memoryWord(seed, uint64(i)); got != want {
			return fmt.Errorf("%w: byte %d begins %#x instead of %#x", claims.ErrWrong, step*i, got, want)
		}
	}
	return nil
}

// memoryWord is the word of a place, as in kernels_memory.cl.
func memoryWord(seed, place uint64) uint64 {
	x := seed + (place+1)*0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// deviceCopy fills device memory with new content on the device itself, then times
// its way into ordinary (pageable) memory of the host that is there already.
type deviceCopy struct {
	seed   uint64
	device memoryDevice
	memory deviceMemory
	host   []byte
}

func newCopy(bytes int) func(*gpuDevice, uint64) (gpuWork, error) {
	return func(d *gpuDevice, seed uint64) (gpuWork, error) {
		if d.largest > 0 && uint64(bytes) > d.largest {
			return nil, fmt.Errorf("%w: %s gives at most %d bytes at a time", claims.ErrUnavailable, d.identity.Name, d.largest)
		}
		c := &deviceCopy{seed: seed, device: d.memory}
		var err error
		if c.memory, err = d.memory.alloc(bytes); err != nil {
			return nil, err
		}
		c.host = filled(bytes)
		return c, nil
	}
}

func (c *deviceCopy) sample(number uint64) (claims.Measurement, error) {
	seed := memoryWord(c.seed, number)
	if _, err := c.device.write(c.memory, len(c.host), seed, false); err != nil {
		return claims.Measurement{}, fmt.Errorf("fill device memory: %w", err)
	}
	wall, _, err := timed(func() ([]*opencl.Event, error) { return nil, c.memory.Read(c.host) })
	if err != nil {
		return claims.Measurement{}, fmt.Errorf("copy to the host: %w", err)
	}
	if err := c.device.check(c.host, seed, false); err != nil {
		return claims.Measurement{}, err
	}
	return claims.Measurement{Value: wall.Seconds(), Extra: map[string]float64{
		"bytes": float64(len(c.host)), "bytes_per_s": float64(len(c.host)) / wall.Seconds(),
	}}, nil
}

// allocation times 1 MB of device memory until a kernel has written to every page
// of it: drivers put the allocation itself off until the memory is used, and a time
// without the use would be of a promise. The same kernel's second run, on memory
// that is there, is kept beside.
type allocation struct {
	seed   uint64
	device memoryDevice
	host   []byte
}

const (
	allocationBytes = 1 << 20
	pageBytes       = 4096
)

func newAllocation(d *gpuDevice, seed uint64) (gpuWork, error) {
	return &allocation{seed: seed, device: d.memory, host: filled(allocationBytes)}, nil
}

func (a *allocation) sample(number uint64) (_ claims.Measurement, err error) {
	seed := memoryWord(a.seed, number)
	var memory deviceMemory
	use := func(seed uint64) (time.Duration, error) {
		took, err := a.device.write(memory, allocationBytes, seed, true)
		if err != nil {
			return 0, fmt.Errorf("use the memory: %w", err)
		}
		return took, nil
	}
	start := time.Now()
	if memory, err = a.device.alloc(allocationBytes); err != nil {
		return claims.Measurement{}, fmt.Errorf("allocate: %w", err)
	}
	created := time.Since(start)
	device, err := use(seed)
	wall := time.Since(start)
	if err == nil {
		err = a.check(memory, seed)
	}
	var again, free time.Duration
	if err == nil {
		start = time.Now()
		_, err = use(seed + 1)
		again = time.Since(start)
	}
	start = time.Now()
	freed := memory.Free()
	free = time.Since(start)
	if err == nil && freed != nil {
		err = fmt.Errorf("free: %w", freed)
	}
	if err != nil {
		return claims.Measurement{}, err
	}
	return claims.Measurement{Value: wall.Seconds(), Extra: map[string]float64{
		"bytes": allocationBytes, "create_s": created.Seconds(), "device_s": device.Seconds(),
		"second_use_s": again.Seconds(), "free_s": free.Seconds(),
	}}, nil
}

// check reads what the use has written.
func (a *allocation) check(memory deviceMemory, seed uint64) error {
	if err := memory.Read(a.host); err != nil {
		return fmt.Errorf("read the memory: %w", err)
	}
	return a.device.check(a.host, seed, true)
}
