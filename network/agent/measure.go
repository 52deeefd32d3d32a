package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/internal/proc"
	"github.com/assay-bench/assay/verify"
)

// Order is one check of a node, resolved: what the child that makes it is told.
type Order struct {
	Node    string         `json:"node"`              // its ULID, for run.json
	Replica string         `json:"replica,omitempty"` // the engine's name on it
	Dir     string         `json:"dir"`               // of the run; it must not exist
	Config  hammer.Config  `json:"config"`
	APIKey  string         `json:"api_key,omitempty"`
	GPU     GPU            `json:"gpu"`
	Nice    int            `json:"nice,omitempty"`  // step back by this much
	Yield   bool           `json:"yield,omitempty"` // end when others ask the engine
	Light   bool           `json:"light,omitempty"` // the engine serves others: be short
	Clock   Skew           `json:"clock"`
	Limit   assay.Duration `json:"limit"` // of the whole
	// Begin is when the load begins, in Unix nanoseconds of this machine's clock; 0:
	// at once.
	Begin int64 `json:"begin_ns,omitempty"`
	// Nonce and Challenge are those of the command that asks for it; empty and 0: the
	// run draws its own.
	Nonce     string `json:"nonce,omitempty"`
	Challenge uint64 `json:"challenge,omitempty"`
}

// MeasureOptions are what Measure needs of the process that it runs in.
type MeasureOptions struct {
	Version assay.Version
	NVML    []string // command line of the child that reads NVIDIA's driver
	// Verify verifies the GPUs of this machine.
	Verify   func(context.Context, verify.Options) (verify.Result, error)
	Progress func(assay.Checkpoint)
}

// Errors of a check.
var (
	// ErrYield means that others asked the engine meanwhile. Try again later.
	ErrYield = errors.New("the engine serves others")
	// ErrStopped means that somebody told the check to stop.
	ErrStopped = errors.New("told to stop")
)

// maxForeign is how many looks in a row must show somebody else's requests before
// a check gives way: one may be a request of ours that the engine still counts.
const maxForeign = 3

// Measure verifies and measures this node into a run directory: the one function
// that a check of a node is. What it finds wrong with the node is in the run's
// checks; the error is that no run could be recorded to its end.
func Measure(ctx context.Context, o Order, opt MeasureOptions) (assay.Summary, error) {
	if o.Nice > 0 {
		_ = proc.Lower(o.Nice) // less would be better, and more is no reason not to measure
	}
	cfg := o.Config
	cfg.APIKey = o.APIKey
	if o.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(o.Limit))
		defer cancel()
	}
	checks := append(gpuChecks(ctx, o, opt), clockCheck(o))
	if err := hammer.Resolve(ctx, &cfg); err != nil {
		return assay.Summary{}, err
	}
	checks = append(checks, engineCheck(cfg))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &witness{yield: o.Yield, cancel: cancel, progress: opt.Progress}
	sum, err := hammer.Run(ctx, cfg, o.Dir, hammer.Options{
		Version: opt.Version, Nonce: o.Nonce, Node: o.Node, Replica: o.Replica, NVML: opt.NVML, Checks: checks, Progress: w.checkpoint, Reading: w.reading, Begin: o.hold,
	})
	if errors.Is(context.Cause(ctx), ErrYield) {
		err = errors.Join(ErrYield, err)
	}
	return sum, err
}

// maxLate is how late a load may begin that others wait for: what was to happen
// together did not happen then.
const maxLate = 2 * time.Second

// hold waits until the load begins.
func (o Order) hold(ctx context.Context) error {
	if o.Begin == 0 {
		return nil
	}
	wait := time.Until(time.Unix(0, o.Begin))
	if wait < -maxLate {
		return fmt.Errorf("the load was to begin %s before everything was prepared for it: begin it later", -wait.Round(time.Millisecond))
	}
	if !sleep(ctx, wait) {
		return context.Cause(ctx)
	}
	return nil
}

// gpuChecks verifies the cards by the node's policy.
func gpuChecks(ctx context.Context, o Order, opt MeasureOptions) []assay.Check {
	if o.GPU == GPUNone || opt.Verify == nil {
		return nil
	}
	vo := verify.Options{Challenge: o.Challenge}
	if o.Light {
		vo.MinTime = 200 * time.Millisecond
	}
	found, err := opt.Verify(ctx, vo)
	checks := found.Checks
	none := errors.Is(err, verify.ErrNoDevice) || errors.Is(err, verify.ErrCPUDevice)
	present := assay.Check{At: time.Now().UnixNano(), Name: "gpu.present", Verdict: assay.Pass,
		Proves: "a GPU answers its driver's library", DoesNotProve: "that it is what it says"}
	switch {
	case err == nil:
		present.Evidence = fmt.Sprintf("%d found", len(found.Devices))
	case none && o.GPU == GPURequired:
		present.Verdict, present.Evidence = assay.Fail, err.Error()
	case none:
		present.Verdict, present.Evidence = assay.Unknown, err.Error()
		// A library that computes on the processor is no card that failed.
		checks = slices.DeleteFunc(checks, func(c assay.Check) bool { return c.Name == "compute.device" })
	default:
		present.Verdict, present.Evidence = assay.Unknown, err.Error()
	}
	return append(checks, present.Settled())
}

func engineCheck(c hammer.Config) assay.Check {
	return assay.Check{
		At: time.Now().UnixNano(), Name: "engine.answers", Verdict: assay.Pass,
		Evidence: fmt.Sprintf("the engine at %s serves %s", c.URL, c.Model),
		Proves:   "an engine answered on this node", DoesNotProve: "how fast it is, or that the model is the one it names",
		Facts: map[string]string{"model": c.Model, "backend": c.Backend},
	}
}

func clockCheck(o Order) assay.Check {
	off, slack := o.Clock.Offset.Seconds(), o.Clock.Slack.Seconds()
	c := assay.Check{At: time.Now().UnixNano(), Name: "host.clock", Proves: "times in this run can be compared with those of others"}
	switch {
	case !o.Clock.Known:
		c.Evidence = "no server's clock was compared with"
		return c.Settled()
	case o.Clock.Beyond():
		c.Verdict = assay.Fail
	default:
		c.Verdict = assay.Pass
	}
	c.Evidence = fmt.Sprintf("the clock is %.3f s behind the server's, known to %.3f s", off, slack)
	c.Values = map[string]float64{"offset_seconds": off, "uncertainty_seconds": slack}
	return c.Settled()
}

// witness looks whether the engine works for others while we measure.
type witness struct {
	yield    bool
	cancel   context.CancelCauseFunc
	progress func(assay.Checkpoint)

	mu       sync.Mutex
	inFlight int
	running  float64
	foreign  int
}

func (w *witness) checkpoint(c assay.Checkpoint) {
	w.mu.Lock()
	w.inFlight = c.InFlight
	w.mu.Unlock()
	if w.progress != nil {
		w.progress(c)
	}
}

func (w *witness) reading(r assay.Reading) {
	if r.Value == nil || !w.yield {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r.Name {
	case assay.EngineRunning:
		w.running = *r.Value
		return
	case assay.EngineWaiting:
	default:
		return
	}
	// Waiting comes after running in a look; ours are under way in one of them.
	if w.running+*r.Value > float64(w.inFlight)+slack(w.inFlight) {
		w.foreign++
	} else {
		w.foreign = 0
	}
	if w.foreign == maxForeign {
		w.cancel(ErrYield)
	}
}

// slack is how many of ours the engine may count that were not under way when the
// last checkpoint was made, a second ago at most.
func slack(inFlight int) float64 { return max(1, float64(inFlight)/4) }
