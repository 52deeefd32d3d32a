package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/child"
)

// ChooseOptions say what there may be to read. The zero value chooses by
// itself, without NVML and without an engine.
type ChooseOptions struct {
	// Child is the command line of a process that serves NVML by ServeChild;
	// nil: no NVML.
	Child        []string
	ChildOptions ChildOptions
	// NvidiaSMI is its path; empty: nvidia-smi, as PATH has it.
	NvidiaSMI string
	// ProcRoot and SysRoot are where procfs and sysfs are; empty: /proc, /sys.
	ProcRoot, SysRoot string
	// DCGMURL is the page of a dcgm-exporter; empty: the usual one on this
	// machine, if nothing else knows a GPU and it answers.
	DCGMURL string
	// EngineURL is the engine; empty: none is read.
	EngineURL    string
	EngineHeader http.Header
	// Interval is the poll's; 0: 100 ms.
	Interval time.Duration
	// Deadline is how long a source may take to begin; 0: 10 s.
	Deadline time.Duration
}

// localDCGM is where dcgm-exporter listens unless told otherwise.
const localDCGM = "http://localhost:9400/metrics"

// Choose finds the sources that this machine has, without the client's own. A
// GPU is read by one source only: NVML, or else nvidia-smi; AMD's driver; and
// dcgm-exporter when nothing else knows the GPU. Each source that could have
// been there and is not is told in notes, in words for the run. An error means
// that the context ended; the sources are closed then.
func Choose(ctx context.Context, o ChooseOptions) (sources []Source, gpus []assay.GPU, notes []string, err error) {
	if o.Interval <= 0 {
		o.Interval = 100 * time.Millisecond
	}
	if o.Deadline <= 0 {
		o.Deadline = 10 * time.Second
	}
	c := choice{o: o, seen: map[string]string{}}
	for _, step := range []func(context.Context){c.nvidia, c.amd, c.dcgm, c.host, c.engine} {
		if ctx.Err() != nil {
			break
		}
		step(ctx)
	}
	if err := ctx.Err(); err != nil {
		for _, s := range c.sources {
			err = errors.Join(err, s.Close())
		}
		return nil, nil, c.notes, fmt.Errorf("choosing sources of readings: %w", err)
	}
	return c.sources, c.gpus, c.notes, nil
}

type choice struct {
	o       ChooseOptions
	sources []Source
	gpus    []assay.GPU
	seen    map[string]string // the source of each GPU, by UUID and by bus id
	notes   []string
}

func (c *choice) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// take adds a source and its GPUs, unless another one reads any of them.
func (c *choice) take(s Source, gpus []assay.GPU) {
	for _, g := range gpus {
		for _, id := range []string{g.UUID, busID(g)} {
			if other := c.seen[id]; id != "" && other != "" {
				c.note("%s is not used: %s reads %s already", s.Name(), other, g.Name)
				if err := s.Close(); err != nil {
					c.note("closing %s: %v", s.Name(), err)
				}
				return
			}
		}
	}
	for _, g := range gpus {
		c.seen[g.UUID] = s.Name()
		if id := busID(g); id != "" {
			c.seen[id] = s.Name()
		}
	}
	c.sources = append(c.sources, s)
	c.gpus = append(c.gpus, gpus...)
}

// busID makes bus ids of four and of eight digits alike.
func busID(g assay.GPU) string {
	if len(g.PCIBusID) < len("0000:00:00.0") {
		return ""
	}
	return "pci " + strings.ToLower(g.PCIBusID[len(g.PCIBusID)-len("0000:00:00.0"):])
}

func (c *choice) nvidia(ctx context.Context) {
	if len(c.o.Child) > 0 {
		nvml := NewChild("nvml", c.o.Child, c.o.ChildOptions)
		gpus, err := describe(ctx, nvml, c.o.Deadline)
		if err == nil && len(gpus) > 0 {
			c.take(nvml, gpus)
			return
		}
		_ = nvml.Close() // it has already failed
		if err != nil {
			c.note("nvml: %v", err)
		} else {
			c.note("nvml: no GPU")
		}
	}
	within, cancel := context.WithTimeout(ctx, c.o.Deadline)
	defer cancel()
	smi, err := NewSMI(within, SMIOptions{Path: c.o.NvidiaSMI, Interval: c.o.Interval})
	switch {
	case err == nil:
		c.take(smi, smi.GPUs())
	case errors.Is(err, exec.ErrNotFound) && c.o.NvidiaSMI == "":
		c.note("nvidia-smi: not installed")
	default:
		c.note("nvidia-smi: %v", err)
	}
}

// describe asks a child for its GPUs until it has started: its process says so
// when the driver is there.
func describe(ctx context.Context, c *Child, deadline time.Duration) ([]assay.GPU, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	for {
		gpus, err := c.Describe(ctx)
		if !errors.Is(err, child.ErrStarting) {
			return gpus, err
		}
	}
}

func (c *choice) amd(ctx context.Context) {
	a, err := NewAMDGPU(ctx, AMDGPUOptions{SysRoot: c.o.SysRoot})
	if err != nil {
		if !errors.Is(err, ErrNoCards) {
			c.note("amdgpu: %v", err)
		}
		return
	}
	c.take(a, a.GPUs())
}

func (c *choice) dcgm(ctx context.Context) {
	address := c.o.DCGMURL
	if address == "" {
		if len(c.gpus) > 0 {
			return
		}
		address = localDCGM
	}
	d, err := NewDCGM(ctx, DCGMOptions{URL: address})
	switch {
	case err == nil:
		c.take(d, d.GPUs())
	case c.o.DCGMURL != "": // nobody misses what nobody asked for
		c.note("dcgm: %v", err)
	}
}

func (c *choice) host(context.Context) {
	h, err := NewHost(HostOptions{ProcRoot: c.o.ProcRoot, SysRoot: c.o.SysRoot})
	if err != nil {
		c.note("host: %v", err)
		return
	}
	c.take(h, nil)
}

func (c *choice) engine(ctx context.Context) {
	if c.o.EngineURL == "" {
		return
	}
	e, err := NewEngine(ctx, EngineOptions{URL: c.o.EngineURL, Header: c.o.EngineHeader})
	if err != nil {
		c.note("engine: %v", err)
		return
	}
	c.take(e, nil)
}
