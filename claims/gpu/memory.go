package gpu

import (
	"encoding/binary"
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
	kernel *opencl.Kernel
	memory *opencl.Buffer
	host   []byte
}

func newCopy(bytes int) func(*gpuDevice, uint64) (gpuWork, error) {
	return func(d *gpuDevice, seed uint64) (gpuWork, error) {
		if d.largest > 0 && uint64(bytes) > d.largest {
			return nil, fmt.Errorf("%w: %s gives at most %d bytes at a time", claims.ErrUnavailable, d.identity.Name, d.largest)
		}
		c := &deviceCopy{seed: seed}
		var err error
		if c.kernel, err = d.program.Kernel("fill"); err != nil {
			return nil, err
		}
		if c.memory, err = d.ctx.NewBuffer(bytes); err != nil {
			return nil, err
		}
		c.host = filled(bytes)
		return c, nil
	}
}

func (c *deviceCopy) sample(number uint64) (claims.Measurement, error) {
	seed, words := memoryWord(c.seed, number), len(c.host)/8
	e, err := c.kernel.Launch([]int{64 * min(4096, words/64)}, []int{64}, c.memory, uint64(words), seed)
	if err != nil {
		return claims.Measurement{}, fmt.Errorf("fill device memory: %w", err)
	}
	if _, err := e.Wait(); err != nil {
		return claims.Measurement{}, fmt.Errorf("fill device memory: %w", err)
	}
	wall, _, err := timed(func() ([]*opencl.Event, error) { return nil, c.memory.Read(c.host) })
	if err != nil {
		return claims.Measurement{}, fmt.Errorf("copy to the host: %w", err)
	}
	for i := range words {
		if got, want := binary.LittleEndian.Uint64(c.host[8*i:]), memoryWord(seed, uint64(i)); got != want {
			return claims.Measurement{}, fmt.Errorf("%w: byte %d of the copy begins %#x instead of %#x", claims.ErrWrong, 8*i, got, want)
		}
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
	device *gpuDevice
	kernel *opencl.Kernel
	host   []byte
}

const (
	allocationBytes = 1 << 20
	pageBytes       = 4096
)

func newAllocation(d *gpuDevice, seed uint64) (gpuWork, error) {
	k, err := d.program.Kernel("touch")
	return &allocation{seed: seed, device: d, kernel: k, host: filled(allocationBytes)}, err
}

func (a *allocation) sample(number uint64) (_ claims.Measurement, err error) {
	const pages = allocationBytes / pageBytes
	seed := memoryWord(a.seed, number)
	var memory *opencl.Buffer
	touch := func(seed uint64) (time.Duration, error) {
		e, err := a.kernel.Launch([]int{pages}, []int{64}, memory, uint64(pages), seed)
		if err != nil {
			return 0, fmt.Errorf("use the memory: %w", err)
		}
		return e.Wait()
	}
	start := time.Now()
	if memory, err = a.device.ctx.NewBuffer(allocationBytes); err != nil {
		return claims.Measurement{}, fmt.Errorf("allocate: %w", err)
	}
	created := time.Since(start)
	device, err := touch(seed)
	wall := time.Since(start)
	if err == nil {
		err = a.check(memory, seed)
	}
	var again, free time.Duration
	if err == nil {
		start = time.Now()
		_, err = touch(seed + 1)
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
func (a *allocation) check(memory *opencl.Buffer, seed uint64) error {
	if err := memory.Read(a.host); err != nil {
		return fmt.Errorf("read the memory: %w", err)
	}
	for i := range allocationBytes / pageBytes {
		if got, want := binary.LittleEndian.Uint64(a.host[pageBytes*i:]), memoryWord(seed, uint64(i)); got != want {
			return fmt.Errorf("%w: page %d begins %#x instead of %#x", claims.ErrWrong, i, got, want)
		}
	}
	return nil
}
