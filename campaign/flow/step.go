package flow

import (
	"errors"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/internal/foreign"
)

// Activities by name, as they are in histories: they stay.
const (
	stepIntend    = "Intend"    // commit what is about to be rented, and its money
	stepCreate    = "Create"    // rent it, once
	stepReach     = "Reach"     // until SSH lets us in
	stepVerify    = "Verify"    // is it the GPU that was rented
	stepEngine    = "Engine"    // our binary, and an engine that answers
	stepLoad      = "Load"      // the model, and its first answer
	stepBenchmark = "Benchmark" // measure
	stepCollect   = "Collect"   // bring the run directory home, and examine it
	stepImport    = "Import"    // into the database
	stepDestroy   = "Destroy"   // ask the provider to end whatever the cell has
	stepProve     = "Prove"     // until it is proved
	stepFinish    = "Finish"    // what became of the cell
	stepPending   = "Pending"   // of a campaign: which cells are next
	stepLost      = "Lost"      // of a campaign: which cells were terminated from outside
	stepClose     = "Close"     // of a campaign: it has ended
)

// step is one activity of a try.
type step struct {
	name  string
	stage campaign.Stage
	// tries is how often it is tried on one machine. Create is called once: whether
	// it worked is found out by looking for the label.
	tries int32
	// beats says that it runs for long, and tells that it is alive.
	beats bool
}

// steps of a try in their order.
var steps = []step{
	{stepIntend, campaign.Provision, 3, true},
	{stepCreate, campaign.Provision, 1, true},
	{stepReach, campaign.Provision, 3, true},
	{stepVerify, campaign.Setup, 3, true},
	{stepEngine, campaign.Setup, 2, true},
	{stepLoad, campaign.Load, 2, true},
	{stepBenchmark, campaign.Benchmark, 5, true},
	{stepCollect, campaign.Collect, 3, true},
	{stepImport, campaign.Collect, 5, false},
}

// beat is how long an activity may be silent. One whose worker was killed is given
// to another after that time.
const beat = 30 * time.Second

func (l Limits) of(s campaign.Stage) time.Duration {
	switch s {
	case campaign.Provision:
		return l.Provision
	case campaign.Setup:
		return l.Setup
	case campaign.Load:
		return l.Load
	case campaign.Benchmark:
		return l.Benchmark
	}
	return l.Collect
}

// paced is a wait at the pace of a sandbox' clock.
func paced(d time.Duration, pace float64) time.Duration {
	if pace <= 1 {
		return d
	}
	return max(time.Second, time.Duration(float64(d)/pace))
}

// silence is how long an activity may be silent at a sandbox' pace: a worker on a
// busy machine is not dead after a second.
func silence(pace float64) time.Duration { return max(10*time.Second, paced(beat, pace)) }

// options are those of a step of a try.
func (c *cell) options(ctx workflow.Context, s step) workflow.Context {
	limit := max(c.in.Limits.of(s.stage), time.Second)
	o := workflow.ActivityOptions{
		TaskQueue: Queue, StartToCloseTimeout: limit, ScheduleToCloseTimeout: limit,
		// A cancelled step ends before its machine is taken away: what it still does
		// there would otherwise meet the destruction half-way.
		WaitForCancellation: true,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 15 * time.Second, MaximumAttempts: s.tries},
	}
	if s.beats {
		o.HeartbeatTimeout = min(silence(c.in.Pace), limit)
	}
	return workflow.WithActivityOptions(ctx, o)
}

// forever are the options of what must happen: it is tried until it has.
func forever(pace float64) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		TaskQueue: Queue, StartToCloseTimeout: 10 * time.Minute, HeartbeatTimeout: silence(pace),
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: paced(time.Minute, pace)},
	}
}

// maxMessage bounds what of an error is in a history.
const maxMessage = 500

// failed says what an activity's error means for its stage.
func failed(s campaign.Stage, err error) Outcome {
	o := Outcome{Status: string(campaign.Failed), Stage: string(s), Cause: string(campaign.CauseUnknown), Message: foreign.Line(err.Error(), maxMessage)}
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	switch {
	case temporal.IsCanceledError(err):
		o.Cause, o.Message = string(campaign.CauseCancelled), "the campaign was cancelled"
	case errors.As(err, &timeout):
		o.Cause = string(campaign.CauseTimeout)
		o.Message = "not done within the time of its stage, or its worker was lost"
	case errors.As(err, &app):
		o.Message = foreign.Line(app.Message(), maxMessage)
		if cause, ok := strings.CutPrefix(app.Type(), marked); ok {
			o.Cause = cause
		}
	}
	return o
}
