package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/assay-bench/assay/campaign"
)

// fault is what goes wrong with one call of an activity.
type fault int

const (
	fine       fault = iota
	before           // it fails, and did nothing
	after            // it did what it should, and nobody heard: an error in place of the answer
	refused          // a failure that trying again does not help
	lost             // its worker is gone after it did what it should: a time-out
	cancelling       // the campaign is cancelled while it runs
	faults
)

func (f fault) String() string {
	return []string{"fine", "before", "after", "refused", "lost", "cancelling"}[f]
}

// world is a cloud and a database as far as a cell's workflow can change them.
type world struct {
	env   *testsuite.TestWorkflowEnvironment
	calls []string
	// plan has the faults of the n-th call of any activity.
	plan map[int]fault

	intended, live     int // intents without an end; instances
	destroyed, proved  bool
	created, twoAtOnce int
	imported, finished int
	finish             Ended
	strangers          int // creations of what was not intended
}

func (w *world) call(ctx context.Context, name string, effect func()) error {
	n := len(w.calls)
	w.calls = append(w.calls, name)
	switch w.plan[n] {
	case before:
		return errors.New("it did nothing")
	case after:
		effect()
		return errors.New("nobody heard of it")
	case refused:
		return temporal.NewNonRetryableApplicationError("it cannot be", marked+string(campaign.CauseUnknown), nil)
	case lost:
		effect()
		return temporal.NewTimeoutError(enums.TIMEOUT_TYPE_START_TO_CLOSE, nil)
	case cancelling:
		// A server has the workflow wait for what is under way, as it asks for; the
		// environment lets it go on at once, so the effect comes first.
		effect()
		w.env.CancelWorkflow()
		return nil
	}
	effect()
	return ctx.Err()
}

func (w *world) register(env *testsuite.TestWorkflowEnvironment) {
	w.env = env
	env.RegisterWorkflowWithOptions(Cell, workflow.RegisterOptions{Name: CellWorkflow})
	step := func(name string, effect func()) {
		env.RegisterActivityWithOptions(func(ctx context.Context, _ Ref) error { return w.call(ctx, name, effect) }, activity.RegisterOptions{Name: name})
	}
	env.RegisterActivityWithOptions(func(ctx context.Context, r Ref) (Rented, error) {
		return Rented{Ref: r, Label: fmt.Sprint("label-", r.Try)}, w.call(ctx, stepIntend, func() { w.intended++ })
	}, activity.RegisterOptions{Name: stepIntend})
	create := func(effect func()) {
		env.RegisterActivityWithOptions(func(ctx context.Context, r Rented) error {
			if r.Label != fmt.Sprint("label-", r.Try) {
				w.strangers++
			}
			return w.call(ctx, stepCreate, effect)
		}, activity.RegisterOptions{Name: stepCreate})
	}
	create(func() {
		w.created++
		if w.live++; w.live > 1 {
			w.twoAtOnce++
		}
		w.destroyed, w.proved = false, false
	})
	for _, name := range []string{stepReach, stepVerify, stepEngine, stepLoad, stepBenchmark, stepCollect} {
		step(name, func() {})
	}
	step(stepImport, func() { w.imported++ })
	step(stepDestroy, func() { w.live, w.destroyed = 0, true })
	step(stepProve, func() {
		if w.destroyed {
			w.intended, w.proved = 0, true
		}
	})
	env.RegisterActivityWithOptions(func(ctx context.Context, e Ended) error {
		return w.call(ctx, stepFinish, func() { w.finished++; w.finish = e })
	}, activity.RegisterOptions{Name: stepFinish})
}

var shortLimits = Limits{Provision: time.Minute, Setup: time.Minute, Load: time.Minute, Benchmark: 5 * time.Minute, Collect: time.Minute}

// patient keeps the environment from taking a busy machine for a dead workflow.
func patient(env *testsuite.TestWorkflowEnvironment) {
	env.SetTestTimeout(10 * time.Minute)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: 10 * time.Minute})
}

// play runs a cell's workflow with faults, and gives what it left.
func play(t *testing.T, plan map[int]fault) *world {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(silent{})
	env := suite.NewTestWorkflowEnvironment()
	patient(env)
	w := &world{plan: plan}
	w.register(env)
	signalled := 0
	env.OnSignalExternalWorkflow(anything, "parent", "", doneSignal, "cell").Return(func(string, string, string, string, any) error {
		signalled++
		return nil
	}).Maybe()
	env.ExecuteWorkflow(CellWorkflow, CellInput{Campaign: "campaign", Cell: "cell", Tries: 3, Limits: shortLimits, Parent: "parent"})
	if !env.IsWorkflowCompleted() {
		t.Errorf("%v: the workflow did not end", plan)
	}
	switch {
	case w.live != 0 || w.intended != 0 || !w.proved:
		t.Errorf("%v: %d instances and %d intents are left, proved %v, after %v", plan, w.live, w.intended, w.proved, w.calls)
	case w.strangers > 0:
		t.Errorf("%v: something was created that nobody intended", plan)
	case w.twoAtOnce > 0:
		t.Errorf("%v: two lived at once: %v", plan, w.calls)
	case w.finished == 0 || w.finish.Status == "":
		t.Errorf("%v: nobody recorded what became of the cell: %v", plan, w.calls)
	case signalled != 1:
		t.Errorf("%v: the campaign heard %d times of the end", plan, signalled)
	}
	return w
}

const anything = "mock.Anything" // of testify, which the suite is made with

func TestCellWithoutAFault(t *testing.T) {
	w := play(t, nil)
	want := []string{"Intend", "Create", "Reach", "Verify", "Engine", "Load", "Benchmark", "Collect", "Import", "Destroy", "Prove", "Finish"}
	if !slices.Equal(w.calls, want) || w.finish.Status != "success" || w.finish.Tries != 1 || w.imported != 1 {
		t.Errorf("%v\n%+v", w.calls, w.finish)
	}
}

// Each call of each activity fails in each way, alone and together with each later
// one: nothing is left rented, whatever happened.
func TestCellWithFaultsAtEachPoint(t *testing.T) {
	runs := 0
	var walk func(plan map[int]fault, from, deep int)
	walk = func(plan map[int]fault, from, deep int) {
		w := play(t, plan)
		runs++
		if deep == 0 || t.Failed() {
			return
		}
		for n := from; n < len(w.calls); n++ {
			for f := before; f < faults; f++ {
				next := map[int]fault{n: f}
				for k, v := range plan {
					next[k] = v
				}
				walk(next, n+1, deep-1)
			}
		}
	}
	walk(nil, 0, 2)
	t.Logf("%d runs", runs)
	if runs < 1000 {
		t.Errorf("only %d runs", runs)
	}
}

func TestCellOutcomes(t *testing.T) {
	for _, c := range []struct {
		plan                 map[int]fault
		status, stage, cause string
		tries                int
	}{
		// A failure of the benchmark that the table keeps results after; one that it does not.
		{map[int]fault{6: lost, 7: lost, 8: lost, 9: lost, 10: lost}, "partial", "benchmark", string(campaign.CauseTimeout), 1},
		{map[int]fault{6: refused}, "success", "", "", 2},
		{map[int]fault{6: cancelling}, "partial", "benchmark", string(campaign.CauseCancelled), 1},
		{map[int]fault{4: cancelling}, "failed", "setup", string(campaign.CauseCancelled), 1},
		{map[int]fault{1: before}, "success", "", "", 2},
		{map[int]fault{1: after}, "success", "", "", 2},
		{map[int]fault{3: refused}, "success", "", "", 2},
		{map[int]fault{2: before}, "success", "", "", 1},
	} {
		w := play(t, c.plan)
		if f := w.finish; f.Status != c.status || f.Stage != c.stage || f.Cause != c.cause || f.Tries != c.tries {
			t.Errorf("%v: %+v after %v", c.plan, f, w.calls)
		}
	}
}

// A provider that refuses to destroy for a day is asked for a day.
func TestCellDestroysForAsLongAsItTakes(t *testing.T) {
	plan := map[int]fault{}
	for n := 9; n < 9+200; n++ {
		plan[n] = before
	}
	w := play(t, plan)
	if got := fmt.Sprint(w.calls[9:12], w.calls[208:212]); got != "[Destroy Destroy Destroy] [Destroy Destroy Prove Finish]" {
		t.Error(got)
	}
}
