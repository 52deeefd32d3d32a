package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/ledger/tlog"
)

type restoreFlags struct {
	from, witnessed    []string
	to, policy, format string
	quiet              bool
}

func newLedgerRestore() *cobra.Command {
	var f restoreFlags
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Make a notary's log again from backups and mirrors",
		Long: `Restore makes a log's directory from copies, so that a notary goes on with it and
its witnesses see one log that grew. Each --from gives the entries that the ones
before it lack; every entry is checked against the signed checkpoints.

A log must never go on from before the last checkpoint that anybody has seen: it
would be a fork, and its witnesses would refuse it for ever. So give what is known
outside with --witnessed: a monitor's state file, a witness's last checkpoint, the
end of a receipt. When entries up to there are missing in all copies, restore
refuses and says which.

Stop the notary first. --to is the notary's directory, which must have no log/.

Exit codes: 0 restored; 1 used wrongly; 2 a copy cannot be read; 3 the copies
cannot give the log that was signed.`,
		Example: `  assay ledger restore --from backup --from https://mirror.example.org --witnessed monitor.state --to notary-dir --policy policy.txt
  assay ledger fsck notary-dir --policy policy.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringArrayVar(&f.from, "from", nil, "a copy: `directory or URL`; may be given several times, the best first (needed)")
	fs.StringVar(&f.to, "to", "", "the notary's `directory`: its log/ is made (needed)")
	registerPolicy(fs, &f.policy)
	fs.StringArrayVar(&f.witnessed, "witnessed", nil, "`file` with a checkpoint that was seen outside; may be given several times")
	cli.FormatFlag(fs, &f.format, "text or json", "text", "json")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "print the result only")
	return cmd
}

func (f *restoreFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	switch {
	case len(f.from) == 0:
		return errors.New("--from: name at least one copy of the log")
	case f.to == "":
		return errors.New("--to: name the notary's directory")
	}
	if err := textOrJSON(f.format); err != nil {
		return err
	}
	p, err := readPolicy(f.policy)
	if err != nil {
		return err
	}
	var from []tlog.Source
	for _, where := range f.from {
		src, err := tlog.Open(where, tlog.OpenOptions{})
		if err != nil {
			return cli.Unknown(err)
		}
		defer src.Close()
		from = append(from, src)
	}
	var witnessed [][]byte
	for _, file := range f.witnessed {
		b, err := readCheckpointFile(file)
		if err != nil {
			return fmt.Errorf("--witnessed: %w", err)
		}
		witnessed = append(witnessed, b)
	}
	if err := os.MkdirAll(f.to, 0o755); err != nil {
		return err
	}
	show := entriesShown(stderr, f.quiet)
	r, err := tlog.Restore(ctx, from, filepath.Join(f.to, "log"), p, witnessed, tlog.RestoreOptions{Progress: show.at})
	show.clear()
	switch {
	case errors.Is(err, tlog.ErrMissing), errors.Is(err, tlog.ErrAltered):
		return cli.Failed(err)
	case errors.Is(err, tlog.ErrNotEmpty):
		return err
	case err != nil:
		return cli.Unknown(err)
	}
	if f.format == "json" {
		return cli.WriteJSON(stdout, r)
	}
	fmt.Fprintf(stdout, "%s: %d entries of %s\n", r.Dir, r.Size, printable(r.Origin))
	for _, where := range slices.Sorted(maps.Keys(r.From)) {
		fmt.Fprintf(stdout, "  %d bundles from %s\n", r.From[where], where)
	}
	if len(f.witnessed) == 0 {
		fmt.Fprintln(stdout, "note: nothing from outside was given with --witnessed; if a witness has seen more than these copies hold, it will refuse this log")
	}
	fmt.Fprintf(stdout, "next: assay ledger fsck %s --policy %s, then start the notary\n", f.to, f.policy)
	return nil
}
