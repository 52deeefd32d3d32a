package parttest

import (
	"fmt"
	"os"
	"testing"
)

// Figure prints what was measured into the test's log and, as a line that CI shows
// whether or not the test passes, into the file that FIGURES names.
func Figure(tb testing.TB, format string, args ...any) {
	tb.Helper()
	tb.Logf(format, args...)
	path := os.Getenv("FIGURES")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	// One write, so that lines of tests that run at once stay whole.
	if _, err := f.WriteString(tb.Name() + ": " + fmt.Sprintf(format, args...) + "\n"); err != nil {
		tb.Fatal(err)
	}
}
