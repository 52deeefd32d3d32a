// Package hammer composes one node's measurement: it finds the engine, learns
// how long its tokens are, makes the load, records everything into a run
// directory, and has it summarised.
//
// What it promises: a run that is interrupted, whose engine dies or whose disk
// fills up ends as a partial run that can be read and resumed, and says what
// happened. It prints nothing; what there is to see comes through Options.
package hammer

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/inference"
	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/internal/proc"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/load"
	"github.com/assay-bench/assay/summary"
	"github.com/assay-bench/assay/telemetry"
)

var (
	// ErrEngineDown means that the engine stopped answering in the middle of
	// the run. The run directory is partial; start the engine and resume.
	ErrEngineDown = errors.New("the engine stopped answering")
	// ErrRefused means that the engine refuses what is asked of it. Resuming
	// the run does not help; its words say what to change.
	ErrRefused = errors.New("the engine refuses the requests")
	// ErrNothingMeasured means that no request succeeded.
	ErrNothingMeasured = errors.New("no request succeeded")
	// ErrTooShort means that requests succeeded, but none that is judged: the
	// stages ended while warm-ups were under way. Measure longer.
	ErrTooShort = errors.New("only warm-ups ended, which are not judged")
	// ErrInterrupted means that the context ended. The run can be resumed.
	ErrInterrupted = errors.New("interrupted")
)

// Options are what Run needs besides the measurement's configuration.
type Options struct {
	Version assay.Version
	// Node is the id of this machine in run.json; empty: its host name. A node
	// that a network took in has one that nobody else has.
	Node string
	// Replica is the engine's name on that node, in run.json; empty: it has none.
	Replica string
	// Nonce goes into run.json, hexadecimal; empty: 16 random bytes.
	Nonce string
	// Progress gets a checkpoint every second; nil: nobody looks.
	Progress func(assay.Checkpoint)
	// NVML is the command line of a child that reads NVIDIA's driver for us (see
	// telemetry.ServeChild); empty: the driver is not read.
	NVML []string
	// Checks are what was verified before; they are recorded with the run, and
	// the node's health rests on them too.
	Checks []assay.Check
	// Begin is waited for when everything is prepared, just before the load; nil:
	// it begins at once. Its error ends the run.
	Begin func(context.Context) error
	// Found is told what GPUs there are before the load; nil: nobody asks.
	Found func([]assay.GPU)
	// Reading gets each reading as it is recorded; nil: nobody looks.
	Reading func(assay.Reading)
}

// run is a measurement under way.
type run struct {
	cfg     Config
	opt     Options
	id      string
	clock   *clock.Clock
	client  *inference.Client
	w       *journal.Writer
	plan    load.Plan
	trace   []load.Arrival
	past    replayed
	node    node
	source  prompts
	body    json.RawMessage // merged into every request's body
	feed    *feed
	dropped map[string]bool // optional fields that the engine refuses
	gen     *load.Generator
	live    *summary.Live
	beside  beside
	next    atomic.Int64 // number of the next prompt
	cancel  context.CancelCauseFunc
	started int64
	demoted chan proc.Standing // the priority was taken away

	mu     sync.Mutex // guards what follows
	stage  assay.Stage
	stageN int
	col    *summary.Collector // of the stage, for searches
	errs   map[assay.Failure]int
	sent   int
	done   int
	alive  int64 // when a request last got through, or the run began
	refuse refusals
	began  int64             // when the stage began
	speed  *summary.Watchdog // of the stage; nil: nobody looks
	// Of the stage: requests that succeeded, and their tokens.
	answered       int
	answeredTokens int64
}

// Run measures as the configuration says and records it in dir, which must be
// empty or not exist. The configuration must be resolved (see [Resolve]). The
// summary is returned also when the error is not nil, if there is one.
func Run(ctx context.Context, c Config, dir string, opt Options) (assay.Summary, error) {
	r, err := newRun(c, opt, ulid.Make().String())
	if err != nil {
		return assay.Summary{}, err
	}
	defer r.client.Close()
	if err := r.lookAround(ctx); err != nil {
		return assay.Summary{}, err
	}
	if opt.Nonce == "" {
		if opt.Nonce, err = newNonce(); err != nil {
			return assay.Summary{}, err
		}
	}
	config, err := json.Marshal(c)
	if err != nil {
		return assay.Summary{}, fmt.Errorf("encode the configuration: %w", err)
	}
	client, lower := r.raise()
	defer lower()
	machine := telemetry.DescribeNode()
	if opt.Node != "" {
		machine.ID = opt.Node
	}
	machine.GPUs = append(machine.GPUs, r.node.gpus...)
	r.w, err = journal.Create(dir, assay.Manifest{
		Format: assay.RunFormat, ID: r.id, Created: r.clock.Now(),
		Node: machine, Clock: r.client.Source(), Client: &client,
		Engine: assay.Engine{
			URL: c.URL, Backend: c.Backend, Model: c.Model, Version: c.engineVersion, Replica: opt.Replica,
			ModelParameters: c.engineModel.Parameters, ModelBytes: c.engineModel.Bytes,
		},
		Seed: c.Seed, Nonce: opt.Nonce, Version: opt.Version, Config: config, Judge: c.Judge,
	})
	if err != nil {
		return assay.Summary{}, err
	}
	return r.measure(ctx, dir, nil)
}

func newNonce() (string, error) {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("make a nonce: %w", err)
	}
	return hex.EncodeToString(b), nil
}

// newRun prepares what needs no run directory.
func newRun(c Config, opt Options, id string) (*run, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	r := &run{cfg: c, opt: opt, id: id, clock: clock.New(), live: summary.NewLive(), errs: map[assay.Failure]int{}}
	if r.opt.Progress == nil {
		r.opt.Progress = func(assay.Checkpoint) {}
	}
	if r.opt.Reading == nil {
		r.opt.Reading = func(assay.Reading) {}
	}
	if r.opt.Found == nil {
		r.opt.Found = func([]assay.GPU) {}
	}
	if c.Load.Mode == ModeReplay {
		var err error
		if r.trace, err = readTrace(c.Load); err != nil {
			return nil, err
		}
	}
	var err error
	if r.plan, err = c.plan(r.trace); err != nil {
		return nil, err
	}
	if r.body, err = c.extra(); err != nil {
		return nil, err
	}
	client, err := c.client(r.clock)
	if err != nil {
		return nil, err
	}
	if r.client, err = inference.New(client); err != nil {
		return nil, err
	}
	return r, nil
}

// measure runs the stages and ends the run, whatever happens on the way.
func (r *run) measure(ctx context.Context, dir string, before *journal.Resumed) (assay.Summary, error) {
	r.started = r.clock.Now()
	r.alive = r.started
	ctx, r.cancel = context.WithCancelCause(ctx)
	defer r.cancel(nil)

	for _, n := range r.node.notes {
		r.event(assay.EventNote, "", n, nil)
	}
	r.opt.Found(r.node.gpus)
	stopReading := r.read(ctx)
	err := r.settle(ctx)
	if err == nil {
		err = r.prepare(ctx, before)
	}
	if err == nil && r.opt.Begin != nil {
		err = r.opt.Begin(ctx)
	}
	if err == nil {
		r.openTotals(ctx)
		stop := r.watch(ctx)
		r.node.witness.enter(phaseLoad)
		err = r.stages(ctx, dir, before)
		r.node.witness.enter(phaseBusy)
		stop()
		r.closeTotals()
	}
	stopReading()
	r.verified()
	if cause := context.Cause(ctx); cause != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = cause
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		err = ErrInterrupted
		r.event(assay.EventInterrupted, "", "interrupted", nil)
	case errors.Is(err, ErrEngineDown):
		r.event(assay.EventEngineDown, "", err.Error(), nil)
	}
	return r.finish(dir, err)
}

// finish writes the last checkpoint and the summary.
func (r *run) finish(dir string, err error) (assay.Summary, error) {
	status := assay.StatusComplete
	if err != nil {
		status = assay.StatusPartial
	}
	cp := r.checkpoint(status)
	werr := r.w.Checkpoint(cp)
	r.opt.Progress(cp)
	var sum assay.Summary
	rd, oerr := journal.Open(dir)
	if oerr == nil {
		sum, oerr = summary.Of(rd)
	}
	if oerr == nil {
		sum.Status = status
		oerr = r.w.Summary(&sum)
	}
	if oerr == nil {
		var h assay.Health
		if h, oerr = Health(rd, sum); oerr == nil {
			oerr = r.w.Health(&h)
		}
	}
	err = errors.Join(err, werr, oerr, r.w.Close())
	if err == nil {
		err = measured(sum)
	}
	return sum, err
}

// event records an event now. A failure to write is the writer's to keep.
func (r *run) event(kind assay.EventKind, stage, text string, data map[string]float64) {
	r.put(assay.Event{At: r.clock.Now(), Kind: kind, Stage: stage, Text: text, Data: data})
}

func (r *run) put(e assay.Event) { r.check(r.w.Event(e)) }

// check ends the run at the first error of recording: what cannot be recorded
// must not be measured.
func (r *run) check(err error) {
	if err != nil && !errors.Is(err, journal.ErrRecorded) {
		r.cancel(fmt.Errorf("recording the run: %w", err))
	}
}
