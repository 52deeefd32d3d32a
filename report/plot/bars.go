package plot

import (
	"math"

	"github.com/assay-bench/assay/report"
)

// bars draws a bar for each category and line, with its interval.
func (s *sheet) bars(c report.Chart, top, bottom float64) {
	const slant, longest = math.Pi / 7, 170.0
	var ys reach
	for _, l := range c.Lines {
		ys.see(l.Y...)
		ys.see(l.Lo...)
		ys.see(l.Hi...)
	}
	if !c.Y.Log {
		ys.see(0)
	}
	top += 18 // figures over the highest bar
	if c.X.Label != "" {
		s.text(s.cut(c.X.Label, s.font, s.width/2), s.font, dim, s.width/2, bottom, middle)
		bottom -= 18
	}
	// Names that are wider than their place are slanted; the place is known only
	// roughly before the y axis is.
	place := (s.width - 2*margin - 60) / float64(len(c.Categories))
	widest := 0.0
	names := make([]string, len(c.Categories))
	for i, name := range c.Categories {
		names[i] = s.squeeze(name, s.font, max(longest, place-8))
		widest = max(widest, s.measure(names[i], s.font))
	}
	slanted := widest > place-8
	if slanted {
		bottom -= min(widest*math.Sin(slant)+20, s.height/3)
	} else {
		bottom -= 20
	}

	yr, ticks := valueAxis(ys, c.Y, (bottom-top)/50)
	f := s.newFrame(yr, ticks, c.Y.Log, top, bottom)
	base := f.bottom
	if !c.Y.Log {
		base = f.y.place(0)
	}
	place = (f.right - f.left) / float64(len(c.Categories))
	width := min(place*0.72/float64(len(c.Lines)), 72)
	for i, name := range names {
		middleX := f.left + place*(float64(i)+0.5)
		if slanted {
			name = s.squeeze(name, s.font, (middleX-2)/math.Cos(slant))
			s.slanted(name, s.font, ink, middleX+4, f.bottom+18, slant)
		} else {
			s.text(name, s.font, ink, middleX, f.bottom+17, middle)
		}
		from := middleX - width*float64(len(c.Lines))/2
		for k, l := range c.Lines {
			s.bar(f, l, i, k, from+width*float64(k), width, base, c.Y.Log)
		}
	}
	s.thin(f.left, base, f.right, base, dim)
}

// bar draws one value. The figure is written where the bar is wide enough.
func (s *sheet) bar(f frame, l report.Line, category, line int, x, width, base float64, log bool) {
	y := l.Y[category]
	centre, inner := x+width/2, max(width*0.86, 1)
	if math.IsNaN(y) {
		const absent = "no data"
		if s.measure(absent, s.font) <= width {
			s.text(absent, s.font, dim, centre, base-6, middle)
		}
		return
	}
	at := f.y.place(y)
	colour := lineInk(l, line)
	over, under := at, at
	if !log {
		s.rect(centre-inner/2, min(at, base), inner, math.Abs(base-at), colour)
		over, under = min(at, base), max(at, base)
	}
	if lo, hi := l.Lo[category], l.Hi[category]; !math.IsNaN(lo) {
		top, bottom := f.y.place(hi), f.y.place(lo)
		over, under = min(over, top), max(under, bottom)
		reach := min(inner*0.3, 7)
		for _, look := range []stroke{{colour: paper, width: 4}, {colour: ink, width: 1.6}} {
			s.stroke([]point{{centre, top}, {centre, bottom}}, look)
			for _, end := range []float64{top, bottom} {
				s.stroke([]point{{centre - reach, end}, {centre + reach, end}}, look)
			}
		}
	}
	if log {
		s.dot(centre, at, 4.5, colour)
	}
	text := short(y)
	if s.measure(text, s.font) > width+2 {
		return
	}
	if y < 0 {
		s.text(text, s.font, ink, centre, under+15, middle)
		return
	}
	s.text(text, s.font, ink, centre, over-6, middle)
}
