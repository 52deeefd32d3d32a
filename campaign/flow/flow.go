// Package flow is the order of a campaign's steps, on Temporal: one workflow for a
// cell, and one for the campaign that starts them.
//
// It promises that whatever was begun is ended. A cell's workflow rents, measures
// and gives back; giving back runs in a context that no cancellation reaches, and
// again until the end is proved. A worker that dies is replaced by the next one,
// which finds the workflow where it was.
//
// It refuses to own anything. Intents, instances and money are rows in SQL, which
// the activities change and reap understands without Temporal; a workflow has only
// references (ids of a campaign and a cell, the number of a try), so that nothing
// in its history is a result or a secret. What a failure means is decided by the
// table of package campaign.
//
// It is the only package that imports Temporal.
package flow

import "time"

// Queue is the task queue of all workflows and activities.
const Queue = "assay-campaign"

// Names of the workflows and of the signal, as they are in histories: they stay.
const (
	CampaignWorkflow = "assay.campaign"
	CellWorkflow     = "assay.cell"
	doneSignal       = "cell-done"
)

// CampaignID is the id of a campaign's workflow.
func CampaignID(campaign string) string { return "assay-campaign-" + campaign }

// CellID is the id of a cell's workflow.
func CellID(cell string) string { return "assay-cell-" + cell }

// Ref names one try of a cell. It is all that an activity is given.
type Ref struct {
	Campaign string `json:"campaign"`
	Cell     string `json:"cell"`
	Try      int    `json:"try"` // from 1
}

// CellInput is what a cell's workflow begins with.
type CellInput struct {
	Campaign string  `json:"campaign"`
	Cell     string  `json:"cell"`
	Tries    int     `json:"tries"` // at most
	Limits   Limits  `json:"limits"`
	Parent   string  `json:"parent,omitempty"` // the workflow that hears of its end; empty: none
	Pace     float64 `json:"pace,omitempty"`   // how much faster than the clock waits are, for a sandbox; 0: 1
}

// Limits are how long the stages of a try may take.
type Limits struct {
	Provision time.Duration `json:"provision"`
	Setup     time.Duration `json:"setup"`
	Load      time.Duration `json:"load"`
	Benchmark time.Duration `json:"benchmark"`
	Collect   time.Duration `json:"collect"`
}

// Outcome is what became of a cell, in words of package campaign.
type Outcome struct {
	Status  string `json:"status"`
	Stage   string `json:"stage,omitempty"` // where it failed
	Cause   string `json:"cause,omitempty"`
	Message string `json:"message,omitempty"`
	Tries   int    `json:"tries"`
}

// Ended is what Finish is given.
type Ended struct {
	Ref
	Outcome
}
