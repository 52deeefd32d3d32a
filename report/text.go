package report

import (
	"bufio"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// textWidth is where running text wraps.
const textWidth = 96

// Text writes the page for a terminal or a log.
func Text(w io.Writer, p Page) error {
	b := bufio.NewWriter(w)
	if p.Title != "" {
		b.WriteString(clean(p.Title) + "\n")
	}
	for _, block := range p.Blocks {
		b.WriteByte('\n')
		switch x := block.(type) {
		case Heading:
			h := clean(x.Text)
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

// clean takes control characters out of text that may come from an engine: a
// terminal must not obey it, and no text may turn around what stands beside it.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) {
			return '·'
		}
		return r
	}, s)
}

func wrap(b *bufio.Writer, head, text string) {
	head = clean(head)
	indent := utf8.RuneCountInString(head) + 2
	lines := fold(text, textWidth-indent)
	b.WriteString(head + "  " + strings.Join(lines, "\n"+strings.Repeat(" ", indent)) + "\n")
}

// fold breaks text between words into lines of at most width; a longer word
// stands on a line of its own.
func fold(text string, width int) []string {
	lines := []string{""}
	col := 0
	for i, word := range strings.Fields(clean(text)) {
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

func textTable(b *bufio.Writer, t Table) {
	if t.Title != "" {
		b.WriteString(clean(t.Title) + "\n")
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
			if i == last && t.Columns[i].Words {
				line.WriteString(strings.Join(fold(cell(i), max(textWidth-indent, 32)), "\n"+strings.Repeat(" ", indent)))
				break
			}
			line.WriteString(pad(clean(cell(i)), widths[i], i == 0 || t.Columns[i].Words))
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

func pad(s string, width int, left bool) string {
	fill := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
	if left {
		return s + fill
	}
	return fill + s
}
