package claims

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/internal/foreign"
)

// diffFile is the proposal in the results directory.
const diffFile = "claims.diff"

// maxShownDiff bounds what is printed of it; the file has all.
const maxShownDiff = 256 << 10

// propose writes the promises as measured as a diff of the claims file, and prints
// it below the text report. It applies nothing.
func (f *claimsFlags) propose(r *claims.Result, file []byte, dir string, stdout io.Writer, p *cli.Progress) error {
	u, err := r.Propose(file, catalog())
	if err != nil {
		return fmt.Errorf("propose other promises: %w", err)
	}
	for _, line := range u.Left {
		p.Say("left as it is: %s", line)
	}
	if len(u.Diff) == 0 {
		p.Say("no promise would change")
		return nil
	}
	at := filepath.Join(dir, diffFile)
	if err := disk.Replace(at, 0o644, disk.Bytes(u.Diff)); err != nil {
		return fmt.Errorf("write the proposal: %w", err)
	}
	for _, c := range u.Changes {
		p.Say("proposed: %s: %s instead of %s (%s)", c.Claim, c.New, c.Old, c.Why)
	}
	p.Say("nothing was changed; to apply: %s", foreign.Shell("patch", "--", r.File, at))
	if f.format != "text" {
		return nil
	}
	_, err = fmt.Fprintf(stdout, "\n%s\n", foreign.Clip(bytes.TrimRight(u.Diff, "\n"), maxShownDiff))
	return err
}
