package report

import (
	"fmt"
	"math"
	"strings"
)

// mostCategories bounds a [ChartBars].
const mostCategories = 40

// Drawable is the chart as a renderer draws it, so that every renderer leaves
// out the same: texts are cleaned and bounded, lines have only what their axes
// hold, are thinned and have a value each, spans are merged, marks have a place.
// Every list is bounded. What was left out is said in the remarks.
func (c Chart) Drawable() (Chart, []string) {
	out := c
	out.Title, out.Note, out.Group = show(c.Title), show(c.Note), show(c.Group)
	out.X.Label, out.X.Unit = show(c.X.Label), show(c.X.Unit)
	out.Y.Label, out.Y.Unit = show(c.Y.Label), show(c.Y.Unit)
	out.Lines, out.Spans, out.Marks, out.Categories = nil, nil, nil, nil

	var remarks, empty []string
	bars := c.Kind == ChartBars
	if bars {
		for _, name := range c.Categories[:min(len(c.Categories), mostCategories)] {
			out.Categories = append(out.Categories, show(name))
		}
		if more := len(c.Categories) - mostCategories; more > 0 {
			remarks = append(remarks, fmt.Sprintf("%d more categories are not drawn", more))
		}
	}
	lost, more := 0, 0
	for _, l := range c.Lines {
		if len(out.Lines) == mostLines {
			more++
			continue
		}
		given := 0
		for i, y := range l.Y {
			if !math.IsNaN(y) && !(bars && i >= mostCategories && i < len(c.Categories)) {
				given++
			}
		}
		name := show(l.Name)
		if bars {
			l = l.ofCategories(len(out.Categories), c.Y)
		} else {
			l = l.usable(c.X, c.Y)
		}
		l.Name = name
		n := extentOf(l.Y).N
		lost += given - n
		if n == 0 {
			empty = append(empty, name)
			continue
		}
		if !bars {
			l = thin(l, mostPoints)
			if kept := extentOf(l.Y).N; kept < n {
				remarks = append(remarks, fmt.Sprintf("%s: %d of %d points drawn", name, kept, n))
			}
		}
		out.Lines = append(out.Lines, l)
	}
	if len(empty) > 0 {
		text := show(strings.Join(empty[:min(len(empty), mostLines)], ", "))
		if len(empty) > mostLines {
			text += " …"
		}
		remarks = append(remarks, "no data: "+text)
	}
	if lost > 0 {
		why := "infinite or without a place"
		if c.X.Log || c.Y.Log {
			why += ", or not positive on a logarithmic axis"
		}
		remarks = append(remarks, plural(lost, "value is", "values are")+" not drawn: "+why)
	}
	if more > 0 {
		remarks = append(remarks, fmt.Sprintf("%d more series are not drawn", more))
	}
	if bars {
		return out, remarks
	}
	for _, s := range merged(c.Spans, mostSpans) {
		s.Label = show(s.Label)
		out.Spans = append(out.Spans, s)
	}
	for _, m := range c.Marks {
		if len(out.Marks) == mostMarks {
			break
		}
		if c.X.holds(m.At) {
			m.Label = show(m.Label)
			out.Marks = append(out.Marks, m)
		}
	}
	return out, remarks
}

// ofCategories is the line with exactly n values. An interval that is not whole
// or runs backwards is none.
func (l Line) ofCategories(n int, y Axis) Line {
	out := Line{Name: l.Name, Y: make([]float64, n), Lo: make([]float64, n), Hi: make([]float64, n), Colour: l.Colour}
	if len(l.Tones) >= n {
		out.Tones = l.Tones[:n]
	}
	for i := range n {
		out.Y[i], out.Lo[i], out.Hi[i] = math.NaN(), math.NaN(), math.NaN()
		if i >= len(l.Y) || !y.holds(l.Y[i]) {
			continue
		}
		out.Y[i] = l.Y[i]
		if i < len(l.Lo) && i < len(l.Hi) && y.holds(l.Lo[i]) && y.holds(l.Hi[i]) && l.Lo[i] <= l.Hi[i] {
			out.Lo[i], out.Hi[i] = l.Lo[i], l.Hi[i]
		}
	}
	return out
}
