package compare

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/assay-bench/assay/report"
)

// Plot is one of the pictures.
type Plot struct {
	Name  string // of its file, without .png
	Chart report.Chart
}

// Plots are the pictures that every experiment has. One without data
// is there too, and shows that there is none.
func Plots(e Experiment, a Analysis) []Plot {
	memory := bars(e, a, "memory_peak_bytes", gib, "memory of the processes, ")
	memory = append(memory, bars(e, a, "gpu_memory_peak_bytes", gib, "memory of the GPU, ")...)
	names := engineNames(e)
	return []Plot{
		{"latency_comparison", report.Chart{Title: "Latency of a whole answer", Kind: report.ChartBars, ByCategory: true, Categories: names, X: report.Axis{Label: "engine"},
			Y: report.Axis{Label: "mean time", Unit: "ms", Zero: true}, Lines: bars(e, a, latencyMetric, 1, ""), Note: "Means of runs with their " + confidence(a.Family.Confidence) + " interval; whether a difference is significant is in the table."}},
		{"throughput_scaling", throughputChart(e, a)},
		{"memory_usage", report.Chart{Title: "Highest memory in use", Kind: report.ChartBars, ByCategory: true, Categories: names, X: report.Axis{Label: "engine"},
			Y: report.Axis{Label: "memory", Unit: "GiB", Zero: true}, Lines: memory, Note: "Means of runs' peaks."}},
		{"memory_over_time", memoryChart(e)},
		{"gpu_utilization", report.Chart{Title: "GPU utilization", Kind: report.ChartBars, ByCategory: true, Categories: names, X: report.Axis{Label: "engine"},
			Y: report.Axis{Label: "utilization", Unit: "%", Zero: true}, Lines: bars(e, a, "gpu_utilization_mean", 0.01, ""), Note: "A duty cycle: it says that some kernel ran, not how well."}},
	}
}

const gib = 1 << 30

// throughputChart is a line over the concurrency where workloads differ by nothing
// else, and otherwise a bar for each workload.
func throughputChart(e Experiment, a Analysis) report.Chart {
	c := report.Chart{Y: report.Axis{Label: "output tokens", Unit: "tokens/s", Zero: true},
		Note: "Means of runs with their " + confidence(a.Family.Confidence) + " interval."}
	groups := scaled(e.Loads)
	if len(groups) == 0 {
		c.Title, c.Kind, c.Categories, c.X = "Throughput by workload", report.ChartBars, e.Workloads, report.Axis{Label: "workload"}
		for k, engine := range engineNames(e) {
			l := report.Line{Name: engine, Colour: k + 1}
			any := false
			for i, w := range e.Workloads {
				any = point(&l, float64(i), a.of(engine, w, throughputMetric), 1) || any
			}
			if any {
				c.Lines = append(c.Lines, l)
			}
		}
		return c
	}
	c.Title, c.Kind, c.X = "Throughput over concurrency", report.ChartLine, report.Axis{Label: "requests under way"}
	on := map[string]bool{}
	for _, g := range groups {
		for k, engine := range engineNames(e) {
			l := report.Line{Name: engine, Colour: k + 1}
			if len(groups) > 1 {
				l.Name += ", as " + g[0].Workload
			}
			any := false
			for _, load := range g {
				on[load.Workload] = true
				any = point(&l, float64(load.Concurrency), a.of(engine, load.Workload, throughputMetric), 1) || any
			}
			if any {
				c.Lines = append(c.Lines, l)
			}
		}
	}
	var off []string
	for _, w := range e.Workloads {
		if !on[w] {
			off = append(off, w)
		}
	}
	if len(off) > 0 {
		c.Note += " Workloads that differ by more than concurrency are in the tables only: " + strings.Join(off, ", ") + "."
	}
	return c
}

// memoryChart shows the memory of each engine over one round, in which its runs
// follow one another: the round with its highest peak.
func memoryChart(e Experiment) report.Chart {
	c := report.Chart{Title: "Memory over time", Kind: report.ChartTime, X: report.Axis{Label: "since the engine's first run of the round"},
		Y:    report.Axis{Label: "memory", Unit: "GiB", Zero: true},
		Note: "Of each engine the round with its highest peak; its runs of " + strings.Join(e.Workloads, ", ") + " follow one another, with gaps between them."}
	for _, of := range []struct {
		series, prefix string
		colours        int // that come before
	}{{SeriesMemory, "processes of ", 0}, {SeriesGPUMemory, "GPU of ", len(e.Engines)}} {
		for k, engine := range engineNames(e) {
			if l := memoryLine(e, engine, of.series); len(l.X) > 0 {
				l.Name, l.Colour = of.prefix+engine, k+1+of.colours
				c.Lines = append(c.Lines, l)
			}
		}
	}
	return c
}

// memoryLine is a series of an engine over its runs of one judged round; empty: no
// run has it.
func memoryLine(e Experiment, engine, series string) report.Line {
	rounds := map[int][]Sample{}
	worst, peak := 0, -1.0
	for _, s := range e.Samples {
		if v := s.Series[series].Values; s.Engine == engine && s.Round > 0 && len(v) > 0 {
			rounds[s.Round] = append(rounds[s.Round], s)
			if m := slices.Max(v); m > peak || m == peak && s.Round < worst {
				worst, peak = s.Round, m
			}
		}
	}
	runs := rounds[worst]
	slices.SortFunc(runs, func(a, b Sample) int {
		return cmp.Or(cmp.Compare(a.Started, b.Started), cmp.Compare(a.Workload, b.Workload))
	})
	var l report.Line
	for i, s := range runs {
		after := float64(s.Started-runs[0].Started) / 1e9
		if i > 0 { // nothing is known between two runs
			l.X, l.Y = append(l.X, after), append(l.Y, math.NaN())
		}
		for k, at := range s.Series[series].At {
			l.X, l.Y = append(l.X, after+at), append(l.Y, s.Series[series].Values[k]/gib)
		}
	}
	return l
}

// bars are a metric by engine, one line a workload that has it.
func bars(e Experiment, a Analysis, metric string, unit float64, prefix string) []report.Line {
	var out []report.Line
	for _, w := range e.Workloads {
		l := report.Line{Name: prefix + w}
		any := false
		for i, engine := range engineNames(e) {
			any = point(&l, float64(i), a.of(engine, w, metric), unit) || any
		}
		if any {
			out = append(out, l)
		}
	}
	return out
}

// point adds a figure to a line; one that is not there is a gap.
func point(l *report.Line, x float64, f *Figure, unit float64) bool {
	y, lo, hi := math.NaN(), math.NaN(), math.NaN()
	if f != nil {
		y, lo, hi = f.Mean.Est/unit, f.Mean.Lo/unit, f.Mean.Hi/unit
	}
	l.X, l.Y, l.Lo, l.Hi = append(l.X, x), append(l.Y, y), append(l.Lo, lo), append(l.Hi, hi)
	return f != nil
}

func engineNames(e Experiment) []string {
	var out []string
	for _, x := range e.Engines {
		out = append(out, x.Name)
	}
	return out
}
