package report

import (
	"bufio"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// measure is one bar of a [ChartBars].
type measure struct {
	category, line int
	value, lo, hi  float64 // NaN: none
	count          bool    // a whole number
	tone           Tone
}

// text writes the value with its interval.
func (m measure) text() string {
	if math.IsNaN(m.value) {
		return "no data"
	}
	if m.count {
		return strconv.FormatFloat(m.value, 'f', 0, 64)
	}
	s := number(m.value)
	if !math.IsNaN(m.lo) {
		s += " [" + number(m.lo) + ", " + number(m.hi) + "]"
	}
	return s
}

// measures are the bars of a drawable chart, category by category.
func (c Chart) measures() []measure {
	if len(c.Lines) == 0 {
		return nil
	}
	var out []measure
	for i := range c.Categories {
		for k, l := range c.Lines {
			m := measure{category: i, line: k, value: l.Y[i], lo: l.Lo[i], hi: l.Hi[i], count: c.Y.Count}
			if l.Tones != nil {
				m.tone = l.Tones[i]
			}
			out = append(out, m)
		}
	}
	return out
}

// barScale places values between 0 and 1. A linear one has zero on it, because
// the length of a bar is read as its value.
type barScale struct {
	from, to float64
	log      bool
}

// ruled is the scale with the chart's rule on it.
func (c Chart) ruled(all []measure) barScale {
	if c.Rule > 0 {
		all = append(slices.Clone(all), measure{value: c.Rule, lo: math.NaN(), hi: math.NaN()})
	}
	return barScaleOf(all, c.Y.Log)
}

func barScaleOf(all []measure, log bool) barScale {
	from, to := 0.0, 0.0
	if log {
		from, to = math.Inf(1), math.Inf(-1)
	}
	for _, m := range all {
		for _, v := range []float64{m.value, m.lo, m.hi} {
			if !math.IsNaN(v) {
				from, to = min(from, v), max(to, v)
			}
		}
	}
	if log {
		from, to = math.Log(from), math.Log(to)
		edge := max((to-from)*0.05, 0.1) // a point at the very edge is half a point
		from, to = from-edge, to+edge
	}
	return barScale{from, to, log}
}

func (s barScale) place(v float64) float64 {
	if s.log {
		v = math.Log(v)
	}
	if !(s.to > s.from) {
		return 0
	}
	return unit(v/(s.to-s.from) - s.from/(s.to-s.from))
}

// stretch is what a value fills, from and to: a bar from zero, or a point.
func (s barScale) stretch(v, point float64) (from, to float64) {
	at := s.place(v)
	if s.log {
		return at - point/2, at + point/2
	}
	zero := s.place(0)
	return min(zero, at), max(zero, at)
}

func (s barScale) remark() string {
	if !s.log {
		return ""
	}
	return "logarithmic scale from " + number(math.Exp(s.from)) + " to " + number(math.Exp(s.to))
}

func textMeasures(b *writer, c Chart) {
	const width = 32
	c, remarks := c.Drawable()
	all := c.measures()
	scale := c.ruled(all)
	category, series := 0, 0
	for _, name := range c.Categories {
		category = max(category, utf8.RuneCountInString(name))
	}
	for _, l := range c.Lines {
		series = max(series, utf8.RuneCountInString(l.Name))
	}
	for _, m := range all {
		name := ""
		if m.line == 0 {
			name = c.Categories[m.category]
		}
		b.WriteString("  " + pad(name, category, true) + "  ")
		if series > 0 {
			b.WriteString(pad(c.Lines[m.line].Name, series, true) + "  ")
		}
		if math.IsNaN(m.value) {
			b.WriteString(m.text() + "\n")
			continue
		}
		from, to := scale.stretch(m.value, 1.0/width)
		full := int(math.Round(width * (to - from)))
		before := min(int(math.Round(width*from)), width-full)
		rest := "░"
		if c.Y.Count {
			rest = " " // nothing is left over of a count
		}
		bar := []rune(strings.Repeat(rest, before) + strings.Repeat("█", full) + strings.Repeat(rest, width-full-before))
		if c.Rule > 0 {
			bar[min(int(width*scale.place(c.Rule)), width-1)] = '│'
		}
		b.WriteString(b.paint(string(bar), m.tone) + "  " + m.text() + "\n")
	}
	if len(all) == 0 {
		b.WriteString("  no data\n")
	} else {
		remarks = append(remarks, scale.remark())
	}
	for _, text := range append(remarks, c.Note) {
		if text != "" {
			b.WriteString("  " + strings.Join(fold(text, b.width-2), "\n  ") + "\n")
		}
	}
}

func markdownMeasures(b *bufio.Writer, c Chart, title string) {
	c, remarks := c.Drawable()
	all := c.measures()
	if len(all) == 0 {
		b.WriteString("### " + markdown(title) + "\n\nNo data.\n")
		return
	}
	t := Table{Title: title, Columns: []Column{{Name: categoryWord(c)}}}
	for _, l := range c.Lines {
		name := l.Name
		if name == "" {
			name = "value"
		}
		t.Columns = append(t.Columns, Column{Name: name})
	}
	for _, m := range all {
		if m.line == 0 {
			t.Rows = append(t.Rows, []string{c.Categories[m.category]})
		}
		last := len(t.Rows) - 1
		t.Rows[last] = append(t.Rows[last], m.text())
	}
	t.Note = strings.Join(append(remarks, c.Note), "\n")
	markdownTable(b, t)
}

func categoryWord(c Chart) string {
	if c.X.Label == "" {
		return "category"
	}
	return c.X.Label
}

// htmlMeasure is one bar, in a picture that is 400 wide.
type htmlMeasure struct {
	Category             string
	Span                 int // rows of the category, in its first row
	Name, Value          string
	Known, Range         bool
	Class                string // of the bar: its colour
	At, Width, Lo, Reach float64
	Ruled                bool
	Rule                 float64
}

// htmlMeasures lays bars along the rows of a table, with the figures beside:
// names of engines are long, and a table needs no script and fits a phone.
func htmlMeasures(c Chart) *htmlChart {
	const width, colours = 400, 8
	c, remarks := c.Drawable()
	out := &htmlChart{Title: c.Title, Unit: c.Y.Unit, Note: c.Note, Of: categoryWord(c)}
	all := c.measures()
	if len(all) == 0 {
		return out
	}
	scale := c.ruled(all)
	for _, m := range all {
		l := c.Lines[m.line]
		row := htmlMeasure{Name: l.Name, Value: m.text(), Known: !math.IsNaN(m.value), Range: !math.IsNaN(m.lo), Ruled: c.Rule > 0, Rule: hundredth(width * scale.place(c.Rule))}
		switch {
		case m.tone != ToneNone:
			row.Class = [...]string{ToneGood: "good", ToneWarn: "warn", ToneBad: "bad"}[m.tone]
		case c.ByCategory:
			row.Class = "s" + strconv.Itoa(m.category%colours)
		default:
			row.Class = "s" + strconv.Itoa(l.ColourOf(m.line)%colours)
		}
		if m.line == 0 {
			row.Category, row.Span = c.Categories[m.category], len(c.Lines)
		}
		if row.Known {
			from, to := scale.stretch(m.value, 0.012)
			row.At, row.Width = hundredth(width*from), hundredth(max(width*(to-from), 0.5))
		}
		if row.Range {
			row.Lo = hundredth(width * scale.place(m.lo))
			row.Reach = hundredth(max(width*scale.place(m.hi)-row.Lo, 1))
		}
		out.Series = out.Series || l.Name != ""
		out.Rows = append(out.Rows, row)
	}
	for _, text := range append(remarks, scale.remark()) {
		if text != "" {
			out.Remarks = append(out.Remarks, strings.ToUpper(text[:1])+text[1:]+".")
		}
	}
	return out
}

// hundredth keeps pages short: nobody sees more.
func hundredth(v float64) float64 { return math.Round(v*100) / 100 }
