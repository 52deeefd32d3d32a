// Package claims compares a machine with promises: probes measure, a file says
// what was promised, and the verdict comes from the interval of what was
// measured, never from a point.
//
// It refuses to take a missing value for a kept promise, to give a percentile of
// what was timed in batches, and to change anything on the machine.
package claims

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assay-bench/assay"
)

// ErrUnavailable says that a probe cannot run here; its text says why and what
// it would need. The probe's claims are then unknown, not failed.
var ErrUnavailable = errors.New("not available")

// ErrWrong says that the work under measurement gave a wrong result. The probe
// fails, whatever its speed.
var ErrWrong = errors.New("wrong result")

// Unavailablef says that a probe cannot run here, and why: it wraps
// [ErrUnavailable] and whatever the format wraps.
func Unavailablef(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnavailable, fmt.Errorf(format, args...))
}

// Probe is one measurement that can be asked for by name.
type Probe struct {
	Name   string          // family/what, as consensus/single_vote
	Help   string          // what is done, in a sentence
	Needs  string          // what it needs: a GPU, root, a container runtime; empty: nothing
	Unit   string          // of its values: s, 1/s, bytes/s, ratio
	Better assay.Direction // of its values
	// Start prepares the probe: memory, files, devices. It returns ErrUnavailable
	// (wrapped, with the reason) where the probe cannot run.
	Start func(ctx context.Context, env Env) (Runner, error)
}

// Family is the part of the name before the slash.
func (p Probe) Family() string {
	for i := range len(p.Name) {
		if p.Name[i] == '/' {
			return p.Name[:i]
		}
	}
	return p.Name
}

// Runner is a probe made ready. It is used by one goroutine.
type Runner interface {
	// Sample does the work once and says what came out. An error that wraps
	// ErrWrong fails the probe; any other ends it.
	Sample(ctx context.Context) (Measurement, error)
	Close() error
}

// Distribution is what a [Runner] also is whose samples are reduced elsewhere, as
// the requests of an engine are by summary. Its claims are judged by these figures,
// over everything that was sampled, and each Measurement's Value is the mean of its
// Batch. It has a warm-up of its own. The figures are asked for after Close, too.
type Distribution interface {
	Mean() assay.Quantity
	Percentile(level float64) assay.Quantity // in (0,100)
	Range() (low, high float64)              // NaN: not known
}

// Measurement is one sample.
type Measurement struct {
	// Value in the probe's unit: of one operation, or the mean of Batch of them
	// where one is too short for the clock.
	Value float64
	// Batch is how many operations Value is the mean of; 0 and 1: one, timed by
	// itself. Of batches no percentile is given: the mean of a batch has none.
	Batch int
	// Extra are further figures by name, kept with the sample: counters before
	// and after, sizes.
	Extra map[string]float64
}

// Env is where probes run. Its fields are Go code's to set: no flag reaches
// those that tests need.
type Env struct {
	// Dir is a directory that probes may write to, on the disk that is meant.
	Dir string
	// GPU is the command line of a child that runs GPU probes for us (see
	// gpu.Serve); nil: they are not available.
	GPU []string
	// NVML is the command line of a child that reads NVIDIA's driver (see
	// telemetry.ServeChild); nil: it is not read.
	NVML []string
	// Agent is the command line that starts our own binary as an agent that says
	// ready and ends; nil: not available.
	Agent []string
	// ProcRoot and SysRoot are where procfs and sysfs are; empty: /proc, /sys.
	ProcRoot, SysRoot string
	// Module is a kernel module to measure with and without; empty: none.
	Module string
	// EngineURL is for the inference probes; empty: looked for on the usual ports.
	EngineURL string
	// Seed of generated data.
	Seed uint64
	// Deadline is for one call of native code; 0: 30 s.
	Deadline time.Duration
}

// Timeout is Deadline, or what stands for it when it is not set.
func (e Env) Timeout() time.Duration {
	if e.Deadline <= 0 {
		return 30 * time.Second
	}
	return e.Deadline
}
