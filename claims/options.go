package claims

import (
	"context"
	"log/slog"
	"time"
)

// Options say how a suite is run. The zero Options measure each probe for five
// seconds and write nothing.
type Options struct {
	Env Env

	// Duration of each probe's measurement; 0: as the file has it, else 5 s, unless
	// Samples or Iterations is given. One of the three replaces all that the file
	// says of them. What is reached first ends it. A probe so slow that there are fewer
	// than six samples then gets up to six times as long.
	Duration time.Duration
	// Samples to take of each probe; 0: as many as there is time for.
	Samples int
	// Iterations are operations: a batch of a hundred counts a hundred. 0: as many
	// as there is time for.
	Iterations int
	// Warmup comes first and is not judged; 0: a tenth of Duration, at least one
	// sample; negative: none.
	Warmup time.Duration

	// UntilDecided goes on with a probe until its claims are decided, by intervals
	// that may be looked at again and again, and stops then. Duration, Samples and
	// Iterations are for the probes without a claim.
	UntilDecided bool
	// Budget is the most time for a probe that is measured until decided; 0: a
	// minute.
	Budget time.Duration
	// MaxSamples bounds memory; 0: 200,000 a probe.
	MaxSamples int
	// Patience is how long a probe may be silent: how much longer than its time
	// one sample or its preparation may take before it is given up; 0: 2 minutes.
	Patience time.Duration

	// Stress measures the families side by side instead of one after the other; what
	// is done goes on as load until the last is measured.
	Stress bool
	// Beside is what goes on while probes are measured: logs, profiles. It writes to
	// Dir, and is left out without one.
	Beside []Beside

	// Dir is the results directory, which [Run] makes; it must be new or empty.
	// Empty: nothing is written.
	Dir string
	// History is the file that remembers earlier runs, for comparison; empty:
	// none.
	History string
	// Machine is the machine that is measured (see host.ReadMachine); nil: it has
	// no name and gives no advice.
	Machine Machine
	// Version of the program, for the record.
	Version string
	// Log is told how far the suite is; nil: nobody is.
	Log *slog.Logger
}

// Beside is something that goes on while probes are measured.
type Beside interface {
	// Start begins it; its files go to dir. An error is a note of the result.
	Start(ctx context.Context, dir string) error
	// Stop ends it, and adds what it found to the result. It is called only after
	// a Start that succeeded.
	Stop(r *Result)
}

// Machine is what is known of the machine beside what probes measure.
type Machine interface {
	// Name tells it from others that share a history.
	Name() string
	// Files are texts about it for the results directory, by file name.
	Files() map[string]string
	// Advice is what the readings since the machine was read, and the results,
	// give cause for.
	Advice(*Result) []Advice
	// Check compares it with what a file requires; dir is where probes write.
	Check(r Requirements, dir string) []Prerequisite
}

func (o Options) filled() Options {
	if o.Budget <= 0 {
		o.Budget = time.Minute
	}
	if o.MaxSamples <= 0 {
		o.MaxSamples = 200_000
	}
	if o.Patience <= 0 {
		o.Patience = 2 * time.Minute
	}
	if o.Env.ProcRoot == "" {
		o.Env.ProcRoot = "/proc"
	}
	if o.Env.SysRoot == "" {
		o.Env.SysRoot = "/sys"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
