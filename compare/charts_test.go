package compare

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/report"
)

// overLoads is an experiment of two engines under these loads, each with the
// throughput of its concurrency times 10 or 20.
func overLoads(loads ...Load) Experiment {
	e := Experiment{Format: ExperimentFormat, Paired: true, Engines: []Engine{{Name: "a"}, {Name: "b"}}, Loads: loads}
	for _, l := range loads {
		e.Workloads = append(e.Workloads, l.Workload)
		for i, engine := range e.Engines {
			for round := 1; round <= 3; round++ {
				rate := float64(10*(i+1)*l.Concurrency + round)
				e.Samples = append(e.Samples, Sample{Engine: engine.Name, Workload: l.Workload, Round: round, Requests: 4, OK: 4, Client: assay.Certified,
					Metrics: map[string]float64{throughputMetric: rate}, Whole: map[string]float64{throughputMetric: rate}})
			}
		}
	}
	return e
}

func plotOf(t *testing.T, e Experiment, name string) report.Chart {
	t.Helper()
	all := Plots(e, Analyze(e))
	i := slices.IndexFunc(all, func(p Plot) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("no plot %s", name)
	}
	return all[i].Chart
}

func TestThroughputScalingIsALineOverConcurrency(t *testing.T) {
	e := overLoads(Load{"four", 4, "x"}, Load{"one", 1, "x"}, Load{"other", 2, "y"}, Load{"rate", 0, "x"}, Load{"two", 2, "x"})
	c := plotOf(t, e, "throughput_scaling")
	if c.Kind != report.ChartLine || c.X.Label != "requests under way" || len(c.Lines) != 2 {
		t.Fatalf("%+v", c)
	}
	// The mean of three rounds is two above the tenfold.
	if diff := cmp.Diff([]float64{1, 2, 4}, c.Lines[1].X); diff != "" || c.Lines[1].Name != "b" {
		t.Errorf("%s: %s", c.Lines[1].Name, diff)
	}
	if diff := cmp.Diff([]float64{22, 42, 82}, c.Lines[1].Y); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(c.Note, "other, rate") {
		t.Errorf("who is not on it: %s", c.Note)
	}
	// Workloads of which no two differ by it alone are bars, as are those of an
	// experiment of before loads were recorded.
	for name, loads := range map[string][]Load{
		"other work": {{"one", 1, "x"}, {"two", 2, "y"}}, "the same load twice": {{"one", 1, "x"}, {"again", 1, "x"}},
		"no loops": {{"one", 0, "x"}, {"two", 0, "x"}}, "not known": {{"one", 1, ""}, {"two", 2, ""}},
	} {
		if c := plotOf(t, overLoads(loads...), "throughput_scaling"); c.Kind != report.ChartBars || len(c.Lines) != 2 {
			t.Errorf("%s: %+v", name, c)
		}
	}
	// Two works are two lines an engine.
	e = overLoads(Load{"s1", 1, "short"}, Load{"l1", 1, "long"}, Load{"s2", 2, "short"}, Load{"l2", 2, "long"})
	if c := plotOf(t, e, "throughput_scaling"); len(c.Lines) != 4 || c.Lines[2].Name != "a, as l1" {
		t.Errorf("%+v", c.Lines)
	}
}

func TestMemoryOverTimeIsTheRoundOfThePeak(t *testing.T) {
	e := overLoads(Load{"w", 1, "x"}, Load{"v", 1, "y"})
	for i := range e.Samples {
		s := &e.Samples[i]
		s.Started = int64(s.Round) * 100e9
		if s.Workload == "v" {
			s.Started += 10e9
		}
		high := 1.0
		if s.Round == 2 {
			high = 3
		}
		if s.Engine == "a" {
			s.Series = map[string]Series{SeriesMemory: {At: []float64{0, 1}, Values: []float64{gib, high * gib}}, SeriesGPUMemory: {At: []float64{0.5}, Values: []float64{2 * gib}}}
		}
	}
	c := plotOf(t, e, "memory_over_time")
	if len(c.Lines) != 2 || c.Lines[0].Name != "processes of a" || c.Lines[1].Name != "GPU of a" {
		t.Fatalf("%+v", c.Lines)
	}
	if diff := cmp.Diff([]float64{0, 1, 10, 10, 11}, c.Lines[0].X); diff != "" {
		t.Error(diff)
	}
	y := slices.Clone(c.Lines[0].Y)
	if !math.IsNaN(y[2]) {
		t.Error("a line is drawn across the time between two runs")
	}
	if y[2] = 0; !slices.Equal(y, []float64{1, 3, 0, 1, 3}) {
		t.Errorf("%v", y)
	}
	if peaks := plotOf(t, e, "memory_usage"); peaks.Kind != report.ChartBars {
		t.Error("the peaks are gone")
	}
}

func TestSeriesKeepTheirPeaks(t *testing.T) {
	var s Series
	for i := range 10_000 {
		s.At, s.Values = append(s.At, float64(i)), append(s.Values, float64(i%7))
	}
	s.Values[4321] = 99
	got := s.Thinned()
	if err := got.check(); err != nil || len(got.At) != maxPoints || slices.Max(got.Values) != 99 || !slices.Contains(got.At, 4321) {
		t.Errorf("%v: %d points, at most %v", err, len(got.At), slices.Max(got.Values))
	}
	if short := (Series{[]float64{1, 2}, []float64{3, 4}}).Thinned(); !slices.Equal(short.Values, []float64{3, 4}) {
		t.Errorf("%v", short)
	}
}

func TestCountersAreShownAndDecideNothing(t *testing.T) {
	e := overLoads(Load{"w", 1, "x"})
	plain := Analyze(e)
	for i := range e.Samples {
		if s := &e.Samples[i]; s.Engine == "a" {
			s.Counters = map[string]float64{"cycles": 100, "instructions": 250, "task_clock_ms": 2000, "context_switches": float64(10 * s.Round)}
		}
	}
	c := countersTable(e, "w")
	if len(c.Rows) != 2 || strings.Join(c.Rows[0], " ") != "a 3 2.50 10.0" || strings.Join(c.Rows[1], " ") != "b 0 – –" {
		t.Errorf("%+v", c.Rows)
	}
	if len(countersTable(overLoads(Load{"w", 1, "x"}), "w").Rows) != 0 {
		t.Error("a table of nothing")
	}
	if diff := cmp.Diff(plain.Comparisons, Analyze(e).Comparisons, cmp.AllowUnexported(Comparison{}), cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("counters changed a verdict:\n%s", diff)
	}
}
