package compare

import (
	"math"
	"testing"

	"github.com/assay-bench/assay"
)

// The verdict goes by the adjusted p, and with several looks by what this look
// may use of the level.
func TestVerdictsGoByTheAdjustedP(t *testing.T) {
	ps := []float64{0.012, 0.04, 0.02}
	for _, test := range []struct {
		name     string
		family   Family
		adjusted []float64
		shown    []bool
	}{
		{"Holm", Family{Level: 0.05, LevelNow: 0.05, Adjust: adjustHolm}, []float64{0.036, 0.04, 0.04}, []bool{true, true, true}},
		{"Bonferroni", Family{Level: 0.05, LevelNow: 0.05, Adjust: adjustBonf}, []float64{0.036, 0.12, 0.06}, []bool{true, false, false}},
		{"Holm at an early look", Family{Level: 0.05, LevelNow: 0.04, Adjust: adjustHolm}, []float64{0.045, 0.05, 0.05}, []bool{true, true, true}},
		{"Holm at an earlier one", Family{Level: 0.05, LevelNow: 0.01, Adjust: adjustHolm}, []float64{0.18, 0.2, 0.2}, []bool{false, false, false}},
	} {
		var all []Comparison
		for _, p := range ps {
			all = append(all, Comparison{Metric: "e2e_ms_mean", Scale: "ratio", Paired: true, N: 20, NAgainst: 20, P: known(p), tested: true, d: []float64{0.1, 0.2}, Change: assay.Quantity{N: 20, Est: 1.2}})
		}
		f := test.family
		f.Effect, f.Power = 0.05, 0.9
		if f.Tests = adjust(all, f); f.Tests != 3 {
			t.Fatalf("%d tests", f.Tests)
		}
		for i := range all {
			all[i].judge(f)
			if got := *all[i].Adjusted; !(math.Abs(got-test.adjusted[i]) <= 1e-12) || all[i].Verdict.Shown() != test.shown[i] {
				t.Errorf("%s, p %v: adjusted %v, %s; want %v, shown %v", test.name, ps[i], got, all[i].Verdict, test.adjusted[i], test.shown[i])
			}
		}
	}
}

// A test that can never reject, since every difference is zero, takes no share
// of the family's level; a pilot is no sample.
func TestTheFamilyIsWhatWasTested(t *testing.T) {
	e := made(20, 1, 1)
	for i := range e.Samples {
		e.Samples[i].Metrics = map[string]float64{"e2e_ms_mean": e.Samples[i].Metrics["e2e_ms_mean"], "ttft_ms_p50": 50, "error_rate": 0}
	}
	pilot := e.Samples[0]
	pilot.Round, pilot.Metrics = 0, map[string]float64{"e2e_ms_mean": 1e6}
	e.Samples = append(e.Samples, pilot)
	a := Analyze(e)
	if a.Family.Tests != 1 {
		t.Errorf("%d tests, of which two cannot reject", a.Family.Tests)
	}
	if c := find(t, a, "b", "a", "e2e_ms_mean"); *c.P != *c.Adjusted {
		t.Errorf("p %v became %v", *c.P, *c.Adjusted)
	}
	if c := find(t, a, "b", "a", "ttft_ms_p50"); *c.Adjusted != 1 || c.Verdict != NoDifference {
		t.Errorf("equal in every round: %+v", c)
	}
	if f := a.of("a", "w", "e2e_ms_mean"); len(f.Values) != 20 || f.Max > 1e4 {
		t.Errorf("the pilot is in the figures: %+v", f)
	}
	if n := Tests(e); n != 3 {
		t.Errorf("a plan counts %d tests; what will turn out to be zero is not known then", n)
	}
}

func TestLooksShareTheLevel(t *testing.T) {
	p := Plan{Rounds: 20, Looks: 4, Level: 0.05}
	if at := LookRounds(p); len(at) != 4 || at[0] != 5 || at[3] != 20 {
		t.Errorf("looks at %v", at)
	}
	if at := LookRounds(Plan{Rounds: 3, Looks: 10}); len(at) != 3 || at[2] != 3 {
		t.Errorf("three rounds are looked at after %v", at)
	}
	f := Family{Level: 0.05, Looks: 4}
	sum, last := 0.0, 0.0
	for k, done := range []int{5, 10, 15, 20} {
		look, level := lookNow(f, 20, done)
		if look != k+1 || level <= last {
			t.Errorf("after %d rounds: look %d with %v, after %v", done, look, level, last)
		}
		sum, last = sum+level, level
	}
	if !(sum <= 0.05+1e-12 && sum >= 0.0499) {
		t.Errorf("the looks use %v of 0.05", sum)
	}
	// Interrupted between looks: the next one, early; beyond the plan: the last.
	if look, _ := lookNow(f, 20, 7); look != 2 {
		t.Errorf("seven rounds are look %d", look)
	}
	if look, _ := lookNow(f, 20, 30); look != 4 {
		t.Errorf("thirty rounds are look %d", look)
	}
	one, four := PlanRounds(0.06, Plan{Tests: 9}), PlanRounds(0.06, Plan{Tests: 9, Looks: 4})
	if !(one < four && four < 2*one) {
		t.Errorf("%d rounds with one look, %d with four", one, four)
	}
}
