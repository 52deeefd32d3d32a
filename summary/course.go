package summary

import (
	"math"

	"github.com/assay-bench/assay"
)

// course is a stage over time: its requests in windows. The windows' edges lie
// whole widths from the beginning of the stage; those that lie wholly in the
// steady window, which is known at the end, are the steady ones.
//
// Tokens count in the window in which they arrived, whoever asked for them, as
// in every throughput. Requests and latencies are those of judged requests.
// Requests during which the clock was stepped have no place in time.
type course struct {
	span
	slots[cell]
}

// cell is one window.
type cell struct {
	ok, failed          int
	tokens              float64
	ttftN, tpotN        int
	ttftSum, ttftMost   float64 // ns
	tpotSum             float64 // ns
	ttftCount, tpotSeen buckets // µs, ns
}

func mergeCell(a, b *cell) {
	a.ok += b.ok
	a.failed += b.failed
	a.tokens += b.tokens
	a.ttftN += b.ttftN
	a.tpotN += b.tpotN
	a.ttftSum += b.ttftSum
	a.ttftMost = max(a.ttftMost, b.ttftMost)
	a.tpotSum += b.tpotSum
	a.ttftCount.merge(&b.ttftCount)
	a.tpotSeen.merge(&b.tpotSeen)
}

// newCourse is that of a stage in [from,to).
func newCourse(s span, width int64) *course {
	c := &course{span: s, slots: slots[cell]{anchor: s.from, width: width, merge: mergeCell}}
	c.at(s.from)
	return c
}

func (c *course) add(r *assay.Request) {
	if r.ClockStep {
		return
	}
	spread(r, c.edge, c.count)
	if r.Warmup {
		return
	}
	if !r.OK() {
		if r.Error.OfEngine() && c.in(r.End) {
			c.at(r.End).failed++
		}
		return
	}
	if ns, ok := r.TTFT(); ok && plausible(ns) && c.in(r.First) {
		w := c.at(r.First)
		w.ttftN++
		w.ttftSum += float64(ns)
		w.ttftMost = max(w.ttftMost, float64(ns))
		w.ttftCount.add((ns + 500) / 1000)
	}
	if !c.in(r.Last) {
		return
	}
	w := c.at(r.Last)
	w.ok++
	if ns, ok := r.TPOT(); ok && plausible(r.Last-r.First) {
		w.tpotN++
		w.tpotSum += ns
		w.tpotSeen.add(int64(math.Round(ns)))
	}
}

func (c *course) count(t int64, tokens float64) {
	if c.in(t) && sane(t) {
		c.at(t).tokens += tokens
	}
}

// end ends the course with its stage, and gives the number of its windows.
func (c *course) end(at int64) int64 {
	if c.to = min(c.to, at); c.to <= c.from {
		return 0
	}
	c.at(c.to - 1) // a stage that fell silent has windows to its end
	return (c.to-1-c.from)/c.width + 1
}

// windows are those from the stage's beginning to its end.
func (c *course) windows(name string) []assay.Window {
	var out []assay.Window
	for i := range c.cells {
		w := &c.cells[i]
		k := c.first + int64(i)
		from, to := max(c.from, c.anchor+k*c.width), min(c.to, c.anchor+(k+1)*c.width)
		if to <= from {
			continue
		}
		out = append(out, assay.Window{
			Stage: name, From: from, To: to, OK: w.ok, Failed: w.failed, Tokens: int64(math.Round(w.tokens)),
			TTFT: meanMS(w.ttftSum, w.ttftN), TTFTMax: meanMS(w.ttftMost*float64(min(w.ttftN, 1)), min(w.ttftN, 1)), TPOT: meanMS(w.tpotSum, w.tpotN),
		})
	}
	return out
}

// steady gives the windows that lie wholly in a period, in order, and the number
// of the first.
func (c *course) steady(p span) (first int64, windows []*cell) {
	first, n := c.within(p)
	if n == 0 || n > slotsMost {
		return first, nil
	}
	windows = make([]*cell, n)
	for k := range windows {
		if windows[k] = c.get(first + int64(k)); windows[k] == nil {
			windows[k] = &cell{}
		}
	}
	return first, windows
}

func meanMS(sum float64, n int) *float64 {
	if n == 0 {
		return nil
	}
	v := digits(sum/float64(n)/1e6, 6)
	return &v
}

// digits rounds to so many significant ones.
func digits(v float64, n int) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return v
	}
	e := n - 1 - int(math.Floor(math.Log10(math.Abs(v))))
	if e < 0 { // whole powers of ten are exact, their fractions are not
		scale := math.Pow10(-e)
		return math.Round(v/scale) * scale
	}
	if e > 300 {
		return 0
	}
	scale := math.Pow10(e)
	return math.Round(v*scale) / scale
}
