// Package experiment runs several engines side by side in processes of their own
// and records what package compare judges.
//
// Every engine runs once a round, in an order that the seed decides, and is
// started and stopped for it; how many rounds are needed is computed from a
// pilot. An engine that fails is a result, and the others go on. It says nothing
// about who is faster.
package experiment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/compare"
	"github.com/assay-bench/assay/telemetry"
)

var (
	// ErrAllFailed means that every engine was dropped. The experiment says why each is.
	ErrAllFailed = errors.New("every engine failed")
	// ErrInterrupted means that the context ended. The experiment can be resumed.
	ErrInterrupted = errors.New("interrupted")
	// ErrExists is returned by Run for a directory that holds an experiment.
	// Resume it, or choose another directory.
	ErrExists = errors.New("there is an experiment in this directory")
	// ErrBusy means that another process runs the experiment. Wait for it.
	ErrBusy = errors.New("another process runs this experiment")
	// ErrLocked means that an engine is not the one that was asked for.
	ErrLocked = errors.New("the engine is not the one that is locked")
)

// maxFailures is how many visits in a row an engine may fail before it is dropped.
const maxFailures = 2

// Options are what an experiment needs besides its configuration.
type Options struct {
	Version assay.Version
	// Supervisor is the command line that ends up in proc.Supervise; engines
	// cannot be started without.
	Supervisor []string
	// NVML is the command line of a child that reads NVIDIA's driver (see
	// telemetry.ServeChild); empty: it is not read.
	NVML []string
	// Environ is our environment, of which engines get PATH, HOME and what the
	// configuration names.
	Environ []string
	// Command is the command line that began the experiment, for whoever repeats it;
	// nil: it is not recorded.
	Command []string
	// Locked is what engines must be, by name, from an earlier experiment (see
	// [compare.ReadLocks]); nil: whatever they are.
	Locked map[string]map[string]string
	// Log has what a person should know, a line at a time; nil: it is not printed.
	// It all goes into logs/benchmark.log too.
	Log *slog.Logger
	// Progress is called at least once a second while an engine is measured; nil:
	// it is not shown.
	Progress func(Progress)
}

// Progress is where an experiment is.
type Progress struct {
	Engine   string
	Workload string
	Round    int // 0: the pilot
	Rounds   int // planned; 0: not known yet
	Done     int // samples on record
	// Run is the run under way; nil where a benchmark binary measures itself.
	Run *assay.Checkpoint
}

// trial is an experiment under way.
type trial struct {
	cfg      Config
	opt      Options
	dir      string
	engines  []EngineConfig // those that take part
	log      *logbook
	mon      *monitor
	counters counters
	began    time.Time
	used     time.Duration // by earlier processes of the same experiment

	mu  sync.Mutex // guards exp.Notes
	exp *compare.Experiment
}

// Run does the experiment and records it in dir, which must hold none. What was
// measured is on disk after each run of an engine; when the error is not nil, the
// experiment says how far it came.
func Run(ctx context.Context, c Config, dir string, o Options) (compare.Experiment, error) {
	if _, err := os.Stat(filepath.Join(dir, compare.ExperimentFile)); err == nil {
		return compare.Experiment{}, fmt.Errorf("%s: %w", dir, ErrExists)
	}
	c, err := c.clone()
	if err != nil {
		return compare.Experiment{}, err
	}
	if f := c.faults(); len(f) > 0 {
		return compare.Experiment{}, fmt.Errorf("the configuration: %s", f[0].text)
	}
	c.fill()
	config, hash, err := c.encoded()
	if err != nil {
		return compare.Experiment{}, err
	}
	e := compare.Experiment{
		Format: compare.ExperimentFormat, ID: ulid.Make().String(), Name: c.Benchmark.Name,
		Created: time.Now().UnixNano(), Version: o.Version, Node: telemetry.DescribeNode(),
		Config: config, ConfigSHA256: hash, Status: assay.StatusPartial, Paired: true,
		Notes: c.notes(), Command: o.Command,
	}
	if e.Analysis, err = c.ask(); err != nil {
		return compare.Experiment{}, err
	}
	for _, w := range c.Workloads {
		e.Workloads = append(e.Workloads, w.Name)
		e.Loads = append(e.Loads, w.load())
	}
	x := &trial{cfg: c, opt: o, dir: dir, exp: &e}
	return x.run(ctx)
}

// Resume goes on with an experiment that was interrupted: runs that are on record
// stay, in the same plan and order. The configuration is the experiment's own.
func Resume(ctx context.Context, dir string, o Options) (compare.Experiment, error) {
	e, c, err := recorded(dir)
	if err != nil {
		return compare.Experiment{}, fmt.Errorf("resume %s: %w", dir, err)
	}
	if e.Status == assay.StatusComplete {
		return e, nil
	}
	x := &trial{cfg: c, opt: o, dir: dir, exp: &e}
	for _, s := range e.Samples {
		x.used += time.Duration(max(0, s.Ended-s.Started))
	}
	return x.run(ctx)
}

// run is what Run and Resume share.
func (x *trial) run(ctx context.Context) (_ compare.Experiment, err error) {
	x.engines, x.began = x.cfg.enabled(), time.Now()
	if err := x.prerequisites(); err != nil {
		return *x.exp, err
	}
	for _, d := range []string{"logs", "raw_data", "runs"} {
		if err := os.MkdirAll(filepath.Join(x.dir, d), 0o755); err != nil {
			return *x.exp, fmt.Errorf("making the experiment's directory: %w", err)
		}
	}
	if x.log, err = openLog(filepath.Join(x.dir, "logs", "benchmark.log"), x.opt.Log); err != nil {
		return *x.exp, err
	}
	defer func() { err = errors.Join(err, x.log.close()) }()
	x.mon, err = newMonitor(ctx, x)
	if err != nil {
		return *x.exp, err
	}
	defer x.mon.close()
	x.log.linef("experiment %s in %s, configuration %s", x.exp.ID, x.dir, x.exp.ConfigSHA256)
	for _, n := range x.cfg.notes() {
		x.say("%s", n)
	}
	err = x.all(ctx)
	if !x.mon.saw(assay.HostTemperature) {
		x.note("this machine gives no temperature of its processors")
	}
	if ctx.Err() != nil {
		err = ErrInterrupted
	}
	x.exp.Ended = time.Now().UnixNano()
	if err != nil {
		x.log.linef("ended: %v", err)
	} else {
		x.log.linef("ended: %s", x.exp.Status)
	}
	return *x.exp, errors.Join(err, x.save())
}

// all does what is left of the experiment.
func (x *trial) all(ctx context.Context) error {
	if err := x.identify(ctx); err != nil {
		return err
	}
	x.findCounters(ctx)
	if err := x.writeCases(); err != nil {
		return fmt.Errorf("writing test cases: %w", err)
	}
	if err := x.save(); err != nil {
		return err
	}
	x.mon.settle(ctx)
	if x.exp.Plan.Rounds == 0 {
		for pass := range *x.cfg.Experiment.Pilot {
			if err := x.round(ctx, 0, pass); err != nil {
				return err
			}
		}
		x.plan()
		if err := x.save(); err != nil {
			return err
		}
	}
	return x.rounds(ctx)
}

// rounds does the judged rounds.
func (x *trial) rounds(ctx context.Context) error {
	p := x.exp.Plan
	for n := 1; n <= p.Rounds; n++ {
		if !x.inTime(n) {
			x.note("stopped by its time budget of %s after %d of %d rounds", x.cfg.Experiment.TimeBudget, n-1, p.Rounds)
			return nil
		}
		if err := x.round(ctx, n, 0); err != nil {
			return err
		}
		if x.lookDue(n) {
			if compare.Decided(*x.exp) {
				x.note("stopped after %d of %d rounds: a planned look found the question decided", n, p.Rounds)
				break
			}
			x.say("round %d of %d: a planned look found it undecided", n, p.Rounds)
		}
	}
	x.exp.Status = assay.StatusComplete
	return nil
}

// lookDue reports whether the plan looks at the verdict after round n. The analysis
// knows by the rounds on record which look that is, so a resumed experiment that is
// past a look must not take it again: it would see more than was planned.
func (x *trial) lookDue(n int) bool {
	p := x.exp.Plan
	return n < p.Rounds && slices.Contains(compare.LookRounds(p), n) && x.latest() == n
}

// inTime reports whether another round fits into the budget, by the longest so far.
func (x *trial) inTime(n int) bool {
	budget := time.Duration(x.cfg.Experiment.TimeBudget)
	if budget <= 0 || n == 1 || x.latest() >= n {
		return true
	}
	return x.spent()+x.roundTime() <= budget
}

func (x *trial) spent() time.Duration { return x.used + time.Since(x.began) }

// round has every engine that was not dropped run once, in an order that the seed
// decides. What is on record is not done again.
func (x *trial) round(ctx context.Context, round, pass int) error {
	in := 0
	for place, i := range order(x.cfg.Experiment.Seed, round, pass, len(x.engines)) {
		e := x.engines[i]
		if x.out(e.Name) != "" {
			continue
		}
		in++
		at := pass*len(x.engines) + place + 1
		todo := x.left(e.Name, round, at)
		if len(todo) == 0 {
			continue
		}
		if err := x.coolDown(ctx); err != nil {
			return err
		}
		what := fmt.Sprintf("round %d of %d", round, x.exp.Plan.Rounds)
		if round == 0 {
			what = fmt.Sprintf("pilot %d of %d", pass+1, *x.cfg.Experiment.Pilot)
		}
		x.say("%s: %s", what, e.Name)
		x.mon.visited = true
		if err := x.visit(ctx, e, round, at, todo); err != nil {
			return err
		}
	}
	if in == 0 {
		return x.allFailed()
	}
	return nil
}

func (x *trial) allFailed() error {
	var why []string
	for _, e := range x.exp.Engines {
		why = append(why, e.Name+": "+e.Failed)
	}
	return fmt.Errorf("%w: %s", ErrAllFailed, strings.Join(why, "; "))
}

// left are the workloads of a visit that are not on record.
func (x *trial) left(engine string, round, at int) []WorkloadConfig {
	return slices.DeleteFunc(slices.Clone(x.cfg.Workloads), func(w WorkloadConfig) bool {
		return slices.ContainsFunc(x.exp.Samples, func(s compare.Sample) bool {
			return s.Engine == engine && s.Workload == w.Name && s.Round == round && (round > 0 || s.Order == at)
		})
	})
}

// latest is the last round that was begun.
func (x *trial) latest() int {
	n := 0
	for _, s := range x.exp.Samples {
		n = max(n, s.Round)
	}
	return n
}

// engine is the record of an engine.
func (x *trial) engine(name string) *compare.Engine {
	i := slices.IndexFunc(x.exp.Engines, func(e compare.Engine) bool { return e.Name == name })
	return &x.exp.Engines[i]
}

// out is why an engine takes part no more; empty: it does.
func (x *trial) out(name string) string { return x.engine(name).Failed }

func (x *trial) isolated(name, how string) { x.engine(name).Isolation = how }

// note keeps a remark with the experiment, once.
func (x *trial) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	x.mu.Lock()
	known := slices.Contains(x.exp.Notes, text)
	if !known && len(x.exp.Notes) < 1000 {
		x.exp.Notes = append(x.exp.Notes, text)
	}
	x.mu.Unlock()
	if !known {
		x.say("%s", text)
	}
}

func (x *trial) say(format string, args ...any) { x.log.sayf(format, args...) }

func (x *trial) progress(p Progress) {
	if x.opt.Progress == nil {
		return
	}
	p.Rounds, p.Done = x.exp.Plan.Rounds, len(x.exp.Samples)
	x.opt.Progress(p)
}
