// Package show renders the result of a claims run: as text for a terminal, as a
// page of HTML, as JUnit's XML and as annotations of GitHub. It decides nothing:
// every verdict that it shows is in the result.
package show

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/report"
)

// shown is a result under way to a page.
type shown struct{ *claims.Result }

// Page is the result for a terminal.
func Page(r *claims.Result) report.Page { return shown{r}.textPage() }

// HTML writes the whole report.
func HTML(w io.Writer, r *claims.Result) error { return report.HTML(w, shown{r}.wholePage()) }

// ReportFile is the page of a run, in its results directory.
const ReportFile = "report.html"

// Write puts report.html into the results directory, beside what [claims.Run]
// wrote there.
func Write(dir string, r *claims.Result) error {
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		return fmt.Errorf("make report.html: %w", err)
	}
	if err := disk.Replace(filepath.Join(dir, ReportFile), 0o644, disk.Bytes(b.Bytes())); err != nil {
		return fmt.Errorf("write report.html: %w", err)
	}
	return nil
}
