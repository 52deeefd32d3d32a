package parttest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-bench/assay/internal/parttest"
)

func TestFigureAddsALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figures")
	t.Setenv("FIGURES", path)
	parttest.Figure(t, "%d rows", 3)
	parttest.Figure(t, "more")
	b, err := os.ReadFile(path)
	if want := "TestFigureAddsALine: 3 rows\nTestFigureAddsALine: more\n"; err != nil || string(b) != want {
		t.Errorf("%q, want %q: %v", b, want, err)
	}
}
