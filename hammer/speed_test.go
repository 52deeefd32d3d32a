package hammer

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/clock"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/summary"
)

// An engine that gets stuck is an event and a finding, and ends nothing. Time is
// what the looks say: ten minutes of it pass at once.
func TestSlowInferenceIsAnEventAndAFinding(t *testing.T) {
	const second = int64(1e9)
	start := 1_800_000_000 * second
	dir := filepath.Join(t.TempDir(), "run")
	w, err := journal.Create(dir, assay.Manifest{Format: assay.RunFormat, ID: "01J", Created: start, Node: assay.Node{ID: "n", GPUs: []assay.GPU{}}})
	if err != nil {
		t.Fatal(err)
	}
	stage := assay.Stage{Name: "c2", Kind: assay.LoadClosed, Concurrency: 2}
	r := &run{w: w, clock: clock.New(), stage: stage, cancel: func(err error) {
		t.Errorf("the run was ended: %v", err)
	}}
	r.put(assay.Event{At: start, Kind: assay.EventStageStarted, Stage: stage.Name, Plan: &stage})
	r.watchStage(summary.NewWatchdog(stage))
	tokens := int64(0)
	look := func(from, to int64, rate int64) {
		for s := from; s < to; s++ {
			r.watchSpeed(start+s*second, tokens, 2*float64(s))
			tokens += rate
		}
	}
	look(0, 300, 100)
	look(300, 500, 0)
	r.watchStage(nil) // the load has ended
	look(500, 600, 0)
	r.put(assay.Event{At: start + 600*second, Kind: assay.EventStageEnded, Stage: stage.Name})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	rd, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []assay.Event
	for e, err := range rd.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == assay.EventSlowInference {
			found = append(found, *e)
		}
	}
	if len(found) != 1 || found[0].Stage != "c2" || found[0].Data["first_minute"] != 50 || !(found[0].Data["tokens_per_second"] < 25) {
		t.Fatalf("%+v", found)
	}
	sum, err := summary.Of(rd)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Health(rd, sum)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range h.Findings {
		if f.Rule == "slow_inference" && f.Verdict == assay.Degraded && strings.Contains(f.Text, "stage c2") {
			return
		}
	}
	t.Errorf("no finding among %+v", h.Findings)
}
