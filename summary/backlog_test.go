package summary

import (
	"math/rand/v2"
	"testing"

	"github.com/assay-bench/assay"
)

// served runs Poisson arrivals through one server that takes a fixed time for
// each, for so many seconds, and gives the stage's summary.
func served(rate, capacity float64, seconds int64, seed uint64) (assay.StageSummary, []assay.Warning) {
	const second = int64(1e9)
	start := int64(1_700_000_000) * second
	plan := assay.Stage{Name: "r", Kind: assay.LoadOpen, Rate: rate, DurationNS: seconds * second}
	c := NewCollector(plan, assay.Judge{Objectives: []assay.Objective{{Metric: "e2e", Stat: "p50", Max: 1e9}}})
	c.Started(start)
	rng := rand.New(rand.NewPCG(seed, 1))
	at, free := start, start
	for {
		at += int64(rng.ExpFloat64() / rate * 1e9)
		if at >= start+plan.DurationNS {
			break
		}
		free = max(free, at) + int64(1e9/capacity)
		c.Add(&assay.Request{ID: "x", Stage: "r", Scheduled: at, Eligible: at, Sent: at, First: free, Last: free, End: free, OutputTokens: 1})
	}
	c.LoadEnd(start + plan.DurationNS)
	c.Ended(max(free, start+plan.DurationNS))
	return c.Summary(), c.Warnings()
}

// A rate above capacity is found out although its objective is still kept, and
// a rate that the engine keeps up with is not accused.
func TestBacklog(t *testing.T) {
	wrong := map[float64]int{}
	for seed := range uint64(200) {
		for _, rate := range []float64{50, 90, 130} {
			s, warnings := served(rate, 100, 10, seed)
			grows := s.Kept == assay.Fail
			if said := len(warnings) > 0 && warnings[len(warnings)-1].Kind == "backlog_grows"; said != grows {
				t.Fatalf("kept %s, warnings %v", s.Kept, warnings)
			}
			if grows != (rate > 100) {
				wrong[rate]++
			}
		}
	}
	t.Logf("wrong of 200: %v", wrong)
	if wrong[50] > 0 || wrong[90] > 10 || wrong[130] > 2 {
		t.Errorf("wrong of 200 at each rate, for a capacity of 100/s: %v", wrong)
	}
}
