package campaign

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/cmd/internal/cli"
)

// view shows a campaign as it goes: a table that is redrawn on a terminal, a line
// for each change in a log, nothing when quiet.
type view struct {
	w     io.Writer
	quiet bool
	tty   bool
	drawn int // lines
	last  map[string]string
}

// maxRows is how many cells a terminal shows at once: those that are under way.
const maxRows = 20

func newView(w io.Writer, quiet bool) *view {
	v := &view{w: w, quiet: quiet, last: map[string]string{}}
	if f, ok := w.(*os.File); ok {
		v.tty = term.IsTerminal(int(f.Fd()))
	}
	return v
}

func (v *view) show(p sight) {
	switch {
	case v.quiet:
	case v.tty:
		v.draw(p)
	default:
		v.log(p)
	}
}

// log writes a line for each cell that changed.
func (v *view) log(p sight) {
	for n, r := range p.Cells {
		key, now := p.cells[n].ID, r.Status+" "+r.Stage
		before, known := v.last[key]
		v.last[key] = now
		if now != before && (known || r.Status != string(campaign.Pending) && r.Status != string(campaign.Skipped)) {
			fmt.Fprintln(v.w, r.line())
		}
	}
}

// draw writes the table over the one of before.
func (v *view) draw(p sight) {
	width := cli.TerminalWidth(v.w)
	var lines []string
	for _, r := range p.Cells {
		if r.Status == string(campaign.Running) && len(lines) < maxRows {
			lines = append(lines, r.line())
		}
	}
	lines = append(lines, p.total())
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn)
	}
	for _, l := range lines {
		if r := []rune(l); width > 1 && len(r) >= width { // a line that wraps could not be drawn over
			l = string(r[:width-1])
		}
		b.WriteString("\x1b[K" + l + "\n")
	}
	b.WriteString("\x1b[J")
	v.drawn = len(lines)
	fmt.Fprint(v.w, b.String())
}

// clear takes the table away.
func (v *view) clear() {
	if v.drawn > 0 {
		fmt.Fprintf(v.w, "\x1b[%dA\x1b[J", v.drawn)
		v.drawn = 0
	}
}
