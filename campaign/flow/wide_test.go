package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/node"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/provider/static"
	"github.com/assay-bench/assay/campaign/rent"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/internal/parttest"
)

// owned is a campaign on machines of one's own, whose steps do all that they do but
// for what runs on the machine: claims, rows, leases and heartbeats are real.
type owned struct {
	store  *store.Store
	claims string
	steps  map[string]any
}

// pace makes the waits of a campaign a second: what is measured is not a wait.
const pace = 300

func own(t *testing.T, machines int) owned {
	t.Helper()
	dir := parttest.MemoryDir(t)
	db, err := database.Open(t.Context(), "sqlite:"+filepath.Join(dir, "campaign.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s := store.New(db)
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := static.Config{Dir: filepath.Join(dir, "claims")}
	for n := range machines {
		c.Machines = append(c.Machines, static.Machine{Name: fmt.Sprint("m", n+1), Host: "127.0.0.1", GPU: "RTX 4090", VRAMGB: 24})
	}
	p, err := static.New(c)
	if err != nil {
		t.Fatal(err)
	}
	master, err := node.OpenMaster(filepath.Join(dir, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	a := &Activities{
		Store: s, Rent: rent.New(s, []rent.Cloud{{Provider: p, Traits: static.Traits(c)}}, rent.Options{}), Master: master, Pins: s, Results: dir,
		Order: func(_ store.Cell, o provider.Order, _ time.Duration) provider.Order { return o },
	}
	o := owned{s, c.Dir, a.steps()}
	for _, s := range steps {
		switch s.name {
		case stepIntend, stepCreate:
		default:
			o.steps[s.name] = func(ctx context.Context, ref Ref) error {
				return a.at(ctx, ref, s.stage, func(context.Context, job) error { return nil })
			}
		}
	}
	return o
}

// add makes a campaign of so many cells.
func (o owned) add(t *testing.T, id string, cells int) {
	t.Helper()
	limit := 10 * time.Minute
	settings, err := json.Marshal(Settings{Tries: 1, Lease: time.Minute, Pace: pace, Limits: Limits{limit, limit, limit, limit, limit}})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := json.Marshal(campaign.Planned{Count: 1, LifeSeconds: 3600})
	if err != nil {
		t.Fatal(err)
	}
	var rows []store.Cell
	for n := range cells {
		rows = append(rows, store.Cell{
			ID: fmt.Sprintf("%s-%d", id, n+1), Number: n + 1, GPU: "RTX 4090", Provider: "static", Model: model, Engine: "ollama",
			Spec: string(spec), Progress: store.Progress{Status: string(campaign.Pending)},
		})
	}
	usd := assay.Money{Nano: 1e9, Currency: provider.Currency}
	if err := o.store.AddCampaign(t.Context(), store.Campaign{ID: id, Settings: string(settings), Caps: store.Caps{Cell: usd, Campaign: usd, Day: usd}}, rows); err != nil {
		t.Fatal(err)
	}
}

// measured checks that each cell of a campaign was, and that no machine is in use.
func (o owned) measured(t *testing.T, id string) {
	t.Helper()
	cells, err := o.store.Cells(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		if c.Status != string(campaign.Success) {
			t.Fatalf("cell %s: %+v", c.ID, c.Progress)
		}
	}
	o.free(t)
}

func (o owned) free(t *testing.T) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(o.claims, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("machines are still in use: %v, %v", left, err)
	}
}

// bare does the steps of a campaign's cells without Temporal, so many at once.
func (o owned) bare(t *testing.T, id string, cells, window int) time.Duration {
	t.Helper()
	began, next := time.Now(), make(chan int)
	var wg sync.WaitGroup
	for range window {
		wg.Go(func() {
			var suite testsuite.WorkflowTestSuite
			suite.SetLogger(silent{})
			env := suite.NewTestActivityEnvironment()
			for name, do := range o.steps {
				env.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
			}
			for n := range next {
				if err := o.cell(env, Ref{id, fmt.Sprintf("%s-%d", id, n+1), 1}); err != nil {
					t.Errorf("cell %d: %v", n+1, err)
				}
			}
		})
	}
	for n := range cells {
		next <- n
	}
	close(next)
	wg.Wait()
	return time.Since(began)
}

// cell does the steps of one.
func (o owned) cell(env *testsuite.TestActivityEnvironment, ref Ref) error {
	var r Rented
	v, err := env.ExecuteActivity(stepIntend, ref)
	if err == nil {
		err = v.Get(&r)
	}
	if err != nil {
		return err
	}
	args := map[string]any{stepCreate: r, stepFinish: Ended{ref, Outcome{Status: string(campaign.Success), Tries: 1}}}
	all := []string{stepDestroy, stepProve, stepFinish}
	for n := len(steps) - 1; n > 0; n-- { // the first was Intend
		all = append([]string{steps[n].name}, all...)
	}
	for _, name := range all {
		var arg any = ref
		if a, ok := args[name]; ok {
			arg = a
		}
		if _, err := env.ExecuteActivity(name, arg); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// work works on campaigns until the test ends.
func (o owned) work(t *testing.T, address string) *Client {
	t.Helper()
	c, err := Dial(t.Context(), ClientOptions{Address: address, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := worker.New(c.temporal, Queue, worker.Options{DisableRegistrationAliasing: true})
	register(w, o.steps)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return c
}

// flow runs a campaign on Temporal.
func (o owned) flow(t *testing.T, c *Client, id string, window int) time.Duration {
	t.Helper()
	began := time.Now()
	if err := c.Start(t.Context(), CampaignInput{Campaign: id, Window: window, Tries: 1, Pace: pace}); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// events is how long a workflow's history is, by its last run.
func events(t *testing.T, c *Client, id string) int64 {
	t.Helper()
	d, err := c.temporal.DescribeWorkflowExecution(t.Context(), id, "")
	if err != nil {
		t.Fatal(err)
	}
	return d.GetWorkflowExecutionInfo().GetHistoryLength()
}

// What Temporal adds to a cell: the same steps with it and without, alone and many at
// once.
func TestWideCampaign(t *testing.T) {
	const window, few = 50, 10
	cells := 300
	if os.Getenv("ASSAY_LONG") == "1" {
		cells = 10_000
	}
	server := parttest.Temporal(t)
	o := own(t, window)
	c := o.work(t, server.URL)
	took := func(n int, d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(n) }
	for id, n := range map[string]int{"bare-1": few, "flow-1": few, "bare": 300, "flow": cells} {
		o.add(t, id, n)
	}
	alone, aloneFlow := o.bare(t, "bare-1", few, 1), o.flow(t, c, "flow-1", 1)
	wide, wideFlow := o.bare(t, "bare", 300, window), o.flow(t, c, "flow", window)
	for _, id := range []string{"bare-1", "flow-1", "bare", "flow"} {
		o.measured(t, id)
	}
	cell, whole := events(t, c, CellID("flow-1")+"-1"), events(t, c, CampaignID("flow"))
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	parttest.Figure(t, "a cell's steps alone: %.0f ms bare, %.0f ms on Temporal; %d cells, %d at once: %.0f ms each on Temporal (%.1f/s, %s in all), %.0f ms bare; %d events a cell, %d of the campaign's last run; server %d MB at most, worker %d MB from the system",
		took(few, alone), took(few, aloneFlow), cells, window, took(cells, wideFlow), float64(cells)/wideFlow.Seconds(), wideFlow.Round(100*time.Millisecond), took(300, wide),
		cell, whole, server.PeakBytes()>>20, m.Sys>>20)
	if cell > 120 || whole > 51_200/2 {
		t.Errorf("%d events of a cell and %d of the campaign: 51,200 are the most, and a campaign starts %d cells in one run", cell, whole, maxStarts)
	}
}

// A cell whose workflow is terminated by hand tells nobody: the campaign finds out, has
// its machine given back, and ends.
func TestRealCampaignOutlivesATerminatedCell(t *testing.T) {
	server := parttest.Temporal(t)
	o := own(t, 2)
	under := make(chan struct{})
	o.steps[stepLoad] = func(ctx context.Context, ref Ref) error {
		if ref.Cell != "c-2" {
			return nil
		}
		close(under)
		for {
			activity.RecordHeartbeat(ctx)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	c := o.work(t, server.URL)
	o.add(t, "c", 2)
	go func() {
		<-under
		if err := c.temporal.TerminateWorkflow(context.WithoutCancel(t.Context()), CellID("c-2"), "", "by hand"); err != nil {
			t.Error(err)
		}
	}()
	o.flow(t, c, "c", 2)
	cell, err := o.store.Cell(t.Context(), "c-2")
	if want := (store.Progress{Status: "failed", Stage: "setup", Cause: "killed", Message: "its workflow was terminated from outside"}); err != nil || cell.Progress != want {
		t.Errorf("%+v, %v", cell.Progress, err)
	}
	o.free(t)
	d, err := c.temporal.DescribeWorkflowExecution(t.Context(), CellID("c-2"), "")
	if err != nil || d.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_TERMINATED {
		t.Errorf("%v, %v", d, err)
	}
}
