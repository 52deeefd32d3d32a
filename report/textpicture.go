package report

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/assay-bench/assay"
)

func textVerdict(b *writer, v Verdict) {
	head := b.paint(show(v.word()), toneOf(v.Verdict.String()))
	if v.Score.Known() {
		head += "  " + interval(v.Score)
	}
	if v.Of != "" {
		head = show(v.Of) + ": " + head
	}
	b.WriteString(head + "\n")
	for _, text := range []string{v.Why, v.Note} {
		if text != "" {
			b.WriteString(strings.Join(fold(text, b.width), "\n") + "\n")
		}
	}
}

// textTiles has a line for each.
func textTiles(b *writer, tiles Tiles) {
	name, value := 0, 0
	for _, t := range tiles {
		name, value = max(name, utf8.RuneCountInString(show(t.Name))), max(value, utf8.RuneCountInString(show(t.Value)))
	}
	for _, t := range tiles {
		b.WriteString(strings.TrimRight(pad(show(t.Name), name, true)+"  "+pad(show(t.Value), value, false)+"  "+show(t.Note), " ") + "\n")
	}
}

// interval writes a score with its interval; why it is unknown otherwise.
func interval(q assay.Quantity) string {
	if !q.Known() {
		if q.Why == "" {
			return "unknown"
		}
		return "unknown: " + q.Why
	}
	s := fmt.Sprintf("%.2f", q.Est)
	if !math.IsNaN(q.Lo) && !math.IsNaN(q.Hi) && q.Lo <= q.Hi {
		s += fmt.Sprintf(" [%.2f, %.2f]", q.Lo, q.Hi)
	}
	return s
}

func textBars(b *writer, x Bars) {
	const width = 24
	if x.Title != "" {
		b.WriteString(show(x.Title) + "\n")
	}
	name := 0
	for _, bar := range x.Bars {
		name = max(name, utf8.RuneCountInString(show(bar.Name)))
	}
	for _, bar := range x.Bars {
		full := 0
		if bar.Value.Known() {
			full = int(math.Round(width * unit(bar.Value.Est)))
		}
		line := pad(show(bar.Name), name, true) + "  " + strings.Repeat("█", full) + strings.Repeat("░", width-full) + "  "
		text := interval(bar.Value)
		if bar.Note != "" {
			text += "; " + bar.Note
		}
		indent := name + 2 + width + 2
		b.WriteString(line + strings.Join(fold(text, max(b.width-indent, 32)), "\n"+strings.Repeat(" ", indent)) + "\n")
	}
	if x.Note != "" {
		b.WriteString(strings.Join(fold(x.Note, b.width), "\n") + "\n")
	}
}

// unit forces a score into [0,1] for drawing.
func unit(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return min(max(v, 0), 1)
}

func textChart(b *writer, c Chart) {
	head := c.Title
	if y := c.Y.String(); y != "" && y != c.Title {
		head += " (" + y + ")"
	}
	b.WriteString(show(head) + "\n")
	if c.Kind == ChartBars {
		textMeasures(b, c)
		return
	}
	name := 0
	for _, l := range c.Lines {
		name = max(name, utf8.RuneCountInString(show(l.Name)))
	}
	drawn := false
	for _, l := range c.Lines {
		e := extentOf(l.Y)
		if e.N == 0 {
			continue
		}
		drawn = true
		spark := ""
		if c.Kind != ChartScatter {
			spark = sparkline(l.usable(c.X, c.Y), 40) + "  "
		}
		b.WriteString("  " + pad(show(l.Name), name, true) + "  " + spark + e.String() + "\n")
	}
	if !drawn {
		b.WriteString("  no data\n")
	}
	for _, text := range append(c.remarks(), c.Note) {
		if text != "" {
			b.WriteString("  " + strings.Join(fold(text, b.width-2), "\n  ") + "\n")
		}
	}
}

// sparkline draws the highest value of each of n stretches of the x axis; a
// stretch without a value is blank.
func sparkline(l Line, n int) string {
	const levels = "▁▂▃▄▅▆▇█"
	e := extentOf(l.Y)
	if e.N == 0 {
		return strings.Repeat(" ", n)
	}
	from, to := l.X[0], l.X[len(l.X)-1]
	most := make([]float64, n)
	for i := range most {
		most[i] = math.NaN()
	}
	for i, y := range l.Y {
		if math.IsNaN(y) {
			continue
		}
		at := 0
		if to > from {
			at = min(int(float64(n)*(l.X[i]-from)/(to-from)), n-1)
		}
		if math.IsNaN(most[at]) || y > most[at] {
			most[at] = y
		}
	}
	runes := []rune(levels)
	var s strings.Builder
	for _, y := range most {
		switch {
		case math.IsNaN(y):
			s.WriteByte(' ')
		case e.Max == e.Min:
			s.WriteRune(runes[3])
		default:
			s.WriteRune(runes[min(int(float64(len(runes))*(y-e.Min)/(e.Max-e.Min)), len(runes)-1)])
		}
	}
	return s.String()
}
