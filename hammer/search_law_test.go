package hammer

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/load"
	"github.com/assay-bench/assay/simulate"
	"github.com/assay-bench/assay/stat"
)

const mostStreams = 256

// generated is an engine by a seed: requests of 0.1 to 2 s, whatever the law.
func generated(seed uint64) *lawEngine {
	rng := rand.New(rand.NewPCG(seed, 5))
	between := func(lo, hi float64) float64 { return lo * math.Pow(hi/lo, rng.Float64()) }
	e := &lawEngine{
		in: int(between(64, 1024)), out: int(between(32, 128)), sigma: 0.1 * rng.Float64(),
		rng: rand.New(rand.NewPCG(seed, 7)),
	}
	e.law = simulate.Batching{
		Slots: 16 * mostStreams, PrefillRate: between(5e3, 40e3),
		StepBase: time.Duration(between(3e6, 12e6)), StepPerSeq: time.Duration(between(50e3, 400e3)),
	}
	peak := between(12, 80)
	e.law.KVTokens = int(peak * float64(e.in+e.out))
	// Swapping must cost more than batching gains, or there is no peak.
	least := float64(e.law.StepBase) / float64(e.law.KVTokens)
	e.law.SwapPerToken = time.Duration(math.Ceil(least * between(1.5, 6)))
	return e
}

func near(got, want float64) error {
	if off := got/want - 1; !(math.Abs(off) <= 0.1) {
		return fmt.Errorf("%.4g, closed form %.4g (%+.0f %%)", got, want, 100*off)
	}
	return nil
}

func searchStage(kind assay.LoadKind) assay.Stage {
	return searched(assay.Stage{Kind: kind, DurationNS: int64(8 * time.Second), GraceNS: int64(30 * time.Second)})
}

// findMaxStreams looks for the streams that keep a percentile of E2E: R(N)·q is
// the limit, with q the percentile of the spread.
func findMaxStreams(t *testing.T, seed uint64) (int, error) {
	e := generated(seed)
	rng := rand.New(rand.NewPCG(seed, 9))
	peak := e.law.Peak(e.in, e.out)
	want := 10 + (peak-10)*rng.Float64()
	o := assay.Objective{Metric: "e2e", Stat: []string{"p90", "p95", "p99"}[rng.IntN(3)]}
	level, _ := o.Level()
	o.Max = 1e3 * e.law.Latency(want, e.in, e.out) * math.Exp(e.sigma*stat.NormalQuantile(level/100))
	e.judge = assay.Judge{Objectives: []assay.Objective{o}, Search: assay.SearchMaxConcurrency}
	plan := load.FindMax(load.FindMaxOptions{Like: searchStage(assay.LoadClosed), Max: 256})
	sum := e.stalled(t, plan, seed)
	if f := sum.FindMax; !f.Load.Known() {
		return len(sum.Stages), fmt.Errorf("%w: %s", errUnknown, f.Load.Why)
	}
	return len(sum.Stages), near(sum.FindMax.Load.Est, want)
}

// findMaxRate looks for the rate, in even arrivals, at which a percentile of E2E
// is kept: N = λ·R(N) by Little's law, so λ = X(N) for the N of that latency.
func findMaxRate(t *testing.T, seed uint64) (int, error) {
	e := generated(seed)
	rng := rand.New(rand.NewPCG(seed, 9))
	e.law.KVTokens, e.law.SwapPerToken, e.law.Slots = 0, 0, 128
	n := 10 + 30*rng.Float64()
	o := assay.Objective{Metric: "e2e", Stat: []string{"p90", "p95", "p99"}[rng.IntN(3)]}
	level, _ := o.Level()
	o.Max = 1e3 * e.law.Latency(n, e.in, e.out) * math.Exp(e.sigma*stat.NormalQuantile(level/100))
	e.judge = assay.Judge{Objectives: []assay.Objective{o}, Search: assay.SearchMaxRate}
	plan := load.FindMax(load.FindMaxOptions{Like: searchStage(assay.LoadOpen)})
	sum := e.stalled(t, plan, seed)
	if f := sum.FindMax; !f.Load.Known() {
		return len(sum.Stages), fmt.Errorf("%w: %s", errUnknown, f.Load.Why)
	}
	return len(sum.Stages), near(sum.FindMax.Load.Est, e.law.Throughput(n, e.in, e.out))
}

// saturation looks for knee and cliff.
func saturation(t *testing.T, seed uint64) (int, error) {
	e := generated(seed)
	e.judge = assay.Judge{Search: assay.SearchSaturate}
	plan := load.Saturate(load.SaturateOptions{Like: searchStage(assay.LoadClosed), MaxConcurrency: mostStreams})
	sum := e.stalled(t, plan, seed)
	sc := sum.Scaling
	if sc == nil || !sc.Knee.Known() {
		return len(sum.Stages), errUnknown
	}
	if err := near(sc.Knee.Est, e.law.Knee(e.in, e.out)); err != nil {
		return len(sum.Stages), fmt.Errorf("knee %w", err)
	}
	cliff, has := e.law.Cliff(e.in, e.out)
	switch {
	case sc.Cliff.Known():
		if err := near(sc.Cliff.Est, cliff); err != nil {
			return len(sum.Stages), fmt.Errorf("cliff %w", err)
		}
	case has && cliff < mostStreams:
		return len(sum.Stages), fmt.Errorf("%w: no cliff, closed form %.4g", errUnknown, cliff)
	}
	return len(sum.Stages), nil
}

// Searches on the batching law, each with a stall of 0.5 to 3 s at a random
// moment: of 400, 380 within 10 % of the closed form, and 16 wrong at most.
func TestSearchesWithAStall(t *testing.T) {
	const all = 400
	seeds := uint64(40)
	if os.Getenv("ASSAY_LONG") == "1" {
		seeds = all
	}
	kinds := []struct {
		name string
		run  func(*testing.T, uint64) (int, error)
	}{{"find-max concurrency", findMaxStreams}, {"saturate", saturation}, {"find-max rate", findMaxRate}, {"saturate", saturation}}
	good, wrong, unknown, stages := 0, 0, 0, 0
	by := map[string][4]int{}
	for seed := range seeds {
		k := kinds[seed%uint64(len(kinds))]
		n, err := k.run(t, seed)
		stages += n
		c := by[k.name]
		switch {
		case err == nil:
			good++
			c[0]++
		case errors.Is(err, errUnknown):
			unknown++
			c[1]++
			t.Logf("seed %d, %s, %d stages: %v", seed, k.name, n, err)
		default:
			wrong++
			c[2]++
			t.Logf("seed %d, %s, %d stages: %v", seed, k.name, n, err)
		}
		c[3] += n
		by[k.name] = c
	}
	t.Logf("%d searches, %.1f stages each: %d within 10 %%, %d wrong, %d unknown; by kind (good, unknown, wrong, stages): %v", seeds, float64(stages)/float64(seeds), good, wrong, unknown, by)
	if good*all < 380*int(seeds) || wrong*all > 16*int(seeds) {
		t.Errorf("%d of %d within 10 %%, %d wrong", good, seeds, wrong)
	}
}

// A stall of 1.5 s in one step made the answer 1 stream instead of 16.
func TestAStallInOneStepIsNoAnswer(t *testing.T) {
	e := &lawEngine{in: 64, out: 32, sigma: 0.05, law: simulate.Batching{
		Slots: 256, PrefillRate: 20e3, StepBase: 8 * time.Millisecond, StepPerSeq: 400 * time.Microsecond,
	}}
	// Between 16 and 17 streams.
	limit := 1e3 * e.law.Latency(16.5, e.in, e.out) * math.Exp(e.sigma*stat.NormalQuantile(0.99))
	e.judge = assay.Judge{Search: assay.SearchMaxConcurrency, Objectives: []assay.Objective{{Metric: "e2e", Stat: "p99", Max: limit}}}
	plan := load.FindMax(load.FindMaxOptions{Like: searchStage(assay.LoadClosed), Max: 256})
	for _, second := range []float64{4, 12, 20, 30, 36, 45} { // in the steps of 1, 2, 4… streams
		from := searchStart + int64(second*1e9)
		e.stall = period{from, from + int64(1500*time.Millisecond)}
		e.rng = rand.New(rand.NewPCG(1, 7))
		sum, _ := e.search(t, plan)
		f := sum.FindMax
		if !(f.Load.Est >= 15 && f.Load.Est <= 17) {
			t.Errorf("stall at %g s: %+v %+v", second, f.Load, f.Levels)
		}
		aside := 0
		for _, l := range f.Levels {
			if l.SetAside != "" {
				aside++
			}
		}
		if aside == 0 {
			t.Errorf("stall at %g s: no stage was set aside: %+v", second, f.Levels)
		}
	}
}

// Requests that take longer than a step: the step is extended, and the search
// finds what it finds with long steps.
func TestStepsShorterThanARequestAreExtended(t *testing.T) {
	e := &lawEngine{in: 64, out: 128, sigma: 0.05, law: simulate.Batching{
		Slots: 256, PrefillRate: 20e3, StepBase: 80 * time.Millisecond, StepPerSeq: 4 * time.Millisecond,
		KVTokens: 24 * 192, SwapPerToken: 40 * time.Microsecond,
	}} // 10.7 s at one stream
	e.judge = assay.Judge{Search: assay.SearchSaturate}
	e.rng = rand.New(rand.NewPCG(1, 7))
	sum, done := e.search(t, load.Saturate(load.SaturateOptions{Like: searchStage(assay.LoadClosed), MaxConcurrency: 64}))
	if err := measured(sum); err != nil {
		t.Fatal(err)
	}
	if done[0].Short == "" || !(done[0].E2E >= 10) || done[1].Stage.Name != "c1-b" || done[1].Stage.DurationNS < int64(50*time.Second) {
		t.Errorf("the first step was %+v, the second %+v", done[0], done[1].Stage)
	}
	if err := near(sum.Scaling.Knee.Est, e.law.Knee(e.in, e.out)); err != nil {
		t.Errorf("knee %v, %+v", err, sum.Scaling)
	}

	want := 12.0
	e.judge = assay.Judge{Search: assay.SearchMaxConcurrency, Objectives: []assay.Objective{
		{Metric: "e2e", Stat: "p90", Max: 1e3 * e.law.Latency(want, e.in, e.out) * math.Exp(e.sigma*stat.NormalQuantile(0.9))}}}
	sum, _ = e.search(t, load.FindMax(load.FindMaxOptions{Like: searchStage(assay.LoadClosed), Max: 64}))
	if err := near(sum.FindMax.Load.Est, want); err != nil {
		t.Errorf("find-max: %v, %+v", err, sum.FindMax)
	}
}

// A stage in which only warm-ups ended does not say that none succeeded.
func TestOnlyWarmupsIsNotNoSuccess(t *testing.T) {
	err := measured(assay.Summary{Stages: []assay.StageSummary{{Name: "c1", Warmups: 1, WarmupE2EMS: 10_000}}})
	if !errors.Is(err, ErrTooShort) || errors.Is(err, ErrNothingMeasured) {
		t.Errorf("%v", err)
	}
	if err := measured(assay.Summary{Stages: []assay.StageSummary{{Name: "c1", Requests: 5, Failed: 5}}}); !errors.Is(err, ErrNothingMeasured) {
		t.Errorf("%v", err)
	}
}

// A search that is taken up again asks for the stages that are on record, and
// goes on with the one that comes next.
func TestAResumedSearchGoesTheSameWay(t *testing.T) {
	e := generated(4)
	o := assay.Objective{Metric: "e2e", Stat: "p95", Max: 1e3 * e.law.Latency(14, e.in, e.out) * math.Exp(e.sigma*stat.NormalQuantile(0.95))}
	e.judge = assay.Judge{Objectives: []assay.Objective{o}, Search: assay.SearchMaxConcurrency}
	plan := load.FindMax(load.FindMaxOptions{Like: searchStage(assay.LoadClosed), Max: 256})
	sum, done := e.search(t, plan)
	var again []load.Outcome
	for i := range sum.Stages {
		s, ok := plan.Next(again)
		if !ok || s != done[i].Stage || s.Name != sum.Stages[i].Name {
			t.Fatalf("stage %d: %+v, was %+v", i, s, done[i].Stage)
		}
		again = append(again, outcome(s, &sum.Stages[i]))
	}
	if s, ok := plan.Next(again); ok {
		t.Errorf("one more stage: %+v", s)
	}
}
