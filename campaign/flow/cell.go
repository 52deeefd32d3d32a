package flow

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/assay-bench/assay/campaign"
)

// cell is a cell's workflow while it runs.
type cell struct{ in CellInput }

// Cell rents a machine for a cell, measures and gives it back; on another machine
// when that may help. A cell that failed is an outcome, not an error.
func Cell(ctx workflow.Context, in CellInput) (Outcome, error) {
	workflow.GetVersion(ctx, "cell", workflow.DefaultVersion, 1)
	c := &cell{in}
	var out Outcome
	for try := 1; ; try++ {
		ref := Ref{in.Campaign, in.Cell, try}
		out = c.try(ctx, ref)
		out.Tries = try
		c.giveBack(ctx, ref)
		if ctx.Err() != nil || try >= in.Tries || !again(out) {
			break
		}
	}
	c.finish(ctx, out)
	if ctx.Err() != nil {
		return out, temporal.NewCanceledError(out)
	}
	return out, nil
}

// again reports whether another machine may do better.
func again(o Outcome) bool {
	return o.Status == string(campaign.Failed) && campaign.RemedyFor(campaign.Stage(o.Stage), campaign.Cause(o.Cause)).Then != campaign.ThenEnd
}

// try makes the steps of one try, up to the first that fails.
func (c *cell) try(ctx workflow.Context, ref Ref) Outcome {
	var rented Rented
	for _, s := range steps {
		var err error
		switch s.name {
		case stepIntend:
			err = workflow.ExecuteActivity(c.options(ctx, s), s.name, ref).Get(ctx, &rented)
		case stepCreate:
			err = workflow.ExecuteActivity(c.options(ctx, s), s.name, rented).Get(ctx, nil)
		default:
			err = workflow.ExecuteActivity(c.options(ctx, s), s.name, ref).Get(ctx, nil)
		}
		if err == nil {
			continue
		}
		o := failed(s.stage, err)
		r := campaign.RemedyFor(s.stage, campaign.Cause(o.Cause))
		if o.Status = string(r.Ends); r.Keep && s.name == stepBenchmark && c.salvage(ctx, ref) {
			o.Status = string(campaign.Partial)
		} else if r.Ends == campaign.Partial {
			o.Status = string(campaign.Failed)
		}
		return o
	}
	return Outcome{Status: string(campaign.Success)}
}

// salvage brings home what an interrupted measurement left, also when the campaign
// was cancelled: it is paid for.
func (c *cell) salvage(ctx workflow.Context, ref Ref) bool {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	for _, s := range steps {
		if s.name != stepCollect && s.name != stepImport {
			continue
		}
		if err := workflow.ExecuteActivity(c.options(ctx, s), s.name, ref).Get(ctx, nil); err != nil {
			return false
		}
	}
	return true
}

// giveBack ends whatever the cell has, by the database and not by what this
// workflow knows: a step may have worked although nobody heard of it.
func (c *cell) giveBack(ctx workflow.Context, ref Ref) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	c.must(ctx, stepDestroy, ref)
	c.must(ctx, stepProve, ref)
}

// must runs an activity until it has worked. One that fails for good, which only a
// fault of ours can make it, is begun anew.
func (c *cell) must(ctx workflow.Context, name string, arg any) {
	for workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, forever(c.in.Pace)), name, arg).Get(ctx, nil) != nil {
		_ = workflow.Sleep(ctx, paced(time.Minute, c.in.Pace))
	}
}

// finish records what became of the cell, and tells the campaign.
func (c *cell) finish(ctx workflow.Context, o Outcome) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	c.must(ctx, stepFinish, Ended{Ref{c.in.Campaign, c.in.Cell, o.Tries}, o})
	if c.in.Parent == "" {
		return
	}
	// Without a run id: the campaign may have continued as new meanwhile. One that
	// is gone needs to hear nothing.
	_ = workflow.SignalExternalWorkflow(ctx, c.in.Parent, "", doneSignal, c.in.Cell).Get(ctx, nil)
}
