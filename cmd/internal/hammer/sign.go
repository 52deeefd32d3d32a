package hammer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/telemetry"
)

func (f *hammerFlags) registerSign(fs *pflag.FlagSet) {
	fs.BoolVar(&f.sign, "sign", false, "sign the run at its end, as assay ledger sign does; the key is opened before it begins")
	f.signKey.Register(fs, "sign-key")
	fs.StringVar(&f.nonce, "nonce", "", "`HEX` that an auditor gave, 16 to 64 bytes: kept in the run and signed; by default random")
}

// signing opens the key before a run: a run must not fail at its end for a
// mistyped passphrase. Nil: the run is not to be signed.
func (o hammerOutputs) signing(ctx context.Context) (*keys.Signing, error) {
	if !o.Sign {
		return nil, nil
	}
	node := telemetry.DescribeNode().ID
	if o.Resume != "" {
		run, err := journal.Open(o.Resume)
		if err != nil {
			return nil, err
		}
		node = run.Manifest().Node.ID
	}
	s, err := keys.OpenSigning(ctx, o.SignKey, keys.ProcessSecrets(), node)
	if err != nil {
		return nil, fmt.Errorf("--sign: %w", err)
	}
	return s, nil
}

// signRunDir signs the run that has ended, or says that an old signature does
// not fit it any more. It gives the records for an outbox.
func signRunDir(ctx context.Context, s *keys.Signing, o hammerOutputs, dir string, p *cli.Progress) ([]ledger.Record, error) {
	if s == nil {
		if _, err := os.Lstat(filepath.Join(dir, ledger.BenchmarkFile)); err == nil {
			p.Say("note: the run was signed before it went on: its statements do not fit it any more; assay ledger sign --replace %s signs it again", dir)
		}
		return nil, nil
	}
	// What was signed of a run before it was resumed is out of date, receipts too.
	// A run that was interrupted is signed too.
	records, err := s.Sign(context.WithoutCancel(ctx), dir, o.Resume != "")
	if err != nil {
		return nil, err
	}
	p.Say("signed by %s", s.Key)
	return records, nil
}
