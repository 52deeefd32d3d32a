package score

import (
	"slices"
	"testing"

	"github.com/assay-bench/assay"
)

// A search overloads the engine on purpose: its failures are not the node's,
// as long as the best step has none.
func TestStepsOfASearchMayFail(t *testing.T) {
	in := healthy(1)
	in.Baseline = nil
	in.Summary.Stages[0].Plan.Probe = true
	over := stage("c64", 64)
	over.Plan.Probe, over.ErrorRate, over.GoodputPerSecond = true, 0.6, 12
	in.Summary.Stages = append(in.Summary.Stages, over)
	h := Health(in)
	if h.Verdict != assay.Pass || h.Performance.Stage != "c3" {
		t.Errorf("%s (%s), stage %s", h.Verdict, h.Because, h.Performance.Stage)
	}
	near(t, "stability", h.Score.Stability, 0.995/1.02)
	for i := range in.Summary.Stages {
		in.Summary.Stages[i].Plan.Probe = false
	}
	if h := Health(in); h.Verdict != assay.Fail {
		t.Errorf("a stage that was asked for fails 60 %% of its requests, and the node is %s", h.Verdict)
	}
}

func TestABrokenOffStageCountsOnlyWhereThereIsNoOther(t *testing.T) {
	in := healthy(1)
	off := stage("c64", 64)
	off.Complete, off.GoodputPerSecond, off.ErrorRate = false, 900, 0.5
	in.Baseline = nil
	in.Summary.Stages = append(in.Summary.Stages, off)
	if h := Health(in); h.Performance.Stage != "c3" || h.Verdict != assay.Pass {
		t.Errorf("stage %s, %s", h.Performance.Stage, h.Verdict)
	}
	in.Summary.Stages = in.Summary.Stages[1:]
	if h := Health(in); h.Performance.Stage != "c64" || h.Verdict != assay.Fail {
		t.Errorf("stage %s, %s", h.Performance.Stage, h.Verdict)
	}
}

func TestTheBestStageKeptTheObjectives(t *testing.T) {
	in := healthy(1)
	in.Baseline = nil
	in.Summary.Stages[0].Objectives, in.Summary.Stages[0].Kept = []assay.Held{{Verdict: assay.Pass}}, assay.Pass
	fast := stage("c64", 64)
	fast.GoodputPerSecond, fast.Objectives, fast.Kept = 90, []assay.Held{{Verdict: assay.Fail}}, assay.Fail
	in.Summary.Stages = append(in.Summary.Stages, fast)
	if h := Health(in); h.Performance.Stage != "c3" {
		t.Errorf("judged %s", h.Performance.Stage)
	}
}

// The rates of a whole stage are no match for those of a steady window.
func TestTheBestStageHasASteadyWindow(t *testing.T) {
	in := healthy(1)
	in.Baseline = nil
	whole := stage("c64", 64)
	whole.GoodputPerSecond, whole.RatesOf = 90, assay.RatesOfWhole
	in.Summary.Stages = append(in.Summary.Stages, whole)
	h := Health(in)
	if h.Performance.Stage != "c3" || *h.Performance.MaxThroughput != in.Summary.Stages[0].GoodputPerSecond {
		t.Errorf("judged %s, at most %g", h.Performance.Stage, *h.Performance.MaxThroughput)
	}
	in.Summary.Stages = in.Summary.Stages[1:]
	if h := Health(in); h.Performance.Stage != "c64" {
		t.Errorf("judged %s", h.Performance.Stage)
	}
}

func TestPowerOfAllGPUsNeedsAllOfThem(t *testing.T) {
	in := healthy(2)
	near(t, "power", Health(in).Performance.MeanPowerWatts, 640)
	delete(in.Summary.GPUs[1].Stats, assay.GPUPower)
	if p := Health(in).Performance.MeanPowerWatts; p != nil {
		t.Errorf("one of two GPUs was read, and all of them draw %v W", *p)
	}
}

func TestHardFindingsComeFirst(t *testing.T) {
	in := healthy(1)
	in.Summary.GPUs[0].Throttled["hw_slowdown"] = 0.5
	in.Summary.GPUs[0].XIDs["79"] = 1
	in.Summary.GPUs[0].XIDs["13"] = 1
	in.Summary.GPUs[0].Throttled["sw_thermal"] = 0.5
	var got []string
	for _, f := range Health(in).Findings {
		got = append(got, f.Rule)
	}
	if !slices.Equal(got, []string{"xid", "hw_slowdown", "sw_thermal", "xid"}) {
		t.Errorf("%v, want XID 79 first and 13 last", got)
	}
}

// A leak into a memory of unknown size is a finding, and no number is made up.
func TestALeakIntoUnknownMemoryIsFoundAndNotScored(t *testing.T) {
	in := healthy(1)
	in.Manifest.Node.MemoryBytes = 0
	in.Summary.Trends[1].Found, in.Summary.Trends[1].Slope = assay.Fail, assay.Quantity{N: 9, Est: 1e9, Lo: 1e9, Hi: 1e9}
	h := Health(in)
	near(t, "stability", h.Score.Stability, 0.995/1.02)
	if h.Score.Unknown["stability.leak"] == "" || h.Verdict != assay.Degraded {
		t.Errorf("%s, %q", h.Verdict, h.Score.Unknown["stability.leak"])
	}
}

// The summary of a card that the manifest does not know is judged all the same.
func TestACardThatOnlyTheReadingsKnowIsJudged(t *testing.T) {
	in := healthy(1)
	in.Summary.GPUs = append(in.Summary.GPUs, card("GPU-z"))
	in.Summary.GPUs[1].Lost = true
	h := Health(in)
	if len(h.GPUs) != 2 || h.GPUs[1].UUID != "GPU-z" || h.GPUs[1].Index != 1 || h.GPUs[1].Verdict != assay.Fail || h.Verdict != assay.Degraded {
		t.Errorf("%s %+v", h.Verdict, h.GPUs)
	}
}
