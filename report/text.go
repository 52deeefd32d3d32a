package report

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/assay-bench/assay/internal/foreign"
)

// textWidth is where running text wraps, if nobody says how wide the terminal is.
const textWidth = 96

// minWidth is the narrowest that a page is written for: below, a terminal breaks
// the lines itself.
const minWidth = 40

// Look is how a page is written for a terminal. The zero value is right for a log.
type Look struct {
	// Width is that of the terminal, in columns; 0: unknown. Text is never wider
	// than 96 columns, as longer lines are hard to read; tables may be, and leave
	// out columns where they are not.
	Width int
	// Colour sets verdicts off by colour.
	Colour bool
}

// width is where running text wraps.
func (l Look) width() int {
	if l.Width <= 0 {
		return textWidth
	}
	return max(minWidth, min(l.Width, textWidth))
}

// writer writes one page.
type writer struct {
	*bufio.Writer
	look  Look
	width int
}

// Text writes the page for a terminal.
func (l Look) Text(w io.Writer, p Page) error {
	b := &writer{bufio.NewWriter(w), l, l.width()}
	if p.Title != "" {
		b.WriteString(strings.Join(fold(p.Title, b.width), "\n") + "\n")
	}
	for _, block := range p.Blocks {
		b.WriteByte('\n')
		switch x := block.(type) {
		case Heading:
			h := show(x.Text)
			b.WriteString(h + "\n" + strings.Repeat("═", utf8.RuneCountInString(h)) + "\n")
		case Verdict:
			textVerdict(b, x)
		case Tiles:
			textTiles(b, x)
		case Bars:
			textBars(b, x)
		case Chart:
			textChart(b, x)
		case Table:
			textTable(b, x)
		case Paragraph:
			b.wrap(x.Head, x.Text, x.Tone)
		case List:
			for i, item := range x.Items {
				head := x.Head
				if i > 0 {
					head = strings.Repeat(" ", utf8.RuneCountInString(head))
				}
				b.wrap(head, item, ToneNone)
			}
		case Commands:
			for _, line := range x {
				b.WriteString("  " + show(line) + "\n")
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

func (b *writer) wrap(head, text string, tone Tone) {
	head = show(head)
	indent := utf8.RuneCountInString(head) + 2
	lines := fold(text, b.width-indent)
	if first, rest, ok := strings.Cut(lines[0], " "); tone != ToneNone {
		lines[0] = b.paint(first, tone)
		if ok {
			lines[0] += " " + rest
		}
	}
	b.WriteString(head + "  " + strings.Join(lines, "\n"+strings.Repeat(" ", indent)) + "\n")
}

// paint sets a word off by the colours that a terminal's own scheme has.
func (b *writer) paint(word string, tone Tone) string {
	code := [...]string{ToneGood: "32", ToneWarn: "33", ToneBad: "31"}[tone]
	if !b.look.Colour || code == "" {
		return word
	}
	return "\x1b[1;" + code + "m" + word + "\x1b[0m"
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

// fitting leaves out columns until the table is as wide as the terminal: those
// that may be left out, the one with the highest number first.
func (b *writer) fitting(t Table) Table {
	if b.look.Width <= 0 {
		return t
	}
	for tableWidth(t) > max(b.look.Width, minWidth) {
		drop := -1
		for i, c := range t.Columns {
			if c.Drop > 0 && (drop < 0 || c.Drop >= t.Columns[drop].Drop) {
				drop = i
			}
		}
		if drop < 0 {
			return t
		}
		t.Columns = slices.Delete(slices.Clone(t.Columns), drop, drop+1)
		rows := make([][]string, len(t.Rows))
		for i, r := range t.Rows {
			rows[i] = slices.Delete(slices.Clone(r), drop, drop+1)
		}
		t.Rows = rows
	}
	return t
}

// tableWidth is how wide a table is, with the names over its groups.
func tableWidth(t Table) int {
	sum := -2
	for i := 0; i < len(t.Columns); {
		span, group := -2, t.Columns[i].Group
		for ; i < len(t.Columns) && t.Columns[i].Group == group; i++ {
			w := utf8.RuneCountInString(t.Columns[i].Name)
			for _, r := range t.Rows {
				w = max(w, utf8.RuneCountInString(r[i]))
			}
			span += w + 2
		}
		sum += max(span, utf8.RuneCountInString(group)) + 2
	}
	return sum
}

func textTable(b *writer, t Table) {
	t = b.fitting(shown(t))
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
				line.WriteString(strings.Join(fold(cell(i), max(b.width-indent, 32)), "\n"+strings.Repeat(" ", indent)))
				break
			}
			text := pad(cell(i), widths[i], i == 0 || t.Columns[i].Words)
			if tone := toneOf(cell(i)); tone != ToneNone {
				text = strings.Replace(text, cell(i), b.paint(cell(i), tone), 1)
			}
			line.WriteString(text)
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
			b.WriteString(strings.Join(fold(line, b.width), "\n") + "\n")
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
