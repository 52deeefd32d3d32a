package plot

import (
	"math"
	"slices"

	"github.com/assay-bench/assay/report"
)

// frame is the part of the sheet in which data is drawn.
type frame struct {
	x, y                     scale
	left, right, top, bottom float64
}

// newFrame finds room for the labels of the y axis and draws that axis.
func (s *sheet) newFrame(y reach, ticks []tick, log bool, top, bottom float64) frame {
	widest := 0.0
	for _, t := range ticks {
		if t.at >= y.low && t.at <= y.high {
			widest = max(widest, s.measure(t.label, s.font))
		}
	}
	f := frame{left: margin + widest + 8, right: s.width - margin - 4, top: top, bottom: bottom}
	f.y = scale{y.low, y.high, bottom, top, log}
	for _, t := range ticks {
		if !f.y.holds(t.at) {
			continue
		}
		at := f.y.place(t.at)
		s.thin(f.left, at, f.right, at, grid)
		s.text(t.label, s.font, dim, f.left-8, at+4, right)
	}
	return f
}

// lines draws a chart of lines or points.
func (s *sheet) lines(c report.Chart, top, bottom float64) {
	var xs, ys reach
	for _, l := range c.Lines {
		xs.see(l.X...)
		ys.see(l.Y...)
		ys.see(l.Lo...)
		ys.see(l.Hi...)
	}
	if len(c.Marks) > 0 {
		top += 16 // their names
	}
	top += 12
	bottom -= 18 // labels of the x axis
	about := c.X.String()
	if c.Kind == report.ChartTime {
		about = ""
	}
	if about != "" {
		bottom -= 18
	}
	yr, yticks := valueAxis(ys, c.Y, (bottom-top)/50)
	f := s.newFrame(yr, yticks, c.Y.Log, top, bottom)
	xr, xticks := s.xAxis(xs, c, f)
	f.x = scale{xr.low, xr.high, f.left, f.right, c.X.Log}

	for _, span := range c.Spans {
		s.span(f, span)
	}
	free := math.Inf(-1)
	for _, t := range xticks {
		if !f.x.holds(t.at) {
			continue
		}
		at := f.x.place(t.at)
		s.thin(at, f.top, at, f.bottom, grid)
		half := s.measure(t.label, s.font) / 2
		if at-half < free || at+half > s.width {
			continue
		}
		s.thin(at, f.bottom, at, f.bottom+4, rule)
		s.text(t.label, s.font, dim, at, f.bottom+17, middle)
		free = at + half + 10
	}
	if about != "" {
		s.text(s.cut(about, s.font, f.right-f.left), s.font, dim, (f.left+f.right)/2, f.bottom+35, middle)
	}
	s.thin(f.left, f.bottom, f.right, f.bottom, dim)

	for i, l := range c.Lines {
		s.band(f, l, i)
	}
	for i, l := range c.Lines {
		if l.Dots || c.Kind == report.ChartScatter && !l.Dashed {
			for k, y := range l.Y {
				if !math.IsNaN(y) {
					s.dot(f.x.place(l.X[k]), f.y.place(y), 2, faint(lineInk(l, i), 0.6))
				}
			}
			continue
		}
		s.course(f, l, i)
	}
	s.marks(f, c.Marks)
	s.spanNames(f, c.Spans)
}

// valueAxis is the range and the ticks of a y axis.
func valueAxis(r reach, a report.Axis, n float64) (reach, []tick) {
	n = min(max(n, 3), 10)
	if a.Log {
		return powers(r)
	}
	if a.Zero && r.low >= 0 {
		r.low = 0
	}
	if r.low == 0 && r.high == 0 {
		r.high = 1
	}
	r = r.apart()
	return steps(r, n, true)
}

// xAxis is the range and the ticks of the x axis.
func (s *sheet) xAxis(r reach, c report.Chart, f frame) (reach, []tick) {
	n := max((f.right-f.left)/80, 2)
	switch {
	case c.X.Log:
		// The measured loads are the places to read at, when they are few.
		var at []float64
		for _, l := range c.Lines {
			at = append(at, l.X...)
		}
		slices.Sort(at)
		at = slices.Compact(at)
		wide := reach{r.low / 1.12, r.high * 1.12, true}
		if len(at) > 16 {
			_, ticks := powers(r)
			return wide, ticks
		}
		var ticks []tick
		for _, v := range at {
			ticks = append(ticks, tick{v, short(v)})
		}
		return wide, ticks
	case c.Kind == report.ChartTime:
		if r.low == r.high {
			r.low, r.high = r.low-0.5, r.high+0.5
		}
		r = r.apart()
		return r, times(r, n)
	}
	if c.X.Zero && r.low > 0 {
		r.low = 0
	}
	r = r.apart()
	_, ticks := steps(r, n, false)
	d := (r.high - r.low) * 0.03
	return reach{r.low - d, r.high + d, true}, ticks
}

// course draws a line, broken at its gaps; a point between two gaps is a dot,
// and few points are dots on the line.
func (s *sheet) course(f frame, l report.Line, i int) {
	const few, many = 40, 300
	colour, width := lineInk(l, i), 1.8
	if len(l.Y) > many {
		width = 1.3 // or a noisy line becomes a stripe
	}
	var run []point
	end := func() {
		s.stroke(run, stroke{colour, width, dashOf(l, i)})
		if len(run) == 1 || len(l.Y) <= few && !l.Dashed {
			for _, p := range run {
				s.dot(p.x, p.y, 2.6, colour)
			}
		}
		run = run[:0]
	}
	for k, y := range l.Y {
		if math.IsNaN(y) {
			end()
			continue
		}
		run = append(run, point{f.x.place(l.X[k]), f.y.place(y)})
	}
	end()
}

// band draws the intervals of a line; one alone becomes a whisker.
func (s *sheet) band(f frame, l report.Line, i int) {
	if l.Lo == nil {
		return
	}
	var upper, lower []point
	end := func() {
		if len(upper) == 1 {
			s.stroke([]point{upper[0], lower[0]}, stroke{colour: faint(lineInk(l, i), 0.5), width: 2})
		}
		slices.Reverse(lower)
		s.fill(append(upper, lower...), faint(lineInk(l, i), 0.18))
		upper, lower = nil, nil
	}
	for k := range l.Lo {
		if math.IsNaN(l.Lo[k]) || math.IsNaN(l.Hi[k]) || math.IsNaN(l.Y[k]) {
			end()
			continue
		}
		x := f.x.place(l.X[k])
		upper = append(upper, point{x, f.y.place(l.Hi[k])})
		lower = append(lower, point{x, f.y.place(l.Lo[k])})
	}
	end()
}
