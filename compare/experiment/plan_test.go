package experiment

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/compare"
)

func TestOrderIsAFunctionOfSeedAndRound(t *testing.T) {
	firsts := map[int]int{}
	for round := range 600 {
		o := order(42, round, 0, 3)
		if !slices.Equal(o, order(42, round, 0, 3)) {
			t.Fatal("not the same twice")
		}
		s := slices.Sorted(slices.Values(o))
		if !slices.Equal(s, []int{0, 1, 2}) {
			t.Fatalf("round %d: %v", round, o)
		}
		firsts[o[0]]++
	}
	for e, n := range firsts {
		if n < 150 || n > 250 { // 200 ± 5 standard deviations of 11.5
			t.Errorf("engine %d is first in %d of 600 rounds", e, n)
		}
	}
	if slices.Equal(order(42, 0, 0, 20), order(42, 0, 1, 20)) || slices.Equal(order(42, 1, 0, 20), order(43, 1, 0, 20)) {
		t.Error("pass or seed changes nothing")
	}
}

// pilot makes a trial with a pilot of two engines whose paired log-ratios are known.
func pilot(ratios ...float64) *trial {
	c := quick(0, EngineConfig{Name: "a"}, EngineConfig{Name: "b"})
	c.fill()
	x := &trial{began: time.Now(), cfg: c, engines: c.Engines, exp: &compare.Experiment{Engines: []compare.Engine{{Name: "a"}, {Name: "b"}}, Workloads: []string{"short"}, Paired: true}}
	for pass, r := range ratios {
		base := 100 + 10*float64(pass) // what both share is not in the ratio
		for i, v := range []float64{base, base * math.Exp(r)} {
			x.exp.Samples = append(x.exp.Samples, compare.Sample{
				Started: int64(pass*20+5*i) * 1e9, Ended: int64(pass*20+5*i+5) * 1e9,
				Engine: c.Engines[i].Name, Workload: "short", Order: 2*pass + i + 1, Metrics: map[string]float64{"e2e_ms_mean": v},
			})
		}
	}
	return x
}

func TestPilotSD(t *testing.T) {
	sd, upper, ok := pilot(0.10, 0.12, 0.14).pilotSD()
	if !ok || !(math.Abs(sd-0.02) <= 1e-12) {
		t.Errorf("sd %v %v", sd, ok)
	}
	// Two degrees of freedom: χ² is exponential with mean 2, its 20th percentile −2·ln 0.8.
	if want := 0.02 * math.Sqrt(2/(-2*math.Log(0.8))); !(math.Abs(upper-want) <= 1e-9) {
		t.Errorf("upper end %v, want %v", upper, want)
	}
	if _, _, ok := pilot(0.1).pilotSD(); ok {
		t.Error("one pass has no variation")
	}
	x := pilot(0.10, 0.12)
	x.exp.Samples[3].Failed = "crashed"
	if _, _, ok := x.pilotSD(); ok {
		t.Error("a failed run has no figures")
	}
}

func TestPlan(t *testing.T) {
	noisy := []float64{0, 0.05, 0.10}
	needs := compare.PlanRounds(0.05*math.Sqrt(2/(-2*math.Log(0.8))), compare.Plan{Tests: 1}) // the upper end for an sd of 0.05
	if needs <= 20 {
		t.Fatalf("only %d rounds for a noisy pilot", needs)
	}
	tests := []struct {
		name           string
		change         func(*trial)
		ratios         []float64
		rounds, needed int
	}{
		{"quiet", func(*trial) {}, []float64{0, 0.001, 0.002}, 10, 10},
		{"noisy", func(*trial) {}, noisy, needs, needs},
		{"as asked", func(x *trial) { x.cfg.Experiment.Rounds = 4 }, noisy, 4, needs},
		{"max_rounds", func(x *trial) { x.cfg.Experiment.MaxRounds = 12 }, noisy, 12, needs},
		{"no pilot", func(*trial) {}, nil, 10, 0},
	}
	for _, tt := range tests {
		x := pilot(tt.ratios...)
		x.log = discard(t)
		tt.change(x)
		x.plan()
		p := x.exp.Plan
		if p.Rounds != tt.rounds || p.Needed != tt.needed {
			t.Errorf("%s: %d rounds, %d needed (%s), want %d and %d", tt.name, p.Rounds, p.Needed, p.Why, tt.rounds, tt.needed)
		}
		if p.Primary != "e2e_ms_mean" || p.Why == "" || p.Seed != 7 || p.Test != "signed_rank" {
			t.Errorf("%s: %+v", tt.name, p)
		}
		if short := len(x.exp.Notes) > 0; short != (p.Rounds < p.Needed) {
			t.Errorf("%s: notes %q", tt.name, x.exp.Notes)
		}
	}
}

func discard(t *testing.T) *logbook {
	t.Helper()
	l, err := openLog(t.TempDir()+"/log", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.close() })
	return l
}

func TestFailuresInRow(t *testing.T) {
	visit := func(engine string, round int, failed ...string) []compare.Sample {
		var out []compare.Sample
		for _, f := range failed {
			out = append(out, compare.Sample{Engine: engine, Round: round, Order: 1, Failed: f})
		}
		return out
	}
	all := func(v ...[]compare.Sample) []compare.Sample { return slices.Concat(v...) }
	for _, tt := range []struct {
		samples []compare.Sample
		want    int
	}{
		{nil, 0},
		{all(visit("a", 1, "x", "x")), 1}, // two workloads of one visit are one failure
		{all(visit("a", 1, "x"), visit("a", 2, "", "x")), 2},
		{all(visit("a", 1, "x"), visit("a", 2, ""), visit("a", 3, "x")), 1},
		{all(visit("a", 1, "x"), visit("a", 2, "")), 0},
		{all(visit("a", 1, "x"), visit("b", 2, ""), visit("a", 2, "x")), 2},
	} {
		if got := failuresInRow(tt.samples, "a"); got != tt.want {
			t.Errorf("%d failures in a row, want %d: %+v", got, tt.want, tt.samples)
		}
	}
}

func TestBudgetCutsThePlan(t *testing.T) {
	x := pilot(0, 0.05, 0.10) // passes of 10 s
	x.log = discard(t)
	x.cfg.Experiment.TimeBudget = seconds(200)
	x.plan()
	// Some of the budget goes by while the plan is made.
	if p := x.exp.Plan; p.Rounds < 1 || p.Rounds > 20 || p.Needed <= p.Rounds || !strings.Contains(p.Why, "time budget of 3m20s allows") {
		t.Errorf("%+v", p)
	}
}

func TestBudgetStops(t *testing.T) {
	x := pilot(0, 0, 0) // passes of 10 s
	x.began, x.used = time.Now(), 30*time.Second
	for _, tt := range []struct {
		budget float64
		n      int
		want   bool
	}{{0, 5, true}, {39, 2, false}, {41, 2, true}, {1, 1, true}} {
		x.cfg.Experiment.TimeBudget = seconds(tt.budget)
		if got := x.inTime(tt.n); got != tt.want {
			t.Errorf("round %d within %g s: %v", tt.n, tt.budget, got)
		}
	}
	x.exp.Samples = append(x.exp.Samples, compare.Sample{Round: 2})
	if x.cfg.Experiment.TimeBudget = seconds(1); !x.inTime(2) {
		t.Error("a round that was begun is not ended")
	}
}

func TestLooksAreTakenOnceAndWhenPlanned(t *testing.T) {
	x := &trial{exp: &compare.Experiment{Plan: compare.Plan{Rounds: 12, Looks: 3}}} // after rounds 4, 8 and 12
	for _, tt := range []struct {
		n, latest int
		want      bool
	}{{4, 4, true}, {4, 5, false}, {5, 5, false}, {8, 8, true}, {12, 12, false}, {4, 8, false}} {
		x.exp.Samples = []compare.Sample{{Round: tt.latest}}
		if got := x.lookDue(tt.n); got != tt.want {
			t.Errorf("after round %d with %d on record: %v", tt.n, tt.latest, got)
		}
	}
}
