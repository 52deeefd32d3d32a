package report

import (
	"math"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

func TestFindMaxSaysWhatItRestsOn(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		f    assay.FindMax
		want []string
		not  string
	}{
		{assay.FindMax{Of: "concurrency", Load: assay.Quantity{N: 9, Est: 16, Lo: 16, Hi: 17}}, []string{"16 streams; kept at 16, broken at 17."}, "edge"},
		{assay.FindMax{Of: "rate", Edge: true, Load: assay.Quantity{N: 9, Est: 20, Lo: 16, Hi: nan, Why: "10 stages did not tell"}},
			[]string{"20 requests/s, an edge: 10 stages did not tell; kept at 16, broken at none."}, "unknown"},
		{assay.FindMax{Of: "rate", Load: assay.UnknownQuantity("too few")}, []string{"unknown: too few."}, "kept at"},
		{assay.FindMax{Of: "rate", Load: assay.Quantity{N: 1, Est: 2, Lo: 2, Hi: 3}, Levels: []assay.SearchLevel{{Load: 1, SetAside: "r1"}, {Load: 2}}},
			[]string{"Set aside, as all violations lie within half of the stage: r1."}, "r1,"},
	} {
		got := findMax(c.f)
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("%q, want %q in it", got, w)
			}
		}
		if strings.Contains(got, c.not) {
			t.Errorf("%q has %q", got, c.not)
		}
	}
}

func TestUndecidedObjectivesSayWhy(t *testing.T) {
	st := assay.StageSummary{Name: "c8", Objectives: []assay.Held{{
		Objective: assay.Objective{Metric: "ttft", Stat: "p99", Max: 5000},
		Measured:  assay.Quantity{N: 25, Est: 3, Lo: math.NaN(), Hi: math.NaN(), Why: "about 343 more would do"},
	}}}
	if got := undecided(assay.Summary{Stages: []assay.StageSummary{st}}); !strings.Contains(got, "ttft_p99<5000ms at c8 is unknown: about 343 more would do.") {
		t.Errorf("%q", got)
	}
	st.Objectives[0].Verdict = assay.Pass
	if got := undecided(assay.Summary{Stages: []assay.StageSummary{st}}); got != "" {
		t.Errorf("%q", got)
	}
}
