package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// htmlChart is what stands around a drawing.
type htmlChart struct {
	Title, Unit, Alt, Note, Fold string
	Drawn, Small                 bool
	Hint                         bool // say how to zoom: once a page
	Index                        int
	Extents                      []htmlExtent
	Remarks                      []string
	Rows                         []htmlMeasure // of a ChartBars
	Series                       bool          // its rows have a second name
	Of                           string        // what its categories are
}

type htmlExtent struct{ Name, Text string }

// drawing is a chart as the page's script reads it.
type drawing struct {
	Group string        `json:"group,omitempty"`
	Time  bool          `json:"time,omitempty"`
	Small bool          `json:"small,omitempty"`
	X     drawnAxis     `json:"x"`
	Y     drawnAxis     `json:"y"`
	From  *float64      `json:"from,omitempty"` // the x range of the group
	To    *float64      `json:"to,omitempty"`
	Lines []drawnSeries `json:"lines"`
	Spans []drawnSpan   `json:"spans,omitempty"`
	Marks []drawnMark   `json:"marks,omitempty"`
}

type drawnAxis struct {
	Label string `json:"label"` // in the legend
	Title string `json:"title"` // along the axis
	Tail  string `json:"tail"`  // after a value: a space and the unit
	Log   bool   `json:"log,omitempty"`
	Zero  bool   `json:"zero,omitempty"`
}

type drawnSeries struct {
	Name   string `json:"name"`
	X      places `json:"x"`
	Y      values `json:"y"`
	Lo     values `json:"lo,omitempty"`
	Hi     values `json:"hi,omitempty"`
	Dots   bool   `json:"dots,omitempty"`
	Dashed bool   `json:"dashed,omitempty"`
	Colour int    `json:"colour"` // which of the page's, from 0
}

type drawnSpan struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Label string  `json:"label"`
	Kind  string  `json:"kind"`
}

type drawnMark struct {
	At    float64 `json:"at"`
	Label string  `json:"label"`
	Quiet bool    `json:"quiet,omitempty"`
}

// values are written with as many digits as can be seen; NaN is null, which
// the drawing leaves as a gap.
type values []float64

// MarshalJSON writes the list with null for what is not there.
func (v values) MarshalJSON() ([]byte, error) { return appendFloats(v, 5), nil }

// places are positions on the x axis: with more digits, since they must differ.
type places []float64

// MarshalJSON writes the list.
func (p places) MarshalJSON() ([]byte, error) { return appendFloats(p, 8), nil }

func appendFloats(v []float64, digits int) []byte {
	b := make([]byte, 0, 8*len(v)+2)
	b = append(b, '[')
	for i, f := range v {
		if i > 0 {
			b = append(b, ',')
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			b = append(b, "null"...)
			continue
		}
		b = strconv.AppendFloat(b, f, 'g', digits, 64)
	}
	return append(b, ']')
}

// Bounds of one chart: a driver or an exporter may name any number of devices.
const (
	mostLines = 16
	mostSpans = 200
	mostMarks = 100
)

// chartOf makes the caption from all points and the drawing from thinned ones.
// The drawing is nil when there is nothing to draw.
func chartOf(c Chart) (*htmlChart, *drawing) {
	if c.Kind == ChartBars {
		return htmlMeasures(c), nil
	}
	out := &htmlChart{Title: show(c.Title), Unit: show(c.Y.Unit), Small: c.Small, Note: show(c.Note)}
	d := &drawing{Group: show(c.Group), Time: c.Kind == ChartTime, Small: c.Small, X: drawnAxisOf(c.X), Y: drawnAxisOf(c.Y)}
	if d.Time {
		d.X.Label = "time since the start"
	}
	left := 0
	for _, l := range c.Lines {
		l = l.usable(c.X, c.Y)
		e := extentOf(l.Y)
		if e.N == 0 {
			continue
		}
		if len(d.Lines) == mostLines {
			left++
			continue
		}
		text := e.String()
		t := thin(l, mostPoints)
		if len(t.Y) < len(l.Y) {
			text += fmt.Sprintf("; %d of %d drawn", extentOf(t.Y).N, e.N)
		}
		out.Extents = append(out.Extents, htmlExtent{show(l.Name), text})
		d.Lines = append(d.Lines, drawnSeries{Name: show(l.Name), X: apart(t.X), Y: t.Y, Lo: t.Lo, Hi: t.Hi,
			Dots: l.Dots || c.Kind == ChartScatter && !l.Dashed, Dashed: l.Dashed, Colour: l.ColourOf(len(d.Lines))})
	}
	if left > 0 {
		out.Remarks = append(out.Remarks, fmt.Sprintf("%d more series are not drawn.", left))
	}
	if len(d.Lines) == 0 {
		return out, nil
	}
	if len(out.Extents) > 3 {
		out.Fold = fmt.Sprintf("Figures of %d series", len(out.Extents))
	}
	for _, s := range merged(c.Spans, mostSpans) {
		d.Spans = append(d.Spans, drawnSpan{s.From, s.To, show(s.Label), s.Kind.String()})
	}
	for _, m := range c.Marks[:min(len(c.Marks), mostMarks)] {
		if !math.IsNaN(m.At) && !math.IsInf(m.At, 0) {
			d.Marks = append(d.Marks, drawnMark{m.At, show(m.Label), m.Quiet})
		}
	}
	if remarks := c.remarks(); len(remarks) > 0 {
		out.Remarks = append(out.Remarks, show(strings.Join(remarks, "; ")+"."))
	}
	alt := []string{"Chart: " + out.Title}
	for _, e := range out.Extents {
		alt = append(alt, e.Name+" "+e.Text)
	}
	out.Alt = show(strings.Join(append(alt, out.Remarks...), ". "))
	return out, d
}

func drawnAxisOf(a Axis) drawnAxis {
	d := drawnAxis{Label: show(a.Label), Title: show(a.String()), Log: a.Log, Zero: a.Zero}
	if a.Unit != "" {
		d.Tail = " " + show(a.Unit)
	}
	return d
}

// apart moves equal positions a little apart: two points at one place would
// be one to the drawing.
func apart(x []float64) places {
	out := make(places, len(x))
	for i, v := range x {
		if i > 0 {
			v = max(v, out[i-1]+max(math.Abs(out[i-1]), 1)*1e-6)
		}
		out[i] = v
	}
	return out
}

// shareRanges gives the charts of one group the same x range.
func shareRanges(charts []*drawing) {
	type span struct{ from, to float64 }
	groups := map[string]span{}
	for _, d := range charts {
		if d.Group == "" {
			continue
		}
		for _, l := range d.Lines {
			s, ok := groups[d.Group]
			if first, last := l.X[0], l.X[len(l.X)-1]; !ok {
				s = span{first, last}
			} else {
				s = span{min(s.from, first), max(s.to, last)}
			}
			groups[d.Group] = s
		}
	}
	for _, d := range charts {
		if s, ok := groups[d.Group]; ok {
			d.From, d.To = &s.from, &s.to
		}
	}
}
