package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/assay-bench/assay"
)

// timeGroup ties everything over time together.
const timeGroup = "time"

// seconds is a moment on the page's time axis.
func (in HealthInput) seconds(ns int64) float64 { return float64(ns-in.Summary.Started) / 1e9 }

// stageMarks are quiet: they say which load was on.
func (in HealthInput) stageMarks() []Mark {
	var marks []Mark
	for _, st := range in.Summary.Stages {
		if st.Started > 0 {
			marks = append(marks, Mark{At: in.seconds(st.Started), Label: st.Name, Quiet: true})
		}
	}
	return marks
}

// latencyCharts are TTFT and TPOT over time: each request where they are
// given, and the windows' means.
func latencyCharts(in HealthInput) []Block {
	spans := throttleSpans(in)
	var out []Block
	for _, c := range []struct {
		title, name string
		lines       []Line
	}{
		{"Time to first token over time", "ttft_ms", []Line{
			in.windowLine("mean of a window", func(w assay.Window) *float64 { return w.TTFT }),
			in.windowLine("highest of a window", func(w assay.Window) *float64 { return w.TTFTMax })}},
		{"Time per output token over time", "tpot_ms", []Line{
			in.windowLine("mean of a window", func(w assay.Window) *float64 { return w.TPOT })}},
	} {
		var lines []Line
		for _, s := range in.Series {
			if s.Name == c.name {
				lines = append(lines, Line{Name: "each request", X: in.times(s), Y: s.Values, Dots: true})
			}
		}
		lines = append(lines, c.lines...)
		if !slices.ContainsFunc(lines, func(l Line) bool { return extentOf(l.Y).N > 0 }) {
			continue
		}
		out = append(out, Chart{Title: c.title, Y: Axis{Unit: "ms", Zero: true}, Group: timeGroup, Lines: lines,
			Spans: spans, Marks: in.stageMarks(), Small: true})
	}
	if rate := in.windowLine("output tokens a second", func(w assay.Window) *float64 {
		if w.To <= w.From {
			return nil
		}
		r := float64(w.Tokens) / (float64(w.To-w.From) / 1e9)
		return &r
	}); extentOf(rate.Y).N > 0 {
		out = append(out, Chart{Title: "Output over time", Y: Axis{Unit: "tokens/s", Zero: true}, Group: timeGroup,
			Lines: []Line{rate}, Spans: spans, Marks: in.stageMarks(), Small: true})
	}
	return out
}

// windowLine is a figure of the windows, each at its middle. Windows of
// different stages are not joined.
func (in HealthInput) windowLine(name string, of func(assay.Window) *float64) Line {
	l := Line{Name: name}
	for i, w := range in.Summary.Windows {
		if i > 0 && in.Summary.Windows[i-1].Stage != w.Stage {
			l.X, l.Y = append(l.X, in.seconds(w.From)), append(l.Y, math.NaN())
		}
		y := math.NaN()
		if v := of(w); v != nil {
			y = *v
		}
		l.X, l.Y = append(l.X, in.seconds(w.From+(w.To-w.From)/2)), append(l.Y, y)
	}
	return l
}

// percentiles is the table of percentiles with their intervals.
func percentiles(s assay.Summary) Table {
	levels := []float64{50, 90, 95, 99}
	t := Table{Title: "Percentiles with 95 % intervals", Columns: []Column{{Name: "stage"}, {Name: "metric", Words: true}, {Name: "n"}, {Name: "independent"}, {Name: "mean"}},
		Note: "Nearest ranks of judged requests that succeeded, in ms. " + fewNote + " An interval within one run decides nothing between engines."}
	for _, l := range levels {
		t.Columns = append(t.Columns, Column{Name: assay.PercentileName(l)})
	}
	for _, st := range s.Stages {
		for _, m := range []struct {
			name string
			d    assay.Dist
		}{{"TTFT", st.TTFT}, {"TPOT", st.TPOT}, {"E2E", st.E2E}} {
			if m.d.N == 0 || st.Plan.Probe {
				continue
			}
			row := []string{st.Name, m.name, fmt.Sprint(m.d.N), number(m.d.Effective), number(m.d.Mean)}
			for _, l := range levels {
				cell := percentile(m.d, l)
				if p, ok := m.d.P(l); ok && p.Held() {
					cell += " [" + number(p.Lo) + ", " + number(p.Hi) + "]"
				}
				row = append(row, cell)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// loadLine is a percentile of a metric over the streams of closed stages.
func loadLine(s assay.Summary, name string, level float64, of func(assay.StageSummary) assay.Dist) Line {
	l := Line{Name: name}
	for _, st := range s.Stages {
		if st.Plan.Kind != assay.LoadClosed || st.Plan.Run > 1 {
			continue
		}
		if p, ok := of(st).P(level); ok && p.Held() {
			l.X, l.Y = append(l.X, float64(st.Plan.Concurrency)), append(l.Y, p.Value)
			l.Lo, l.Hi = append(l.Lo, p.Lo), append(l.Hi, p.Hi)
		}
	}
	return l
}

// scalingCharts show what load does: latency, throughput with knee and cliff,
// and what a user and the hardware get of it.
func scalingCharts(in HealthInput) []Block {
	s := in.Summary
	var out []Block
	sc := s.Scaling
	if sc == nil || len(sc.Points) < 2 {
		return nil
	}
	points := slices.Clone(sc.Points)
	slices.SortStableFunc(points, func(a, b assay.ScalePoint) int { return cmp.Compare(a.Load, b.Load) })
	goodput, rate, pareto := Line{Name: "goodput"}, Line{Name: "output tokens"}, Line{Name: "measured"}
	gpus := max(1, len(in.Manifest.Node.GPUs))
	for _, p := range points {
		goodput.X, goodput.Y = append(goodput.X, p.Load), append(goodput.Y, p.Goodput)
		rate.X, rate.Y = append(rate.X, p.Load), append(rate.Y, p.TokenRate)
		if p.PerUser > 0 {
			pareto.X, pareto.Y = append(pareto.X, p.PerUser), append(pareto.Y, p.TokenRate/float64(gpus))
		}
	}
	var marks []Mark
	for _, m := range []struct {
		name string
		q    assay.Quantity
	}{{"knee", sc.Knee}, {"peak", sc.Peak}, {"cliff", sc.Cliff}} {
		if m.q.Known() {
			marks = append(marks, Mark{At: m.q.Est, Label: m.name, Quiet: m.name == "peak"})
		}
	}
	var spans []Span
	if sc.Cliff.Known() && sc.Cliff.Lo <= sc.Cliff.Hi {
		spans = append(spans, Span{From: sc.Cliff.Lo, To: sc.Cliff.Hi, Kind: SpanNote})
	}
	streams := Axis{Label: "parallel requests", Log: true}
	lines := []Line{goodput}
	if u := sc.USL; u != nil && len(points) >= minJoined {
		lines = append(lines, lawLine(*u, points[0].Load, points[len(points)-1].Load))
	}
	out = append(out, Chart{Title: "Throughput against concurrency", Kind: ChartLine, X: streams, Y: Axis{Unit: "requests/s", Zero: true},
		Group: "load", Lines: lines, Marks: marks, Spans: spans, Small: true})
	out = append(out, Chart{Title: "Output against concurrency", Kind: ChartLine, X: streams, Y: Axis{Unit: "tokens/s", Zero: true},
		Group: "load", Lines: []Line{rate}, Marks: marks, Spans: spans, Small: true})
	latency := []Line{
		loadLine(s, "TTFT p50", 50, func(st assay.StageSummary) assay.Dist { return st.TTFT }),
		loadLine(s, "TTFT p99", 99, func(st assay.StageSummary) assay.Dist { return st.TTFT })}
	if len(latency[0].X) > 1 {
		out = append(out, Chart{Title: "Time to first token against concurrency", Kind: ChartLine, X: streams, Y: Axis{Unit: "ms", Log: wide(latency)},
			Group: "load", Lines: latency, Marks: marks, Spans: spans, Small: true,
			Note: "Bands are 95 % intervals; a percentile that the samples do not carry is not drawn."})
	}
	if len(pareto.X) > 1 {
		unit := "tokens/s a GPU"
		if len(in.Manifest.Node.GPUs) == 0 {
			unit = "tokens/s of the node"
		}
		out = append(out, Chart{Title: "What a user gets against what the hardware gives", Kind: ChartLine, X: Axis{Label: "tokens/s a user", Zero: true},
			Y: Axis{Unit: unit, Zero: true}, Lines: []Line{pareto}, Note: "One point for each load; up and to the right is better."})
	}
	return out
}

// wide reports whether lines need a logarithmic axis: a linear one shows what lies
// within one order of magnitude better.
func wide(lines []Line) bool {
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range lines {
		if e := extentOf(l.Y); e.N > 0 {
			low, high = min(low, e.Min), max(high, e.Max)
		}
	}
	return low > 0 && high > 10*low
}

// lawLine draws the fitted scalability law beside what was measured.
func lawLine(u assay.USL, from, to float64) Line {
	l := Line{Name: fmt.Sprintf("scalability law, R² %.3f", u.R2), Dashed: true}
	if !(from > 0) || !(to > from) {
		return l
	}
	const steps = 48
	for i := range steps + 1 {
		n := from * math.Pow(to/from, float64(i)/steps)
		l.X = append(l.X, n)
		l.Y = append(l.Y, u.Gamma*n/(1+u.Sigma*(n-1)+u.Kappa*n*(n-1)))
	}
	return l
}
