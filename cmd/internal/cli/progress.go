package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// logEvery is how often a progress line goes to a log that is not a terminal.
const logEvery = 10 * time.Second

// Progress shows checkpoints: one line that is redrawn on a terminal, plain
// lines in a log, nothing when quiet.
type Progress struct {
	w     io.Writer
	tty   bool
	width func() int // of the terminal, in columns; 0: unknown
	quiet bool
	last  time.Time // of the last plain line
	stage string
	drawn bool
}

// NewProgress shows on w; quiet: nothing at all.
func NewProgress(w io.Writer, quiet bool) *Progress {
	p := &Progress{w: w, quiet: quiet}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.tty = true
		p.width = func() int { return TerminalWidth(w) }
	}
	return p
}

// TerminalWidth is the width of the terminal that w is, in columns; 0: it is none,
// or does not say.
func TerminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return n
}

// Terminal reports whether it draws on a terminal.
func (p *Progress) Terminal() bool { return p.tty }

// Show draws a checkpoint.
func (p *Progress) Show(c assay.Checkpoint) {
	if p.quiet {
		return
	}
	line := progressLine(c)
	if p.tty {
		// A line that wraps could not be drawn over.
		if w, r := p.width(), []rune(line); w > 1 && len(r) >= w {
			line = string(r[:w-1])
		}
		fmt.Fprintf(p.w, "\r\x1b[K%s", line)
		p.drawn = true
		return
	}
	now := time.Unix(0, c.At)
	if c.Stage == p.stage && now.Sub(p.last) < logEvery {
		return
	}
	p.stage, p.last = c.Stage, now
	fmt.Fprintln(p.w, line)
}

// Say prints a line of its own between the progress.
func (p *Progress) Say(format string, args ...any) {
	if p.quiet {
		return
	}
	p.Clear()
	fmt.Fprintln(p.w, foreign.Clip(fmt.Sprintf(format, args...), maxError))
}

// Clear takes the progress line away, so that what is printed next stands alone.
func (p *Progress) Clear() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}

func progressLine(c assay.Checkpoint) string {
	var b strings.Builder
	b.WriteString(foreign.Line(c.Stage, 200))
	if c.StageOf > 0 {
		fmt.Fprintf(&b, " %d/%d", c.StageN, c.StageOf)
	}
	fmt.Fprintf(&b, " · %s", time.Duration(c.ElapsedNS).Round(time.Second))
	if c.LeftNS > 0 {
		fmt.Fprintf(&b, ", %s left", time.Duration(c.LeftNS).Round(time.Second))
	}
	fmt.Fprintf(&b, " · %d done, %d in flight", c.Done, c.InFlight)
	if c.Waiting > 0 {
		fmt.Fprintf(&b, ", %d held by the cap", c.Waiting)
	}
	fmt.Fprintf(&b, " · %.4g req/s, %.4g tok/s", c.RequestRate, c.TokenRate)
	if c.TTFTp50 != nil && c.TTFTp99 != nil {
		fmt.Fprintf(&b, " · TTFT p50 %.4g p99 %.4g ms", *c.TTFTp50, *c.TTFTp99)
	}
	n := 0
	for _, v := range c.Errors {
		n += v
	}
	if n > 0 {
		fmt.Fprintf(&b, " · %d failed", n)
	}
	return b.String()
}
