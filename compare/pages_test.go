package compare

import (
	"bytes"
	"testing"

	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/report"
)

// The page of an experiment with a difference, an engine that failed and hostile
// names, in every look.
func TestComparePageInBrowser(t *testing.T) {
	e := full()
	var page bytes.Buffer
	if err := report.HTML(&page, Page(e, Analyze(e), true)); err != nil {
		t.Fatal(err)
	}
	parttest.Page(t, "compare", page.Bytes())
}
