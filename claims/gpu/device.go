package gpu

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/opencl"
)

//go:embed kernels_consensus.cl
var consensusCL string

//go:embed kernels_synthesis.cl
var synthesisCL string

//go:embed kernels_memory.cl
var memoryCL string

// gpuWork is the work of one probe, ready on the device. A sample takes new data,
// made from its number, and overwrites old results first, so that nothing left
// over can pass for a result. What it times is from the first call into the driver
// until the result is there; making data and checking it lie outside.
type gpuWork interface {
	sample(number uint64) (claims.Measurement, error)
}

// gpuLoad is work that can also keep the device busy without a pause.
type gpuLoad interface {
	load(d time.Duration) error
}

// gpuKind is a kind of work by the probe's name.
type gpuKind struct {
	name    string
	source  string
	prepare func(d *gpuDevice, seed uint64) (gpuWork, error)
	memory  bool // it is about memory, which the CUDA driver reaches too
}

func gpuKinds() []gpuKind {
	kinds := []gpuKind{
		{name: "consensus/single_vote", source: consensusCL, prepare: newSingleVote},
		{name: "consensus/batch_100", source: consensusCL, prepare: newBatch(honestVotes)},
		{name: "consensus/byzantine_100", source: consensusCL, prepare: newBatch(byzantineVotes)},
		{name: "synthesis/pattern_matching", source: synthesisCL, prepare: newMatch},
		{name: "synthesis/template_expansion", source: synthesisCL, prepare: newExpand},
		{name: "synthesis/tree_rewriting", source: synthesisCL, prepare: newRewrite},
		{name: "kernel/gpu_allocation", source: memoryCL, prepare: newAllocation, memory: true},
		{name: pressureName, source: memoryCL, prepare: newPressure, memory: true},
	}
	for _, c := range gpuCopies() {
		kinds = append(kinds, gpuKind{name: c.name, source: memoryCL, prepare: newCopy(c.bytes), memory: true})
	}
	return kinds
}

func findGPUWork(name string) (gpuKind, bool) {
	for _, k := range gpuKinds() {
		if k.name == name {
			return k, true
		}
	}
	return gpuKind{}, false
}

// gpuDevice is an opened device with one compiled source.
type gpuDevice struct {
	identity gpuIdentity
	largest  uint64          // the most that one buffer may hold; 0: not known
	patterns int             // that synthesis/pattern_matching matches
	ctx      *opencl.Context // nil: it is reached by CUDA, and only for its memory
	program  *opencl.Program
	memory   memoryDevice // nil: the probe is not about memory
	close    func() error
}

// openFor opens a device for a kind of work: by OpenCL, or, where that has no GPU,
// by the CUDA driver, if the work is about memory.
func openFor(native Native, w gpuKind) (*gpuDevice, error) {
	device, err := openGPU(native, w.source)
	if err != nil {
		if !w.memory {
			return nil, openclMissing(native, err)
		}
		device, cerr := openCUDA(native)
		if cerr != nil {
			return nil, fmt.Errorf("%w; and by CUDA: %w", err, cerr)
		}
		return device, nil
	}
	if w.memory {
		if device.memory, err = newOpenCLMemory(device.ctx, device.program); err != nil {
			return nil, errors.Join(device.explain(err), device.close())
		}
	}
	return device, nil
}

// openGPU opens the first device that is not a CPU. A claim about a GPU cannot be
// kept by the CPU.
func openGPU(native Native, source string) (*gpuDevice, error) {
	lib, err := opencl.Open(opencl.Options{Libraries: native.OpenCL})
	if err != nil {
		return nil, fmt.Errorf("%w: it needs a GPU with OpenCL: %w", claims.ErrUnavailable, err)
	}
	devices, err := lib.Devices()
	if err != nil {
		return nil, fmt.Errorf("%w: the devices cannot be listed: %w", claims.ErrUnavailable, err)
	}
	var chosen, cpu *opencl.Device
	for _, d := range devices {
		if d.Type&opencl.TypeCPU != 0 {
			if cpu == nil {
				cpu = d
			}
		} else if chosen == nil {
			chosen = d
		}
	}
	switch {
	case chosen == nil && cpu == nil:
		return nil, fmt.Errorf("%w: OpenCL (%s) shows no device", claims.ErrUnavailable, lib.Path())
	case chosen == nil && !native.AllowCPU:
		return nil, fmt.Errorf("%w: it needs a GPU; OpenCL shows only %s, which is a %s", claims.ErrUnavailable, cpu.Name, cpu.Type)
	case chosen == nil:
		chosen = cpu
	}
	ctx, err := chosen.NewContext()
	if err != nil {
		return nil, fmt.Errorf("%w: open %s: %w", claims.ErrUnavailable, chosen.Name, err)
	}
	if native.kernels != nil {
		source = native.kernels(source)
	}
	program, err := ctx.Build(source, "")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: compile for %s: %w", claims.ErrUnavailable, chosen.Name, err), ctx.Close())
	}
	return &gpuDevice{
		identity: gpuIdentity{Name: chosen.Name, Type: chosen.Type.String(), Backend: "opencl", UUID: chosen.UUID, PCIBusID: chosen.PCIBusID},
		largest:  chosen.MaxAllocBytes, patterns: cmp.Or(native.patterns, patternCount), ctx: ctx, program: program, close: ctx.Close,
	}, nil
}

// explain makes a want of memory, or a kernel that the device cannot run, a probe
// that is not available.
func (d *gpuDevice) explain(err error) error {
	if errors.Is(err, claims.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w on %s: %w", claims.ErrUnavailable, d.identity.Name, err)
}

// buffer allocates device memory and puts the content there.
func (d *gpuDevice) buffer(content []byte) (*opencl.Buffer, error) {
	b, err := d.ctx.NewBuffer(len(content))
	if err != nil {
		return nil, err
	}
	return b, b.Write(content)
}

// buffers allocates several of undefined content.
func (d *gpuDevice) buffers(sizes ...int) ([]*opencl.Buffer, error) {
	var all []*opencl.Buffer
	for _, n := range sizes {
		b, err := d.ctx.NewBuffer(n)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// timed is one operation by the wall clock. The user waits for that, so it is the
// value; the device's own account of its kernels stands beside it.
func timed(operation func() ([]*opencl.Event, error)) (wall, device time.Duration, err error) {
	start := time.Now()
	events, err := operation()
	wall = time.Since(start)
	for _, e := range events {
		if err != nil {
			e.Drop()
			continue
		}
		var ran time.Duration
		ran, err = e.Wait()
		device += ran
	}
	return wall, device, err
}

// source of data for one sample of one probe.
func gpuRandom(seed, number uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, number)) }

// filled is n bytes that no result looks like.
func filled(n int) []byte { return bytes.Repeat([]byte{0xEE}, n) }

// groups rounds up to whole groups.
func groups(n, size int) int { return (n + size - 1) / size * size }
