package operate

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/tlog"
)

type logKeysFlags struct {
	logFlags
	key    keys.SignerFlags
	output string
	quiet  bool
}

func newLedgerKeys() *cobra.Command {
	var f logKeysFlags
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Collect what a log says about keys, to verify offline with",
		Long: `Keys reads a whole log and writes every statement about a key in it, and every
revocation, with the proof of each, for assay ledger verify --keys: a snapshot
(docs/formats/log.md) from which a verifier offline learns which keys were good
when, and how old that knowledge is. That the log shows all of them is checked:
they must make the root that it signed. Who gets the file from somebody else
believes them that nothing is missing; with --key the log itself signs it.

Exit codes: 0 collected; 1 used wrongly; 2 the log cannot be read; 3 what it shows
does not make its root.`,
		Example: `  assay ledger keys --log https://log.example.org/gpu --policy policy.txt --output keys.jsonl
  assay ledger verify run --trust authority.pub --trust policy.txt --keys keys.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), keys.ProcessSecrets(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	f.register(fs)
	fs.StringVar(&f.output, "output", "", "`file` to write instead of printing")
	f.key.Register(fs, "key")
	fs.Lookup("key").Usage = "private key `file` of the log: it then signs that nothing is missing; by default nobody does"
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "print the result only")
	return cmd
}

func (f *logKeysFlags) run(ctx context.Context, s keys.Secrets, stdout, stderr io.Writer) error {
	var signer ledger.Signer
	if f.key.Key != "" {
		var err error
		if signer, err = f.key.OpenNote(ctx, s); err != nil {
			return err
		}
	}
	src, p, err := f.open()
	if err != nil {
		return err
	}
	defer src.Close()
	show := entriesShown(stderr, f.quiet)
	snapshot, _, err := tlog.Keys(ctx, src, p, s.Now(), show.at)
	show.clear()
	if errors.Is(err, tlog.ErrAltered) {
		return cli.Failed(err)
	} else if err != nil {
		return cli.Unknown(err)
	}
	if signer != nil {
		if err := snapshot.Sign(ctx, signer); err != nil {
			return err
		}
		if _, err := p.VerifySnapshot(snapshot); err != nil {
			return fmt.Errorf("--key is not that of the log: %w", err)
		}
	}
	b := snapshot.Encode()
	if f.output == "" {
		_, err = stdout.Write(b)
		return err
	}
	return cli.SaveProof(f.output, b)
}
