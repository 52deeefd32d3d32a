package record

import (
	"bytes"
	"testing"

	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/report"
)

// The page of a campaign with a cell of each kind of end, in every look.
func TestCampaignPageInBrowser(t *testing.T) {
	var page bytes.Buffer
	if err := report.HTML(&page, Page(tried())); err != nil {
		t.Fatal(err)
	}
	parttest.Page(t, "campaign", page.Bytes())
}
