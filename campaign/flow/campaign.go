package flow

import (
	"slices"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Window is how many cells are under way at once, unless somebody says otherwise.
const Window = 200

// maxStarts is how many cells one run of a campaign's workflow starts before it
// continues as new: each makes some ten events, and a history has 51,200 at most.
const maxStarts = 1000

// lookEvery is how often a campaign looks whether its cells still run. One whose
// workflow was terminated from outside tells nobody.
const lookEvery = 5 * time.Minute

// CampaignInput is what a campaign's workflow begins with, or continues with.
type CampaignInput struct {
	Campaign string  `json:"campaign"`
	Window   int     `json:"window"`
	Tries    int     `json:"tries"`
	Pace     float64 `json:"pace,omitempty"`
	// Starts is how many cells one run starts before it continues as new; 0: 1,000.
	Starts int `json:"starts,omitempty"`
	// After is the number of the last cell that was started.
	After int `json:"after"`
	// Running are the cells that were started and have not told of their end.
	Running []string `json:"running,omitempty"`
}

// Next is a question for cells.
type Next struct {
	Campaign string `json:"campaign"`
	After    int    `json:"after"` // cells with higher numbers
	Most     int    `json:"most"`
}

// Planned is a cell that is to be measured.
type Planned struct {
	Cell   string `json:"cell"`
	Number int    `json:"number"`
	Limits Limits `json:"limits"`
}

// Waited are cells of a campaign whose ends nobody has told of.
type Waited struct {
	Campaign string   `json:"campaign"`
	Cells    []string `json:"cells"`
}

// Closed is what Close is given.
type Closed struct {
	Campaign  string `json:"campaign"`
	Cancelled bool   `json:"cancelled"`
}

type run struct {
	in      CampaignInput
	done    workflow.ReceiveChannel
	started int
	all     bool // no cell is left to start
	// looks says that this run looks after cells that were terminated: those of
	// before did not.
	looks bool
	look  workflow.Future // the next of them is due; nil: none is set
}

// Campaign starts a workflow for each cell, so many at once, and ends when all of
// them have. Cells outlive it: they give their machines back whatever becomes of the
// campaign.
func Campaign(ctx workflow.Context, in CampaignInput) error {
	version := workflow.GetVersion(ctx, "campaign", workflow.DefaultVersion, 2)
	if in.Window <= 0 {
		in.Window = Window
	}
	if in.Starts <= 0 {
		in.Starts = maxStarts
	}
	r := &run{in: in, done: workflow.GetSignalChannel(ctx, doneSignal), looks: version >= 2}
	for ctx.Err() == nil && (!r.all || len(r.in.Running) > 0) {
		if err := r.fill(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		if r.started >= r.in.Starts && !r.all || r.looks && workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			r.drain()
			return workflow.NewContinueAsNewError(ctx, CampaignWorkflow, r.in)
		}
		r.wait(ctx)
	}
	cancelled := ctx.Err() != nil
	if cancelled {
		r.cancelCells(ctx)
	}
	return r.close(ctx, cancelled)
}

func quick(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: Queue, StartToCloseTimeout: time.Minute,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute},
	})
}

// fill starts cells until the window is full.
func (r *run) fill(ctx workflow.Context) error {
	for !r.all && len(r.in.Running) < r.in.Window && r.started < r.in.Starts {
		most := min(r.in.Window-len(r.in.Running), r.in.Starts-r.started)
		var next []Planned
		err := workflow.ExecuteActivity(quick(ctx), stepPending, Next{r.in.Campaign, r.in.After, most}).Get(ctx, &next)
		if err != nil {
			return err
		}
		r.all = len(next) < most
		for _, p := range next {
			if err := r.start(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) start(ctx workflow.Context, p Planned) error {
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: CellID(p.Cell), TaskQueue: Queue,
		// By default a child is ended with its parent, without giving anything back.
		ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WaitForCancellation:   true,
	})
	err := workflow.ExecuteChildWorkflow(ctx, CellWorkflow, CellInput{
		Campaign: r.in.Campaign, Cell: p.Cell, Tries: r.in.Tries, Limits: p.Limits, Parent: workflow.GetInfo(ctx).WorkflowExecution.ID, Pace: r.in.Pace,
	}).GetChildWorkflowExecution().Get(ctx, nil)
	if err != nil && !temporal.IsWorkflowExecutionAlreadyStartedError(err) { // one of before still runs, and will tell
		return err
	}
	r.started++
	r.in.After = p.Number
	if !slices.Contains(r.in.Running, p.Cell) {
		r.in.Running = append(r.in.Running, p.Cell)
	}
	return nil
}

func (r *run) ended(cell string) {
	r.in.Running = slices.DeleteFunc(r.in.Running, func(c string) bool { return c == cell })
}

// wait waits until a cell has ended, or the campaign is cancelled, or it is time to
// look after those that are under way.
func (r *run) wait(ctx workflow.Context) {
	if len(r.in.Running) == 0 {
		r.drain()
		return
	}
	s := workflow.NewSelector(ctx)
	s.AddReceive(r.done, func(c workflow.ReceiveChannel, _ bool) {
		var cell string
		c.Receive(ctx, &cell)
		r.ended(cell)
	})
	s.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	due := false
	if r.looks {
		if r.look == nil {
			r.look = workflow.NewTimer(ctx, paced(lookEvery, r.in.Pace))
		}
		s.AddFuture(r.look, func(workflow.Future) { due = true })
	}
	s.Select(ctx)
	r.drain()
	if due && len(r.in.Running) > 0 {
		r.look = nil
		r.lost(ctx)
	}
}

// lost takes cells off the list whose workflows do not run any more, and has what
// they rented given back.
func (r *run) lost(ctx workflow.Context) {
	ctx = workflow.WithActivityOptions(ctx, forever(r.in.Pace))
	var gone []string
	if workflow.ExecuteActivity(ctx, stepLost, Waited{r.in.Campaign, r.in.Running}).Get(ctx, &gone) != nil {
		return // cancelled, or it is looked again
	}
	for _, cell := range gone {
		r.ended(cell)
	}
}

// drain takes the signals that are there: they would be lost to a run that
// continues as new.
func (r *run) drain() {
	var cell string
	for r.done.ReceiveAsync(&cell) {
		r.ended(cell)
		cell = ""
	}
}

// cancelCells cancels each cell, and waits until it has given its machine back.
func (r *run) cancelCells(ctx workflow.Context) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	for _, cell := range slices.Clone(r.in.Running) {
		if workflow.RequestCancelExternalWorkflow(ctx, CellID(cell), "").Get(ctx, nil) != nil {
			r.ended(cell) // it has ended already
		}
	}
	for len(r.in.Running) > 0 {
		r.wait(ctx)
	}
}

func (r *run) close(ctx workflow.Context, cancelled bool) error {
	dctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	if err := workflow.ExecuteActivity(quick(dctx), stepClose, Closed{r.in.Campaign, cancelled}).Get(dctx, nil); err != nil {
		return err
	}
	if cancelled {
		return temporal.NewCanceledError()
	}
	return nil
}
