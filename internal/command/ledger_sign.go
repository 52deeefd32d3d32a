package command

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/ledger"
)

func newLedgerSign() *cobra.Command {
	var key SignerFlags
	var replace bool
	var format string
	cmd := &cobra.Command{
		Use:   "sign DIR",
		Short: "Sign a run that has ended",
		Long: `Sign makes two statements about a run, signs them and puts them into its
directory: test-result.dsse.json, which other tools know, and
gpu-benchmark.dsse.json with the figures. Both hold the SHA-256 of every file of
the run. A run that was broken off can be signed too, and its statements say so.`,
		Example: `  assay ledger sign runs/20261115-120000`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return badFormat(format)
			}
			dir := args[0]
			run, err := journal.Open(dir)
			if err != nil {
				return Unknown(err)
			}
			s, err := openSigning(cmd.Context(), key, ProcessSecrets(), run.Manifest().Node.ID)
			if err != nil {
				return err
			}
			records, err := s.sign(dir, replace)
			if err != nil {
				return err
			}
			return s.tell(cmd.OutOrStdout(), dir, records, format)
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	key.Register(fl, "key")
	fl.BoolVar(&replace, "replace", false, "sign again although the statements have receipts from a log, which are removed")
	fl.StringVar(&format, "format", "text", "text or json")
	return cmd
}

// signing is a key that was opened and found good for the runs of a node.
type signing struct {
	signer  ledger.Signer
	key     ledger.Key
	secrets Secrets
}

func openSigning(ctx context.Context, f SignerFlags, s Secrets, node string) (*signing, error) {
	signer, key, err := f.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := ledger.CheckSigner(signer, key, node, s.Now()); err != nil {
		return nil, err
	}
	return &signing{signer, key, s}, nil
}

// sign signs a run. The records are for an outbox.
func (s *signing) sign(dir string, replace bool) ([]ledger.Record, error) {
	return ledger.SignRun(dir, s.signer, s.key, ledger.SignOptions{Now: s.secrets.Now(), Replace: replace})
}

// signed is what --format json prints of a signature.
type signed struct {
	Dir        string            `json:"dir"`
	KeyID      string            `json:"key_id"`
	Owner      string            `json:"owner"`
	Statements map[string]string `json:"statements"` // id by file
}

func (s *signing) tell(w io.Writer, dir string, records []ledger.Record, format string) error {
	out := signed{dir, s.key.ID, s.key.Owner, map[string]string{}}
	statements := records[len(records)-2:] // that of the key may come first
	for i, name := range []string{ledger.TestResultFile, ledger.BenchmarkFile} {
		out.Statements[name] = statements[i].ID.String()
	}
	if format == "json" {
		return WriteJSON(w, out)
	}
	_, err := fmt.Fprintf(w, "signed by %s\n%s\n%s\n", s.key, filepath.Join(dir, ledger.TestResultFile), filepath.Join(dir, ledger.BenchmarkFile))
	return err
}
