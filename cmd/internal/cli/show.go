package cli

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/assay-bench/assay/report"
)

// Show writes a page as suits w: as wide as a terminal, in colour on one that has
// any (and not with NO_COLOR, see no-color.org), plain in a file or a pipe.
func Show(w io.Writer, p report.Page) error {
	return report.Look{Width: TerminalWidth(w), Colour: coloured(w, os.Getenv)}.Text(w, p)
}

func coloured(w io.Writer, env func(string) string) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && env("NO_COLOR") == "" && env("TERM") != "dumb"
}
