package report

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Markdown writes the page as GitHub's Markdown. A chart becomes a table of its
// series: what a picture shows, in words.
func Markdown(w io.Writer, p Page) error {
	b := bufio.NewWriter(w)
	b.WriteString("# " + markdown(p.Title) + "\n")
	for _, block := range p.Blocks {
		b.WriteByte('\n')
		switch x := block.(type) {
		case Heading:
			b.WriteString("## " + markdown(x.Text) + "\n")
		case Verdict:
			b.WriteString("**" + markdown(x.word()))
			if x.Score.Known() {
				b.WriteString(" " + markdown(interval(x.Score)))
			}
			b.WriteString("**: " + markdown(x.Why) + "\n")
			if x.Note != "" {
				b.WriteString("\n" + markdown(x.Note) + "\n")
			}
		case Tiles:
			t := Table{Columns: []Column{{Name: "figure"}, {Name: "value"}, {Name: "remark", Words: true}}}
			for _, tile := range x {
				t.Rows = append(t.Rows, []string{tile.Name, tile.Value, tile.Note})
			}
			markdownTable(b, t)
		case Bars:
			t := Table{Title: x.Title, Note: x.Note, Columns: []Column{{Name: "part"}, {Name: "score", Words: true}, {Name: "remark", Words: true}}}
			for _, bar := range x.Bars {
				t.Rows = append(t.Rows, []string{bar.Name, interval(bar.Value), bar.Note})
			}
			markdownTable(b, t)
		case Chart:
			markdownChart(b, x)
		case Table:
			markdownTable(b, x)
		case Paragraph:
			if head := strings.TrimSpace(x.Head); head != "" {
				b.WriteString("**" + markdown(head) + "** ")
			}
			b.WriteString(markdown(x.Text) + "\n")
		case List:
			if head := strings.TrimSpace(x.Head); head != "" {
				b.WriteString("**" + markdown(head) + "**\n\n")
			}
			for _, item := range x.Items {
				b.WriteString("- " + markdown(item) + "\n")
			}
		case Commands:
			for _, line := range x {
				b.WriteString("    " + show(line) + "\n") // indented: code, whatever is in it
			}
		}
	}
	return b.Flush()
}

func markdownTable(b *bufio.Writer, t Table) {
	if t.Title != "" {
		b.WriteString("### " + markdown(t.Title) + "\n\n")
	}
	var head, rule strings.Builder
	for i, c := range t.Columns {
		name := c.Name
		if c.Group != "" {
			name = c.Group + " " + name
		}
		head.WriteString("| " + markdown(name) + " ")
		if i == 0 || c.Words {
			rule.WriteString("| --- ")
		} else {
			rule.WriteString("| ---: ")
		}
	}
	b.WriteString(head.String() + "|\n" + rule.String() + "|\n")
	for _, row := range t.Rows {
		for _, cell := range row {
			b.WriteString("| " + markdown(cell) + " ")
		}
		b.WriteString("|\n")
	}
	for line := range strings.SplitSeq(t.Note, "\n") {
		if line != "" {
			b.WriteString("\n" + markdown(line) + "\n")
		}
	}
}

func markdownChart(b *bufio.Writer, c Chart) {
	title := c.Title
	if c.Y.Unit != "" {
		title += " (" + c.Y.Unit + ")"
	}
	if c.Kind == ChartBars {
		markdownMeasures(b, c, title)
		return
	}
	t := Table{Title: title, Columns: []Column{{Name: "series"}, {Name: "course", Words: true}, {Name: "points"}, {Name: "min"}, {Name: "median"}, {Name: "max"}}}
	for _, l := range c.Lines[:min(len(c.Lines), mostLines)] {
		l = l.usable(c.X, c.Y)
		e := extentOf(l.Y)
		if e.N == 0 {
			continue
		}
		spark := ""
		if c.Kind != ChartScatter {
			// Markdown would swallow the blanks that stand for gaps.
			spark = strings.ReplaceAll(sparkline(l, 24), " ", "·")
		}
		t.Rows = append(t.Rows, []string{l.Name, spark, fmt.Sprint(e.N), number(e.Min), number(e.Median), number(e.Max)})
	}
	if len(t.Rows) == 0 {
		b.WriteString("### " + markdown(title) + "\n\nNo data.\n")
		return
	}
	var notes []string
	for _, n := range append(c.remarks(), c.Note) {
		if n != "" {
			notes = append(notes, n)
		}
	}
	t.Note = strings.Join(notes, "\n")
	markdownTable(b, t)
}

// markdown escapes what Markdown or HTML within it would obey.
func markdown(s string) string {
	var b strings.Builder
	for _, r := range show(s) {
		switch r {
		case '\\', '`', '*', '_', '[', ']', '|', '~', '#':
			b.WriteByte('\\')
			b.WriteRune(r)
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		case '&':
			b.WriteString("&amp;")
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
