package operate

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/ledger/tlog"
)

type logKeysFlags struct {
	logFlags
	output string
	quiet  bool
}

func newLedgerKeys() *cobra.Command {
	var f logKeysFlags
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Collect what a log says about keys, to verify offline with",
		Long: `Keys reads a whole log and writes every statement about a key in it, and every
revocation, one a line, for assay ledger verify --keys. That the log shows all of
them is checked: they must make the root that it signed.

Exit codes: 0 collected; 1 used wrongly; 2 the log cannot be read; 3 what it shows
does not make its root.`,
		Example: `  assay ledger keys --log https://log.example.org/gpu --policy policy.txt --output keys.jsonl
  assay ledger verify run --trust authority.pub --trust policy.txt --keys keys.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	f.register(fs)
	fs.StringVar(&f.output, "output", "", "`file` to write instead of printing")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "print the result only")
	return cmd
}

func (f *logKeysFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	src, p, err := f.open()
	if err != nil {
		return err
	}
	defer src.Close()
	show := entriesShown(stderr, f.quiet)
	envelopes, cp, err := tlog.Keys(ctx, src, p, show.at)
	show.clear()
	if errors.Is(err, tlog.ErrAltered) {
		return cli.Failed(err)
	} else if err != nil {
		return cli.Unknown(err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s, all of its %d entries", printable(cp.Origin), cp.Size)
	for _, c := range cp.Cosigned {
		fmt.Fprintf(&b, ", seen by %s at %s", printable(c.Name), c.Time.UTC().Format(time.RFC3339))
	}
	fmt.Fprintf(&b, ", root %s\n", base64.StdEncoding.EncodeToString(cp.Root[:]))
	for _, e := range envelopes {
		b.Write(e)
	}
	if f.output == "" {
		_, err = stdout.Write(b.Bytes())
		return err
	}
	return disk.Replace(f.output, 0o644, disk.Bytes(b.Bytes()))
}
