package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
)

// crowd is a campaign of cells that only take their time.
type crowd struct {
	cells           int
	running, most   int
	ended, cancels  []string
	closed          []Closed
	asked           []Next
	cellsTakeLonger time.Duration
	terminated      string // a cell that ends and tells nobody
	lost            []Waited
}

func (c *crowd) env(t *testing.T) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(silent{})
	env := suite.NewTestWorkflowEnvironment()
	patient(env)
	env.RegisterWorkflowWithOptions(Campaign, workflow.RegisterOptions{Name: CampaignWorkflow})
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context, in CellInput) (Outcome, error) {
		c.running++
		c.most = max(c.most, c.running)
		if in.Cell == c.terminated {
			c.running--
			return Outcome{}, nil
		}
		err := workflow.Sleep(ctx, time.Minute+c.cellsTakeLonger)
		c.running--
		c.ended = append(c.ended, in.Cell)
		if temporal.IsCanceledError(err) {
			c.cancels = append(c.cancels, in.Cell)
		}
		ctx, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		return Outcome{}, workflow.SignalExternalWorkflow(ctx, in.Parent, "", doneSignal, in.Cell).Get(ctx, nil)
	}, workflow.RegisterOptions{Name: CellWorkflow})
	env.RegisterActivityWithOptions(func(_ context.Context, n Next) (out []Planned, _ error) {
		c.asked = append(c.asked, n)
		for i := n.After + 1; i <= c.cells && len(out) < n.Most; i++ {
			out = append(out, Planned{Cell: fmt.Sprint("cell-", i), Number: i, Limits: shortLimits})
		}
		return out, nil
	}, activity.RegisterOptions{Name: stepPending})
	env.RegisterActivityWithOptions(func(_ context.Context, w Waited) (gone []string, _ error) {
		c.lost = append(c.lost, w)
		if slices.Contains(w.Cells, c.terminated) {
			gone = append(gone, c.terminated)
		}
		return gone, nil
	}, activity.RegisterOptions{Name: stepLost})
	env.RegisterActivityWithOptions(func(_ context.Context, e Closed) error {
		c.closed = append(c.closed, e)
		return nil
	}, activity.RegisterOptions{Name: stepClose})
	return env
}

func TestCampaignKeepsItsWindow(t *testing.T) {
	c := &crowd{cells: 50}
	env := c.env(t)
	env.ExecuteWorkflow(CampaignWorkflow, CampaignInput{Campaign: "c", Window: 7, Tries: 1})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(c.ended)
	if len(slices.Compact(c.ended)) != 50 || c.most != 7 || !slices.Equal(c.closed, []Closed{{"c", false}}) {
		t.Errorf("%d cells ended, at most %d at once, closed %+v", len(c.ended), c.most, c.closed)
	}
}

// A run that continues as new takes along which cells still run, and none of their
// ends is lost.
func TestCampaignContinuesAsNew(t *testing.T) {
	c := &crowd{cells: 25}
	in := CampaignInput{Campaign: "c", Window: 4, Tries: 1, Starts: 10}
	var runs []CampaignInput
	for {
		env := c.env(t)
		for _, cell := range in.Running { // they run on, outside of this environment
			env.RegisterDelayedCallback(func() { env.SignalWorkflow(doneSignal, cell) }, time.Minute)
		}
		env.ExecuteWorkflow(CampaignWorkflow, in)
		var next *workflow.ContinueAsNewError
		err := env.GetWorkflowError()
		if !errors.As(err, &next) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		in = CampaignInput{}
		if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &in); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, in)
	}
	if len(runs) != 2 || runs[0].After != 10 || runs[1].After != 20 || len(runs[0].Running) == 0 || len(runs[0].Running) > 4 || len(c.closed) != 1 {
		t.Errorf("it continued with %+v, closed %+v", runs, c.closed)
	}
	if last := c.asked[len(c.asked)-1]; last.After != 25 && last.After != 24 {
		t.Errorf("the last question was %+v", last)
	}
}

// Cancelling cancels each cell, and waits until it has given back.
func TestCampaignCancelsEachCell(t *testing.T) {
	c := &crowd{cells: 9, cellsTakeLonger: time.Hour}
	env := c.env(t)
	var mu sync.Mutex // the environment asks for several at once
	var asked []string
	env.OnRequestCancelExternalWorkflow(anything, anything, "").Return(func(_, id, _ string) error {
		mu.Lock()
		asked = append(asked, id)
		mu.Unlock()
		env.SignalWorkflow(doneSignal, "cell-of-before")
		return nil
	})
	env.RegisterDelayedCallback(env.CancelWorkflow, 10*time.Minute)
	env.ExecuteWorkflow(CampaignWorkflow, CampaignInput{Campaign: "c", Window: 4, Tries: 1, Running: []string{"cell-of-before"}})
	if err := env.GetWorkflowError(); err == nil || !env.IsWorkflowCompleted() {
		t.Errorf("a cancelled campaign ended well: %v", err)
	}
	// A child is cancelled with its parent, and may have ended before it is asked to;
	// one of an earlier run hears of it in no other way.
	if !slices.Contains(asked, CellID("cell-of-before")) {
		t.Errorf("it asked %v to end", asked)
	}
	if len(c.ended) != 3 || len(c.cancels) != 3 || !slices.Equal(c.closed, []Closed{{"c", true}}) {
		t.Errorf("%v ended, %v by cancelling, closed %+v", c.ended, c.cancels, c.closed)
	}
}

// A cell whose workflow was terminated tells nobody: the campaign looks now and then,
// and does not wait for it for ever, neither while it runs nor while it is cancelled.
func TestCampaignLooksAfterTerminatedCells(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		c := &crowd{cells: 5, terminated: "cell-2", cellsTakeLonger: time.Hour}
		env := c.env(t)
		if cancelled {
			env.OnRequestCancelExternalWorkflow(anything, anything, "").Return(nil) // as of one that is terminated just then
			env.RegisterDelayedCallback(env.CancelWorkflow, time.Second)
		}
		env.ExecuteWorkflow(CampaignWorkflow, CampaignInput{Campaign: "c", Window: 4, Tries: 1})
		if err := env.GetWorkflowError(); !env.IsWorkflowCompleted() || (err != nil) != cancelled {
			t.Errorf("cancelled %v: %v", cancelled, err)
		}
		if !slices.Equal(c.closed, []Closed{{"c", cancelled}}) || len(c.lost) == 0 || !slices.Contains(c.lost[0].Cells, "cell-2") {
			t.Errorf("cancelled %v: closed %+v, looked after %+v", cancelled, c.closed, c.lost)
		}
	}
}
