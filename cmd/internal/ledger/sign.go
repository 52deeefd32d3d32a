package ledger

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/telemetry"
)

func newLedgerSign() *cobra.Command {
	var key keys.SignerFlags
	var replace bool
	var format string
	cmd := &cobra.Command{
		Use:   "sign DIR",
		Short: "Sign a run that has ended, or what verify recorded",
		Long: `Sign makes two statements about a run, signs them and puts them into its
directory: test-result.dsse.json, which other tools know, and
gpu-benchmark.dsse.json with the figures. Both hold the SHA-256 of every file of
the run. A run that was interrupted can be signed too, and its statements say so.

Of a directory that verify --out wrote it makes one, gpu-operations.dsse.json, over
the recorded operations and checks. It is of this node: sign it where it was
recorded.`,
		Example: `  assay ledger sign runs/20261115-120000
  assay verify --out proof; assay ledger sign proof`,
		Args: cli.Takes(1, 1, "the directory of a run or of verify --out"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return cli.BadFormat(format)
			}
			dir := args[0]
			node, err := nodeOf(dir)
			if err != nil {
				return cli.Unknown(err)
			}
			s, err := keys.OpenSigning(cmd.Context(), key, keys.ProcessSecrets(), node)
			if err != nil {
				return err
			}
			records, err := s.Sign(cmd.Context(), dir, replace)
			if err != nil {
				return err
			}
			return tell(cmd.OutOrStdout(), s, dir, records, format)
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	key.Register(fl, "key")
	fl.BoolVar(&replace, "replace", false, "sign again although the statements have receipts from a log, which are removed")
	cli.FormatFlag(fl, &format, "text or json", "text", "json")
	return cmd
}

// nodeOf is the node that a directory is of. Operations do not name it: theirs is
// this one, as in the events that verify publishes.
func nodeOf(dir string) (string, error) {
	if ledger.IsOperations(dir) {
		return telemetry.DescribeNode().ID, nil
	}
	run, err := journal.Open(dir)
	if err != nil {
		return "", err
	}
	return run.Manifest().Node.ID, nil
}

// signed is what --format json prints of a signature.
type signed struct {
	Dir        string            `json:"dir"`
	KeyID      string            `json:"key_id"`
	Owner      string            `json:"owner"`
	Statements map[string]string `json:"statements"` // id by file
}

func tell(w io.Writer, s *keys.Signing, dir string, records []ledger.Record, format string) error {
	out := signed{dir, s.Key.ID, s.Key.Owner, map[string]string{}}
	files := ledger.StatementFiles(dir)
	statements := records[len(records)-len(files):] // that of the key may come first
	for i, name := range files {
		out.Statements[name] = statements[i].ID.String()
	}
	if format == "json" {
		return cli.WriteJSON(w, out)
	}
	if _, err := fmt.Fprintf(w, "signed by %s\n", s.Key); err != nil {
		return err
	}
	for _, name := range files {
		if _, err := fmt.Fprintln(w, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
