package trend

import (
	"math"
	"slices"
	"time"

	"github.com/assay-bench/assay/stat"
)

// Change is a moment at which a series began to be something else.
type Change struct {
	At    time.Time // of the first report after it
	Found time.Time // of the report that showed it
	Index int       // of that report in the series
	// Before and After are medians of the metric. Shift is by which share it is better
	// after it (worse: negative), with its 95 % interval.
	Before, After    float64
	Shift, Low, High float64
	// Loss is by which share it is worse than before it, or than at the series'
	// beginning, whichever is more.
	Loss  float64
	Drift bool // it went bit by bit
	// Reports are those after the change, the newest last, and one before it.
	Reports []string
}

// Verdict is what is known of one series.
type Verdict struct {
	Points  int
	Changes []Change
	// Unknown says why there may be a change that cannot be seen yet; empty: the
	// series is long enough.
	Unknown string
}

// Changes goes through a series, report by report, and says where it changed: each
// change is found by what was known then, so that the answer to a longer series
// begins with the answer to a shorter one.
func Changes(metric string, series []Point, o Options) Verdict {
	d := detector{o: o, sign: better(metric)}
	v := Verdict{Points: len(series)}
	for i, p := range series {
		if c, ok := d.step(i, p); ok {
			v.Changes = append(v.Changes, c)
		}
	}
	v.Unknown = d.short()
	return v
}

// detector sees a series one point at a time.
type detector struct {
	o      Options
	sign   float64
	points []Point // since the last change, at most maxWindow
	y      []float64
	w      window

	tuned     time.Time
	cycle     cycle
	threshold float64
	first     float64 // the level at the beginning; of the first segment
	begun     bool
}

// short says what is missing; empty: nothing.
func (d *detector) short() string {
	switch {
	case len(d.points) == 0:
		return "there is no report"
	case len(d.points) < d.o.MinPoints:
		return lacks(len(d.points), d.o.MinPoints, "reports since the last change")
	case d.span() < d.o.MinSpan:
		return lacks(int(d.span()/day), int(d.o.MinSpan/day), "days since the last change")
	}
	return ""
}

func (d *detector) span() time.Duration {
	return d.points[len(d.points)-1].At.Sub(d.points[0].At)
}

func (d *detector) step(i int, p Point) (Change, bool) {
	y := d.sign * math.Log(p.Value)
	if len(d.points) == maxWindow {
		d.points, d.y = slices.Delete(d.points, 0, 1), slices.Delete(d.y, 0, 1)
	}
	d.points, d.y = append(d.points, p), append(d.y, y)
	if d.short() != "" {
		return Change{}, false
	}
	if p.At.Sub(d.tuned) >= day || len(d.w.x) == 0 {
		d.tune(p.At)
	} else {
		d.w.add(y - d.cycle.at(p.At))
	}
	z := d.w.split()
	if z < d.threshold {
		return Change{}, false
	}
	at := locate(d.w.x)
	drift, noise := gradual(d.w.x, at)
	if z < d.threshold*inflation(noise) {
		return Change{}, false
	}
	c := d.change(i, at)
	c.Drift = drift
	d.points, d.y = slices.Clone(d.points[at:]), slices.Clone(d.y[at:])
	d.w, d.tuned = window{}, time.Time{}
	return c, true
}

// tune learns, once a day, what is no change: the daily cycle, and how many reports
// there are in a year.
func (d *detector) tune(now time.Time) {
	at := make([]time.Time, len(d.points))
	for i, p := range d.points {
		at[i] = p.At
	}
	d.tuned, d.cycle, d.w = now, cycleOf(at, d.y), window{}
	for i, y := range d.y {
		d.w.add(y - d.cycle.at(at[i]))
	}
	perYear := float64(len(d.points)-1) * float64(year) / float64(d.span())
	d.threshold = threshold(perYear / d.o.FalseAlarms)
	if !d.begun {
		d.first, d.begun = stat.Median(d.y), true
	}
}

// change describes what was found between the values before and from an index on.
func (d *detector) change(i, at int) Change {
	x := d.w.x
	before, after := x[max(0, at-maxSide):at], x[at:min(len(x), at+maxSide)]
	s := stat.HodgesLehmann2(after, before, 0.95)
	if !(s.Lo <= s.Hi) {
		s.Lo, s.Hi = s.Est, s.Est
	}
	c := Change{
		At: d.points[at].At, Found: d.points[len(d.points)-1].At, Index: i,
		Before: math.Exp(d.sign * stat.Median(d.y[:at])), After: math.Exp(d.sign * stat.Median(d.y[at:])),
		Shift: math.Expm1(s.Est), Low: math.Expm1(s.Lo), High: math.Expm1(s.Hi),
	}
	level := stat.Median(d.y[at:])
	c.Loss = max(-c.Shift, -math.Expm1(level-d.first))
	if c.Shift >= 0 { // it came back, or better: nothing is lost by it
		c.Loss = 0
	}
	c.Reports = append(c.Reports, d.points[at-1].Report)
	for _, p := range d.points[max(at, len(d.points)-maxReports):] {
		c.Reports = append(c.Reports, p.Report)
	}
	return c
}

// Bounds of what a change is described by.
const (
	maxSide    = 200
	maxReports = 10
)

// locate says where a change that ranks have shown was: where two levels leave the
// least sum of squares. A few values that lie far below count by how far there, and
// in ranks only by being below.
func locate(x []float64) (at int) {
	median, sd := robust(x)
	total, sums := 0.0, make([]float64, len(x))
	for i, v := range x {
		total += max(-farOut*sd, min(farOut*sd, v-median))
		sums[i] = total
	}
	most, n := -1.0, float64(len(x))
	for i := minSide; i <= len(x)-minSide; i++ {
		k := float64(i)
		d := sums[i-1]/k - (total-sums[i-1])/(n-k)
		if s := d * d * k * (n - k); s > most {
			most, at = s, i
		}
	}
	return at
}

// farOut is how far a value counts, in robust standard deviations.
const farOut = 8

// gradual says whether a straight line fits better than a step: a line through the
// medians of the outer thirds (Tukey's), both by the sum of absolute deviations. The
// deviations from what fits better are the noise.
func gradual(x []float64, at int) (drift bool, noise []float64) {
	third := len(x) / 3
	left, right := stat.Median(x[:third]), stat.Median(x[len(x)-third:])
	slope := (right - left) / float64(len(x)-third)
	line, step := make([]float64, len(x)), make([]float64, len(x))
	for i, v := range x {
		line[i] = v - slope*float64(i)
	}
	base, before, after := stat.Median(line), stat.Median(x[:at]), stat.Median(x[at:])
	sumLine, sumStep := 0.0, 0.0
	for i, v := range x {
		line[i] -= base
		if step[i] = v - before; i >= at {
			step[i] = v - after
		}
		sumLine, sumStep = sumLine+math.Abs(line[i]), sumStep+math.Abs(step[i])
	}
	if sumLine < sumStep {
		return true, line
	}
	return false, step
}
