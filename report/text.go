package report

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/assay-bench/assay/internal/foreign"
)

// textWidth is where running text wraps.
const textWidth = 96

// Text writes the page for a terminal or a log.
func Text(w io.Writer, p Page) error {
	b := bufio.NewWriter(w)
	if p.Title != "" {
		b.WriteString(show(p.Title) + "\n")
	}
	for _, block := range p.Blocks {
		b.WriteByte('\n')
		switch x := block.(type) {
		case Heading:
			h := show(x.Text)
			b.WriteString(h + "\n" + strings.Repeat("═", utf8.RuneCountInString(h)) + "\n")
		case Verdict:
			textVerdict(b, x)
		case Bars:
			textBars(b, x)
		case Chart:
			textChart(b, x)
		case Table:
			textTable(b, x)
		case Paragraph:
			wrap(b, x.Head, x.Text)
		case List:
			for i, item := range x.Items {
				head := x.Head
				if i > 0 {
					head = strings.Repeat(" ", utf8.RuneCountInString(head))
				}
				wrap(b, head, item)
			}
		}
	}
	return b.Flush()
}

// maxText is how much of one text a page shows, in bytes: a name may come from
// an engine, and an engine may send a megabyte.
const maxText = 2000

// show makes text from outside fit to be shown. Spaces at either end are layout
// and stay.
func show(s string) string {
	text := strings.Trim(s, " ")
	before := len(s) - len(strings.TrimLeft(s, " "))
	return s[:before] + foreign.Line(text, maxText) + s[before+len(text):]
}

func wrap(b *bufio.Writer, head, text string) {
	head = show(head)
	indent := utf8.RuneCountInString(head) + 2
	lines := fold(text, textWidth-indent)
	b.WriteString(head + "  " + strings.Join(lines, "\n"+strings.Repeat(" ", indent)) + "\n")
}

// fold breaks text between words into lines of at most width; a longer word
// stands on a line of its own.
func fold(text string, width int) []string {
	lines := []string{""}
	col := 0
	for i, word := range strings.Fields(show(text)) {
		n := utf8.RuneCountInString(word)
		at := len(lines) - 1
		switch {
		case i == 0:
			lines[at], col = word, n
		case col+1+n > width:
			lines, col = append(lines, word), n
		default:
			lines[at] += " " + word
			col += 1 + n
		}
	}
	return lines
}

// shown is the table with all of its text fit to be shown: only then is its
// width known.
func shown(t Table) Table {
	t.Title = show(t.Title)
	t.Columns, t.Rows = slices.Clone(t.Columns), slices.Clone(t.Rows)
	for i, c := range t.Columns {
		t.Columns[i].Name, t.Columns[i].Group = show(c.Name), show(c.Group)
	}
	for i, row := range t.Rows {
		t.Rows[i] = make([]string, len(row))
		for j, cell := range row {
			t.Rows[i][j] = show(cell)
		}
	}
	return t
}

func textTable(b *bufio.Writer, t Table) {
	t = shown(t)
	if t.Title != "" {
		b.WriteString(t.Title + "\n")
	}
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = utf8.RuneCountInString(c.Name)
	}
	for _, row := range t.Rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	const gap = "  "
	var groups strings.Builder
	for i := 0; i < len(t.Columns); {
		j, span := i, -len(gap)
		for ; j < len(t.Columns) && t.Columns[j].Group == t.Columns[i].Group; j++ {
			span += widths[j] + len(gap)
		}
		name := t.Columns[i].Group
		if n := utf8.RuneCountInString(name); n > span {
			widths[j-1] += n - span // the group's name is wider than its columns
			span = n
		}
		if name != "" && span >= utf8.RuneCountInString(name)+4 {
			pad := span - utf8.RuneCountInString(name) - 2
			name = strings.Repeat("─", pad/2) + " " + name + " " + strings.Repeat("─", pad-pad/2)
		}
		if i > 0 {
			groups.WriteString(gap)
		}
		groups.WriteString(pad(name, span, i == 0))
		i = j
	}
	if line := strings.TrimRight(groups.String(), " "); line != "" {
		b.WriteString(line + "\n")
	}
	last := len(t.Columns) - 1
	row := func(cell func(int) string) {
		var line strings.Builder
		indent := 0
		for i := range t.Columns {
			if i > 0 {
				line.WriteString(gap)
				indent += len(gap)
			}
			if i == last && t.Line > 0 {
				line.WriteString(foreign.Line(cell(i), max(t.Line-indent, minCut)))
				break
			}
			if i == last && t.Columns[i].Words {
				line.WriteString(strings.Join(fold(cell(i), max(textWidth-indent, 32)), "\n"+strings.Repeat(" ", indent)))
				break
			}
			line.WriteString(pad(cell(i), widths[i], i == 0 || t.Columns[i].Words))
			indent += widths[i]
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	row(func(i int) string { return t.Columns[i].Name })
	for _, r := range t.Rows {
		row(func(i int) string { return r[i] })
	}
	if t.Note != "" {
		for line := range strings.SplitSeq(t.Note, "\n") {
			b.WriteString(strings.Join(fold(line, textWidth), "\n") + "\n")
		}
	}
}

// minCut is what is left of a column for which a line has no room.
const minCut = 8

func pad(s string, width int, left bool) string {
	fill := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
	if left {
		return s + fill
	}
	return fill + s
}
