package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

// made is an experiment of generated runs: each engine's speed, as a factor on
// all its times, with 2 % noise from run to run.
func made(rounds int, speeds ...float64) Experiment {
	w := newWorld(42, 0, len(speeds))
	w.requests = 60
	e := w.experiment(Plan{Rounds: rounds})
	e.Name, e.Created, e.Ended = "Two engines", 1_790_000_000_000_000_000, 1_790_000_900_000_000_000
	for r := range rounds {
		for i, speed := range speeds {
			s := w.run(w.name(i), r+1, speed*math.Exp(0.02*w.rng.NormFloat64()))
			s.Order, s.Started, s.Ended = i+1, e.Created+int64(r)*60e9+int64(i)*20e9, e.Created+int64(r)*60e9+int64(i)*20e9+19e9
			s.Metrics["memory_peak_bytes"] = float64(2<<30) * (1 + 0.01*w.rng.Float64())
			e.Samples = append(e.Samples, s)
		}
	}
	return e
}

func find(t *testing.T, a Analysis, engine, against, metric string) Comparison {
	t.Helper()
	c := a.between(engine, against, "w", metric)
	if c == nil {
		t.Fatalf("no comparison of %s and %s by %s", engine, against, metric)
	}
	return *c
}

func TestVerdicts(t *testing.T) {
	longer := func(by float64) func(*Experiment) {
		return func(e *Experiment) {
			for i := range e.Samples {
				if e.Samples[i].Engine == "b" {
					e.Samples[i].OutputTokens *= by
				}
			}
		}
	}
	for _, test := range []struct {
		name   string
		rounds int
		speed  float64
		change func(*Experiment)
		metric string
		want   Outcome
		said   string // contained
	}{
		{"equals", 20, 1, nil, "e2e_ms_mean", NoDifference, ""},
		{"slower", 20, 1.1, nil, "e2e_ms_mean", Slower, ""},
		{"faster", 20, 0.9, nil, "e2e_ms_mean", Faster, ""},
		{"a lower rate is slower", 20, 1.1, nil, "output_tokens_per_second", Slower, ""},
		{"five rounds reject nothing", 5, 1.1, nil, "e2e_ms_mean", NotEnough, "need about"},
		{"two rounds know no spread", 2, 1.1, nil, "e2e_ms_mean", NotEnough, "need at least 8 more rounds"},
		{"one round", 1, 1.1, nil, "e2e_ms_mean", NotEnough, "need at least 9 more rounds"},
		{"2 % longer answers are the same work", 20, 1.1, longer(1.019), "e2e_ms_mean", Slower, ""},
		{"3 % longer answers are not", 20, 1.1, longer(1.03), "e2e_ms_mean", NotComparable, "different work"},
		{"nor for throughput", 20, 1.1, longer(1.03), "output_tokens_per_second", NotComparable, "51.5 tokens on average"},
		{"the first token does not mind", 20, 1.1, longer(1.03), "ttft_ms_p50", Slower, ""},
		{"unknown lengths are not the same", 20, 1.1, longer(0), "e2e_ms_mean", NotComparable, "not known"},
		{"no errors at all", 20, 1.1, nil, "error_rate", NoDifference, ""},
		{"errors of one", 20, 1.1, func(e *Experiment) {
			for i := range e.Samples {
				if e.Samples[i].Engine == "b" {
					e.Samples[i].Metrics["error_rate"] = 0.01 + 0.001*float64(e.Samples[i].Round)
				}
			}
		}, "error_rate", HigherIs, ""},
		{"a metric that one lacks", 20, 1.1, func(e *Experiment) {
			for i := range e.Samples {
				if e.Samples[i].Engine == "b" {
					delete(e.Samples[i].Metrics, "tpot_ms_p50")
				}
			}
		}, "tpot_ms_p50", NotComparable, "b has no figure"},
		{"utilization is no merit", 20, 1.1, func(e *Experiment) {
			for i := range e.Samples {
				e.Samples[i].Metrics["gpu_utilization_mean"] = 0.5
			}
		}, "gpu_utilization_mean", NotComparable, "no merit"},
		{"not paired", 20, 1.1, func(e *Experiment) { e.Paired = false }, "e2e_ms_mean", Slower, ""},
		{"the pilot is not judged", 20, 1.1, func(e *Experiment) {
			for i := range e.Samples {
				e.Samples[i].Order, e.Samples[i].Round = e.Samples[i].Round, 0
			}
			e.Samples = append(e.Samples, made(1, 1, 1.1).Samples...)
		}, "e2e_ms_mean", NotEnough, ""},
		{"rounds that share nothing", 20, 1.1, func(e *Experiment) {
			for i := range e.Samples {
				if e.Samples[i].Engine == "b" {
					e.Samples[i].Round += 100
				}
			}
		}, "e2e_ms_mean", NotEnough, "no round has both"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := made(test.rounds, 1, test.speed)
			if test.change != nil {
				test.change(&e)
			}
			c := find(t, Analyze(e), "b", "a", test.metric)
			if c.Verdict != test.want || !strings.Contains(c.Text(), test.said) {
				t.Errorf("%s, want %s %s: %+v", c.Text(), test.want, test.said, c)
			}
			if c.Engine != "b" || c.Against != "a" {
				t.Errorf("%s is compared with %s", c.Engine, c.Against)
			}
		})
	}
}

func TestTheRatioAndItsIntervalHoldTheTruth(t *testing.T) {
	c := find(t, Analyze(made(40, 1, 1.1)), "b", "a", "e2e_ms_mean")
	if !(math.Abs(c.Change.Est-1.1) <= 0.02) || !(c.Change.Lo < 1.1 && 1.1 < c.Change.Hi) || c.Scale != "ratio" {
		t.Errorf("the ratio is %+v, and the truth 1.1", c.Change)
	}
	if !(c.Simultaneous.Lo < c.Change.Lo && c.Change.Hi < c.Simultaneous.Hi) {
		t.Errorf("the interval of the family %+v is not wider than %+v", c.Simultaneous, c.Change)
	}
	if !(*c.Adjusted > *c.P) || c.Effect != "large" || !(*c.Cliff >= 0.9) || c.Better != "a" {
		t.Errorf("%+v", c)
	}
}

// Samples come in any order from disk; the answer is the same.
func TestTheAnswerDoesNotDependOnTheOrderOfSamples(t *testing.T) {
	e := made(12, 1, 1.05, 0.97)
	want, err := encode([]any{summaryOf(Analyze(e)), statisticsOf(Analyze(e)), performanceOf(Analyze(e)), recommendationsOf(Analyze(e))})
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(5) {
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(e.Samples), func(i, j int) { e.Samples[i], e.Samples[j] = e.Samples[j], e.Samples[i] })
		a := Analyze(e)
		got, err := encode([]any{summaryOf(a), statisticsOf(a), performanceOf(a), recommendationsOf(a)})
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Fatal("another order gives another answer")
		}
	}
}

func TestFastest(t *testing.T) {
	two := func(fast2 float64) Experiment {
		e := made(20, 1, 0.8)
		second := made(20, 1, fast2)
		e.Workloads = append(e.Workloads, "w2")
		for _, s := range second.Samples {
			s.Workload = "w2"
			e.Samples = append(e.Samples, s)
		}
		return e
	}
	invalid := made(20, 1, 0.8)
	invalid.Samples[7].Client = assay.Invalid
	different := made(20, 1, 0.8)
	for i := range different.Samples {
		if different.Samples[i].Engine == "b" {
			different.Samples[i].OutputTokens = 80
		}
	}
	alone := made(20, 1, 0.8)
	alone.Samples = slices.DeleteFunc(alone.Samples, func(s Sample) bool { return s.Engine == "b" })
	for _, test := range []struct {
		name    string
		e       Experiment
		want    string
		because string
	}{
		{"one is", made(20, 1, 0.8), "b", "ahead of every other"},
		{"the first is", made(20, 1, 1.2), "a", "ahead of every other"},
		{"equals", made(20, 1, 1), Tied, "no difference shown"},
		{"too few rounds", made(3, 1, 0.8), Tied, "not enough data"},
		{"two of three lead", made(20, 1, 0.8, 0.8), Tied, "no engine is ahead of every other"},
		{"different work", different, Tied, "different work"},
		{"the client was the bottleneck", invalid, Tied, "bottleneck"},
		{"equal elsewhere", two(1), "b", "behind none"},
		{"slower elsewhere", two(1.2), Tied, "is behind"},
		{"one ran", alone, Tied, "nothing to compare"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := Analyze(test.e).Overall
			if o.Fastest != test.want || !strings.Contains(o.Because, test.because) {
				t.Errorf("%s because %s; want %s because %s", o.Fastest, o.Because, test.want, test.because)
			}
		})
	}
}

func TestAClientThatWasTheBottleneckIsNamed(t *testing.T) {
	e := made(20, 1, 1.1)
	e.Samples[0].Client, e.Samples[3].Client = assay.Invalid, assay.DegradedBy
	a := Analyze(e)
	c := find(t, a, "b", "a", "e2e_ms_mean")
	if c.Invalid != 1 || len(c.Doubts) != 1 || !strings.Contains(c.Doubts[0], "1 of its 40 runs") {
		t.Errorf("doubts: %v", c.Doubts)
	}
	if a.Overall.InvalidSamples != 1 || a.Overall.DegradedSamples != 1 {
		t.Errorf("%d invalid and %d degraded", a.Overall.InvalidSamples, a.Overall.DegradedSamples)
	}
	if c.Verdict != Slower {
		t.Errorf("the verdict is %s: it is marked, not withdrawn", c.Verdict)
	}
}

func TestRoundsThatOneEngineLacksAreLeftOutAndSaid(t *testing.T) {
	e := made(20, 1, 1.1)
	for i := range e.Samples {
		if s := &e.Samples[i]; s.Engine == "b" && s.Round <= 3 {
			s.Failed, s.Metrics = "it crashed", nil
		}
	}
	a := Analyze(e)
	c := find(t, a, "b", "a", "e2e_ms_mean")
	if c.N != 17 || len(c.Doubts) != 1 || !strings.Contains(c.Doubts[0], "3 of 20 rounds") {
		t.Errorf("%d pairs, doubts %v", c.N, c.Doubts)
	}
	if len(a.Failures) != 3 || a.Failures[0].Round != 1 || a.Failures[2].Round != 3 {
		t.Errorf("failures: %+v", a.Failures)
	}
}

func TestAnEngineThatFailedIsReportedAndTheOthersGoOn(t *testing.T) {
	e := made(20, 1, 1.1)
	e.Engines = append(e.Engines, Engine{Name: "c", Kind: "serve", Failed: "it exited with 1", LogTail: "loading\nout of memory\n"})
	a := Analyze(e)
	if a.Overall.Fastest != "a" {
		t.Errorf("the fastest is %s because %s", a.Overall.Fastest, a.Overall.Because)
	}
	if len(a.Failures) != 1 || a.Failures[0].LogTail != "loading\nout of memory\n" {
		t.Errorf("failures: %+v", a.Failures)
	}
	if r := a.Overall.Matrix[2]; r.Engine != "c" || r.Failed == "" || r.Latency != nil || r.Speedup.Known() {
		t.Errorf("its row is %+v", r)
	}
	if !slices.ContainsFunc(a.Advice, func(v Advice) bool { return v.Kind == "objective" || v.Kind == "risk" && v.Engine == "a" }) {
		t.Error("no advice about a")
	}
}

func TestOutliersAreMarkedAndNothingIsRemoved(t *testing.T) {
	e := made(20, 1, 1.02)
	odd := slices.IndexFunc(e.Samples, func(s Sample) bool { return s.Engine == "a" && s.Round == 7 })
	e.Samples[odd].Metrics["e2e_ms_mean"] *= 3
	plain := Analyze(e)
	f := plain.of("a", "w", "e2e_ms_mean")
	if len(f.Marked) != 1 || f.Marked[0].Round != 7 || f.Marked[0].How != "extreme" {
		t.Errorf("marked: %+v", f.Marked)
	}
	if len(f.Values) != 20 || f.Mean.N != 20 || f.Max != f.Marked[0].Value || f.Trimmed != nil {
		t.Errorf("a marked run was dropped: %+v", f)
	}
	e.Analysis.RemoveOutliers, e.Analysis.Threshold = true, 2
	asked := Analyze(e)
	g := asked.of("a", "w", "e2e_ms_mean")
	if g.Trimmed == nil || !(*g.Trimmed < g.Mean.Est) {
		t.Errorf("remove_outliers gives no trimmed mean beside %v", g.Mean.Est)
	}
	for i := range asked.Figures {
		asked.Figures[i].Trimmed = nil
	}
	one, err := encode([]any{summaryOf(plain), statisticsOf(plain), performanceOf(plain)})
	if err != nil {
		t.Fatal(err)
	}
	other, err := encode([]any{summaryOf(asked), statisticsOf(asked), performanceOf(asked)})
	if err != nil {
		t.Fatal(err)
	}
	if string(one) != string(other) {
		t.Error("remove_outliers changes more than one column")
	}
}

func TestAgreementOfTheAnswers(t *testing.T) {
	e := made(3, 1, 1)
	for i := range e.Samples {
		s := &e.Samples[i]
		s.Texts = []string{"x", "y", ""}
		if s.Engine == "b" && s.Round == 2 {
			s.Texts = []string{"x", "z", "q"}
		}
	}
	got := map[string]Agreement{}
	for _, g := range Analyze(e).Agreement {
		got[g.Engine+g.Against] = g
	}
	for pair, want := range map[string][2]int{"aa": {4, 4}, "ba": {5, 6}, "bb": {2, 4}} {
		if g := got[pair]; g.Same != want[0] || g.Of != want[1] {
			t.Errorf("%s: %d of %d, want %v", pair, g.Same, g.Of, want)
		}
	}
}

func TestSuccessCriteria(t *testing.T) {
	met := func(e Experiment) (out []bool) {
		for _, c := range Analyze(e).Criteria {
			out = append(out, c.Met)
		}
		return out
	}
	if got, want := met(made(20, 1, 1.2)), []bool{true, true, true, true, true}; !slices.Equal(got, want) {
		t.Errorf("a good experiment: %v", got)
	}
	few := made(20, 1, 1.2)
	for i := range few.Samples {
		few.Samples[i].Cases = 40 // 60 requests for 40 cases: one each, in 20 rounds
	}
	if got := met(few); got[0] {
		t.Error("20 measurements a case are more than 50")
	}
	noisy := made(20, 1, 1.2)
	for i := range noisy.Samples {
		noisy.Samples[i].Metrics["e2e_ms_mean"] *= 1 + 0.5*float64(i%3)
	}
	if got := met(noisy); got[1] {
		t.Error("a variation of 40 % is below 10 %")
	}
	if got := met(made(20, 1, 1)); got[2] {
		t.Error("equals differ with p < 0.05")
	}
	if got := met(made(3, 1, 1.2)); got[3] {
		t.Error("three rounds have intervals")
	}
	if got := met(Experiment{Engines: []Engine{{Name: "a"}}, Workloads: []string{"w"}}); slices.Contains(got, true) {
		t.Errorf("nothing meets %v", got)
	}
}

func TestAnEmptyExperimentHasAnAnswer(t *testing.T) {
	for _, e := range []Experiment{{}, {Engines: []Engine{{Name: "a"}, {Name: "b"}}, Workloads: []string{"w"}}, {Engines: []Engine{{Name: "a"}}}} {
		a := Analyze(e)
		if a.Overall.Fastest != Tied || a.Overall.BestLatency != nil {
			t.Errorf("%+v", a.Overall)
		}
		if _, err := encode([]any{summaryOf(a), statisticsOf(a), performanceOf(a), recommendationsOf(a)}); err != nil {
			t.Error(err)
		}
	}
}

// A run without a steady window has the throughput of its whole time. It is
// compared with that of the other runs, never with that of their windows, and a
// note says so.
func TestRunsWithoutAWindowAreComparedWhole(t *testing.T) {
	const rate = "output_tokens_per_second"
	e := made(20, 1, 1)
	for i := range e.Samples {
		s := &e.Samples[i]
		s.Whole = map[string]float64{rate: 0.7 * s.Metrics[rate]}
		if s.Engine == "b" && s.Round%2 == 0 {
			s.RatesOf = assay.RatesOfWhole
			s.Metrics[rate] = s.Whole[rate]
		}
	}
	a := Analyze(e)
	if c := find(t, a, "b", "a", rate); c.Verdict != NoDifference {
		t.Errorf("%+v", c)
	}
	if !slices.ContainsFunc(a.Notes, func(n string) bool { return strings.Contains(n, "whole runs") }) {
		t.Errorf("no note: %q", a.Notes)
	}
	if s := e.Samples[0]; s.Metrics[rate] == s.Whole[rate] {
		t.Error("the analysis changed what was measured")
	}
}
