// Package record turns results into rows of a campaign's database, and rows into
// reports.
//
// A row's figures come from one mapping, [FiguresOf], whatever brought the result:
// a machine that was rented, a run directory that lay about, or a file of the
// benchmark script that campaigns come from. What a file says of itself is checked
// against what is in it: the summary of a run is made anew from its requests, and the
// summary of a script's file from its results. Files are bounded, their text goes
// through internal/foreign, and importing one twice changes nothing.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/summary"
)

// Origin is what a result does not say of itself.
type Origin struct {
	// ID names the row; empty: made of the result's own, so that it stands once.
	ID string
	// Campaign groups rows: the manifest's run_id.
	Campaign string
	// GPU and Count are what was rented; empty and 0: as the result has it.
	GPU      string
	Count    int
	Provider string
	Location string
	// Engine is empty for as the result has it.
	Engine  string
	Session string
	IP      string
	Port    int
	Price   *assay.Money // an hour; nil: not known
	Notes   string
}

// Result is what is written of one result: both rows.
type Result struct {
	Benchmark store.Benchmark
	Manifest  store.Manifest
}

// Bounds of what is kept.
const (
	maxSummary = 4 << 20
	maxName    = 200
	maxText    = 2000
)

// ErrNothing means that a run holds no result: nothing that was asked was answered.
// Its row says failed.
var ErrNothing = errors.New("no request was answered")

// FromRun makes the rows of a run directory. The summary is made anew: a node's own
// is not believed.
func FromRun(dir string, o Origin) (Result, error) {
	run, err := journal.Open(dir)
	if err != nil {
		return Result{}, err
	}
	m := run.Manifest()
	sum, err := summary.Of(run)
	if err != nil {
		return Result{}, fmt.Errorf("summarise %s: %w", dir, err)
	}
	f := FiguresOf(sum)
	kept, err := json.Marshal(reduced(sum))
	if err != nil {
		return Result{}, fmt.Errorf("summarise %s: %w", dir, err)
	}
	if len(kept) > maxSummary {
		return Result{}, fmt.Errorf("the summary of %s has %d bytes; %d are the most", dir, len(kept), maxSummary)
	}
	o.from(m)
	id := o.ID
	if id == "" {
		id = "run-" + foreign.Line(m.ID, maxName)
	}
	status := campaign.Success
	if sum.Status != assay.StatusComplete {
		status = campaign.Partial
	}
	created := time.Unix(0, m.Created)
	r := Result{
		Benchmark: store.Benchmark{
			ID: id, RunID: o.Campaign, Created: created, GPUType: o.GPU, GPUCount: max(o.Count, 1), Provider: o.Provider, Location: o.Location,
			Model: m.Engine.Model, Engine: o.Engine, TokensPerSecond: f.TokensPerSecond, PricePerHour: o.Price, Directory: dir, Summary: string(kept),
		},
		Manifest: store.Manifest{
			ID: id, RunID: o.Campaign, Created: created, GPUType: o.GPU, Provider: o.Provider, Model: m.Engine.Model,
			SessionID: o.Session, InstanceIP: o.IP, SSHPort: o.Port, Status: string(status), Started: time.Unix(0, sum.Started), Completed: time.Unix(0, sum.Ended),
			BenchmarkID: id, TokensPerSecond: f.TokensPerSecond, TotalRequests: &f.TotalRequests, ErrorCount: &f.ErrorCount, Notes: foreign.Line(o.Notes, maxText),
		},
	}
	return r.checked()
}

// from fills in what the run knows.
func (o *Origin) from(m assay.Manifest) {
	if o.GPU == "" && len(m.Node.GPUs) > 0 {
		o.GPU, o.Count = m.Node.GPUs[0].Name, len(m.Node.GPUs)
	}
	if o.Engine == "" {
		o.Engine = m.Engine.Backend
	}
	if p := m.Judge.PricePerHour; o.Price == nil && p != nil && p.Currency == "USD" {
		o.Price = p
	}
}

// reduced is what is kept of a summary: what queries and reports ask for. Its
// readings stay in the run directory.
func reduced(s assay.Summary) assay.Summary {
	return assay.Summary{
		Format: s.Format, RunID: s.RunID, Status: s.Status, Engine: s.Engine, Started: s.Started, Ended: s.Ended,
		Client: s.Client, Stages: s.Stages, Scaling: s.Scaling, Energy: s.Energy, Restarts: s.Restarts, Warnings: s.Warnings,
	}
}

// checked refuses what must not become a row, and marks a result that is none.
func (r Result) checked() (Result, error) {
	for what, name := range map[string]string{"GPU": r.Benchmark.GPUType, "model": r.Benchmark.Model, "provider": r.Benchmark.Provider, "campaign": r.Benchmark.RunID} {
		if name == "" {
			return Result{}, fmt.Errorf("its %s is not known: say which it was", what)
		}
		if len(name) > maxName || !foreign.Plain(name) || strings.TrimSpace(name) != name {
			return Result{}, fmt.Errorf("its %s %q is no name: 1 to %d bytes without control characters are", what, foreign.Line(name, 60), maxName)
		}
	}
	if p := r.Benchmark.PricePerHour; p != nil && p.Currency != "USD" {
		return Result{}, fmt.Errorf("its price is in %s; the database counts in USD", foreign.Line(p.Currency, 10))
	}
	if r.Manifest.TokensPerSecond == nil {
		m := &r.Manifest
		m.Status, m.BenchmarkID = string(campaign.Failed), ""
		m.FailureStage, m.FailureReason, m.ErrorMessage = string(campaign.Benchmark), string(campaign.CauseExit), ErrNothing.Error()
		return r, ErrNothing
	}
	return r, nil
}
