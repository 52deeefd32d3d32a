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

// Text writes the result for a terminal.
func Text(w io.Writer, r *claims.Result) error { return report.Text(w, shown{r}.textPage()) }

// HTML writes the whole report.
func HTML(w io.Writer, r *claims.Result) error { return report.HTML(w, shown{r}.wholePage()) }

// Write puts report.html into the results directory, beside what [claims.Run]
// wrote there.
func Write(dir string, r *claims.Result) error {
	var b bytes.Buffer
	if err := HTML(&b, r); err != nil {
		return fmt.Errorf("make report.html: %w", err)
	}
	if err := disk.Replace(filepath.Join(dir, "report.html"), 0o644, disk.Bytes(b.Bytes())); err != nil {
		return fmt.Errorf("write report.html: %w", err)
	}
	return nil
}
