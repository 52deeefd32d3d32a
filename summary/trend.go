package summary

import (
	"fmt"
	"math"
	"slices"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// What is worth an alarm, besides [stat.DefaultLeak] (0.5 MB a minute of memory)
// and [stat.DefaultDrift] (2 % of the median in ten minutes). They are absolute:
// a short run finds what is large enough to be seen in it, and says of the rest
// that it does not know.
const (
	// cacheLeast is the least rise of the share of the KV cache in use that
	// counts as a leak, a minute: an eighth of the cache in an hour.
	cacheLeast = 0.002
	// cacheFind is the rise that a run must be able to find to be called clean.
	cacheFind = 0.005
	// leakLeast is the least rise of memory over the whole stage, in bytes, that
	// counts as a leak: less is an allocator that settles.
	leakLeast = 8e6
	// trendLevel is the most chance of any false alarm in all tests of a run.
	trendLevel = 0.01
)

// course of one quantity over the windows of a stage, one value each; NaN where
// there is none.
type curve struct {
	of, device string
	kind       string  // drift, leak
	bad        float64 // 1: rising is bad, −1: falling is
	y          []float64
	o          stat.TrendOptions
}

// trends tests the longest steady stage for drift and leak. A stage whose load
// was not meant to be steady is not tested: it changes by design.
func (o *reduction) trends(stages []assay.StageSummary) []assay.Trend {
	i := o.watched
	if i < 0 || i >= len(stages) || !steadyLoad(stages[i].Plan) {
		return nil
	}
	s, c := &stages[i], o.stages[i].course
	width := c.width
	for _, r := range o.node.all {
		if r.trend != nil {
			width = max(width, r.trend.width)
		}
	}
	c.widen(width)
	first, windows := c.steady(span{s.SteadyFrom, s.SteadyTo})
	n := len(windows)
	if n == 0 {
		return nil
	}
	at := make([]float64, n)
	for k := range at {
		at[k] = (float64(k) + 0.5) * float64(width) / 1e9
	}
	curves := append(requestCurves(windows, width), o.node.leakCurves(first, n, width)...)
	clocks := o.node.clocks(first, n, width)
	out := make([]assay.Trend, 0, len(curves))
	for _, q := range curves {
		q.o.Level, q.o.Tests = trendLevel, len(curves)
		v := steep(at, q.y, stat.Drift(at, q.y, q.o), q.o)
		t := q.trend(v, float64(s.SteadyTo-s.SteadyFrom)/1e9)
		t.Stage = s.Name
		moment := func(window int) int64 { return c.anchor + (first+int64(window))*width }
		if v.Stepped && !math.IsNaN(v.StepAt) {
			changed := moment(int(v.StepAt * 1e9 / float64(width)))
			t.ChangedAt = &changed
		}
		if q.kind == "drift" {
			if f := findCause(at, q, v, clocks); f != nil {
				t.Found, t.Cause, t.Why = assay.Fail, "gpu_clocks", f.say(moment)
				if f.window > 0 {
					changed := moment(f.window)
					t.ChangedAt = &changed
				}
			}
		}
		out = append(out, t)
	}
	return out
}

func steadyLoad(p assay.Stage) bool {
	return p.Kind == assay.LoadClosed || p.Kind == assay.LoadBatch || p.Kind == assay.LoadOpen && p.Rate > 0
}

func requestCurves(windows []*cell, width int64) []curve {
	tokens, ttft, tpot := make([]float64, len(windows)), make([]float64, len(windows)), make([]float64, len(windows))
	mean := func(sum float64, n int) float64 {
		if n == 0 {
			return math.NaN()
		}
		return sum / float64(n) / 1e6
	}
	for i, w := range windows {
		tokens[i] = w.tokens / (float64(width) / 1e9)
		ttft[i] = mean(w.ttftSum, w.ttftN)
		tpot[i] = mean(w.tpotSum, w.tpotN)
	}
	drift := func(of string, bad float64, y []float64) curve {
		return curve{of: of, kind: "drift", bad: bad, y: y, o: stat.DefaultDrift()}
	}
	return []curve{drift("output_tokens_per_second", -1, tokens), drift("ttft_ms", 1, ttft), drift("tpot_ms", 1, tpot)}
}

// leakCurves are what may only grow by a leak while the load is steady.
func (n *node) leakCurves(first int64, count int, width int64) []curve {
	var out []curve
	add := func(name, device string, s *series, o stat.TrendOptions) {
		if y := s.values(first, count, width); y != nil {
			out = append(out, curve{of: name, device: device, kind: "leak", bad: 1, y: y, o: o})
		}
	}
	for _, g := range n.gpus {
		add(assay.GPUMemoryUsed, g.uuid, g.series[assay.GPUMemoryUsed], stat.DefaultLeak())
	}
	keys := slices.Clone(n.engines)
	slices.SortStableFunc(keys, func(a, b seriesKey) int { return -compareNames(a.name, b.name) })
	for _, key := range keys {
		switch key.name {
		case assay.EngineResidentMemory:
			add(key.name, key.device, n.all[key], stat.DefaultLeak())
		case assay.EngineKVCache:
			o := stat.DefaultLeak()
			o.MinEffect, o.Find = cacheLeast, cacheFind
			add(key.name, key.device, n.all[key], o)
		}
	}
	return out
}

func compareNames(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// values are the means of the windows of the watched stage, NaN where nothing
// was read; nil when nothing was at all.
func (s *series) values(first int64, n int, width int64) []float64 {
	if s == nil || s.trend == nil || len(s.trend.cells) == 0 {
		return nil
	}
	s.trend.widen(width)
	y := make([]float64, n)
	seen := false
	for k := range y {
		y[k] = math.NaN()
		if a := s.trend.get(first + int64(k)); a != nil && a.n > 0 {
			y[k], seen = a.sum/float64(a.n), true
		}
	}
	if !seen {
		return nil
	}
	return y
}

// trend puts a verdict of [stat.Drift] into the words of the summary.
func (q curve) trend(v stat.TrendVerdict, seconds float64) assay.Trend {
	perMinute := 60 / q.o.Per
	t := assay.Trend{
		Of: q.of, Device: q.device, Kind: q.kind, MinEffect: q.bad * q.o.MinEffect * perMinute,
		Level: q.o.Level / float64(q.o.Tests), Why: v.Why,
	}
	if !math.IsNaN(v.P) {
		t.P = &v.P
	}
	if l := v.Slope; l.N > 0 && !math.IsNaN(l.Slope) {
		t.Slope = assay.Quantity{N: l.N, Est: l.Slope * perMinute, Lo: l.Lo * perMinute, Hi: l.Hi * perMinute}
	} else {
		t.Slope = assay.UnknownQuantity(v.Why)
	}
	switch v.Direction {
	case stat.DirectionUnknown:
		t.Found = assay.Unknown
	case stat.Rising, stat.Falling:
		t.Found = assay.Pass
		if (v.Direction == stat.Rising) == (q.bad > 0) {
			t.Found = assay.Fail
		}
	default:
		t.Found = assay.Pass
	}
	if t.Found == assay.Fail && q.kind == "leak" && q.of != assay.EngineKVCache {
		if rise := v.Slope.Slope / q.o.Per * seconds; rise < leakLeast {
			t.Found = assay.Unknown
			t.Why = fmt.Sprintf("rose by %.1f MB in total, which an allocator that settles may do; from %.0f MB on it counts as a leak", rise/1e6, leakLeast/1e6)
		}
	}
	if t.Why == "" {
		t.Why = fmt.Sprintf("%s, by %d windows", v.Direction, v.Slope.N)
	}
	return t
}
