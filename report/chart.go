package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Chart is a picture of one or more series over one x axis.
type Chart struct {
	Title string
	Kind  ChartKind
	X, Y  Axis
	// Categories are the names along x of a [ChartBars]; X.Label says what they
	// are: "engine".
	Categories []string
	// Group ties charts together: those of one group have the same x range, zoom
	// together and show the cursor together. Empty: the chart is on its own.
	Group string
	// ByCategory gives the bars of one category one colour, that of the line of the
	// same place in other charts: so an engine looks the same everywhere.
	ByCategory bool
	// Rule is a value that bars are read against, drawn as a line across them; 0:
	// none.
	Rule  float64
	Lines []Line
	Spans []Span
	Marks []Mark
	Note  string
	// Small charts are drawn lower, for a stack of charts over one time axis.
	Small bool
}

// ChartKind says what the x axis is and how points are joined.
type ChartKind uint8

// The kinds of charts.
const (
	ChartTime    ChartKind = iota // x is seconds since the run's start
	ChartLine                     // x is any number; points are joined
	ChartScatter                  // x is any number; points stand alone, but those of a dashed line
	// ChartBars has a bar for each category and line: Y[i] belongs to
	// Categories[i], Lo[i] and Hi[i] are its interval, and X is not read. Bars
	// start at zero; on a logarithmic axis, which has no zero, they are points.
	// Spans and Marks are not drawn.
	ChartBars
)

// Axis is one axis. A logarithmic axis leaves out what is not positive.
type Axis struct {
	Label, Unit string
	Log         bool
	// Count is of things that are counted: whole numbers.
	Count bool
	// Zero draws the axis from zero, so that heights can be compared.
	Zero bool
}

// Line is one series. X rises; NaN in Y is a gap, and no line is drawn across.
type Line struct {
	Name string
	X, Y []float64
	// Lo and Hi, both as long as Y or both nil, are drawn as a band; NaN: none here.
	Lo, Hi []float64
	// Dots draws the points and does not join them.
	Dots bool
	// Dashed is for what was computed, beside what was measured.
	Dashed bool
	// Colour is which of the colours the line has, from 1; 0: that of its place.
	Colour int
	// Tones, as long as Y or nil, say what each bar of a [ChartBars] means: it has
	// the tone's colour then.
	Tones []Tone
}

// ColourOf is the number of a line's colour, from 0, where i is its place.
func (l Line) ColourOf(i int) int {
	if l.Colour > 0 {
		return l.Colour - 1
	}
	return i
}

// Span is a stretch of the x axis that is shaded.
type Span struct {
	From, To float64
	Label    string
	Kind     SpanKind
}

// SpanKind says how a span is shaded.
type SpanKind uint8

// The kinds of spans.
const (
	SpanNote SpanKind = iota // quiet: a stage
	SpanWarn                 // hatched: throttling that costs
	SpanBad                  // hatched more strongly: throttling that fails
)

func (k SpanKind) String() string { return [...]string{"note", "warn", "bad"}[min(k, SpanBad)] }

// Mark is a place on the x axis with a name: a knee, a cliff, a stage's start.
type Mark struct {
	At    float64
	Label string
	// Quiet marks are thin: they help to read and are no finding.
	Quiet bool
}

// extent is what a caption says of a series.
type extent struct {
	N                int
	Min, Median, Max float64
}

func extentOf(ys []float64) extent {
	known := make([]float64, 0, len(ys))
	for _, y := range ys {
		if !math.IsNaN(y) && !math.IsInf(y, 0) {
			known = append(known, y)
		}
	}
	if len(known) == 0 {
		return extent{}
	}
	slices.Sort(known)
	return extent{len(known), known[0], known[(len(known)-1)/2], known[len(known)-1]}
}

func (e extent) String() string {
	if e.N == 0 {
		return "no data"
	}
	return fmt.Sprintf("min %s, median %s, max %s", number(e.Min), number(e.Median), number(e.Max))
}

// place writes a position on the x axis.
func (c Chart) place(x float64) string {
	if c.Kind != ChartTime {
		return strings.TrimSpace(streams(x) + " " + c.X.Unit)
	}
	return clockTime(x)
}

// clockTime writes seconds since the start as m:ss.
func clockTime(x float64) string {
	if math.IsNaN(x) || math.Abs(x) > 1e9 {
		return missing
	}
	sign := ""
	if x < 0 {
		sign, x = "−", -x
	}
	d := time.Duration(x * float64(time.Second)).Round(time.Second)
	return fmt.Sprintf("%s%d:%02d", sign, int(d.Minutes()), int(d.Seconds())%60)
}

// remarks are the chart's spans and marks in words, for who cannot see them.
func (c Chart) remarks() []string {
	const mostLabels, mostStretches = 4, 2
	if c.Kind == ChartBars {
		return nil
	}
	var out []string
	for _, m := range c.Marks {
		if !m.Quiet {
			out = append(out, m.Label+" at "+c.place(m.At))
		}
	}
	var labels []string
	spans := map[string][]Span{}
	for _, s := range c.Spans {
		if s.Kind == SpanNote {
			continue
		}
		if spans[s.Label] == nil {
			labels = append(labels, s.Label)
		}
		spans[s.Label] = append(spans[s.Label], s)
	}
	for i, label := range labels {
		if i == mostLabels {
			out = append(out, fmt.Sprintf("and %d more", len(labels)-mostLabels))
			break
		}
		all := spans[label]
		if len(all) > mostStretches {
			length := 0.0
			for _, s := range all {
				length += s.To - s.From
			}
			of := number(length)
			if c.Kind == ChartTime {
				of += " s"
			}
			out = append(out, fmt.Sprintf("%s in %d stretches, %s in total, from %s to %s", label, len(all), of, c.place(all[0].From), c.place(all[len(all)-1].To)))
			continue
		}
		for _, s := range all {
			out = append(out, fmt.Sprintf("%s from %s to %s", label, c.place(s.From), c.place(s.To)))
		}
	}
	return out
}

// merged joins spans of one kind that overlap, so that shading does not add up,
// and joins near ones until at most n are left.
func merged(spans []Span, n int) []Span {
	var all []Span
	for _, s := range spans {
		if s.From <= s.To && !math.IsInf(s.From, 0) && !math.IsInf(s.To, 0) {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b Span) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.From, b.From)) })
	low, high := all[0].From, all[0].To
	for _, s := range all {
		low, high = min(low, s.From), max(high, s.To)
	}
	for near := 0.0; ; near = max(2*near, (high-low)/4096) {
		var out []Span
		for _, s := range all {
			last := len(out) - 1
			if last < 0 || out[last].Kind != s.Kind || s.From > out[last].To+near {
				out = append(out, s)
				continue
			}
			out[last].To = max(out[last].To, s.To)
			if out[last].Label != s.Label && !strings.HasSuffix(out[last].Label, "…") {
				out[last].Label += " …"
			}
		}
		if len(out) <= n || near > high-low {
			return out
		}
	}
}

func (a Axis) String() string {
	switch {
	case a.Unit == "":
		return a.Label
	case a.Label == "":
		return a.Unit
	}
	return a.Label + ", " + a.Unit
}

// holds reports whether a value has a place on the axis. The bound leaves room
// for the arithmetic of drawing, which must not overflow.
func (a Axis) holds(v float64) bool {
	const most = 1e300
	return math.Abs(v) <= most && (!a.Log || v >= 1/most)
}

// minJoined is how many points it takes to be joined: a line through fewer says of
// what lies between them what nobody has measured.
const minJoined = 5

// usable is the line as it can be drawn: lengths agree, x rises, nothing
// infinite, nothing that a logarithm cannot take, few points not joined.
func (l Line) usable(x, y Axis) Line {
	n := min(len(l.X), len(l.Y))
	band := len(l.Lo) >= n && len(l.Hi) >= n && n > 0
	type point struct{ x, y, lo, hi float64 }
	points := make([]point, 0, n)
	for i := range n {
		p := point{l.X[i], l.Y[i], math.NaN(), math.NaN()}
		if !x.holds(p.x) {
			continue
		}
		if !y.holds(p.y) {
			p.y = math.NaN()
		}
		if band && y.holds(l.Lo[i]) && y.holds(l.Hi[i]) {
			p.lo, p.hi = l.Lo[i], l.Hi[i]
		}
		points = append(points, p)
	}
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	out := Line{Name: l.Name, Dots: l.Dots, Dashed: l.Dashed, Colour: l.Colour}
	for _, p := range points {
		out.X, out.Y = append(out.X, p.x), append(out.Y, p.y)
		if band {
			out.Lo, out.Hi = append(out.Lo, p.lo), append(out.Hi, p.hi)
		}
	}
	out.Dots = out.Dots || !out.Dashed && extentOf(out.Y).N < minJoined
	return out
}
