package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/brokers"
	"github.com/assay-bench/assay/cmd/internal/cli/publish"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/kafka"
)

// kafkaOutlet lets a node's commands deliver to Kafka.
type kafkaOutlet struct{ brokers.Flags }

func (o *kafkaOutlet) Open() (publish.SinkCloser, error) {
	c, err := o.Config()
	if err != nil {
		return nil, err
	}
	return kafka.NewSink(c)
}

type publishFlags struct {
	kafkaOutlet
	outbox string
	wait   time.Duration
	quiet  bool
}

func (f *publishFlags) add(fs *pflag.FlagSet) {
	fs.SortFlags = false
	f.Register(fs)
	fs.StringVar(&f.outbox, "outbox", "", "`directory` of the outbox (default ~/.local/state/assay/outbox)")
	fs.DurationVar(&f.wait, "deliver-timeout", time.Minute, "how long to wait until everything is acknowledged")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "print errors only")
}

func newLedgerFlush() *cobra.Command {
	var f publishFlags
	cmd := &cobra.Command{
		Use:   "flush",
		Short: "Deliver what waits in this node's outbox",
		Long: `Flush delivers the records that earlier commands could not, also those of
processes that died.

Exit codes: 0 the outbox is empty; 1 used wrongly; 2 records still wait.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), nil, cmd.ErrOrStderr())
		},
	}
	f.add(cmd.Flags())
	return cmd
}

func newLedgerPublish() *cobra.Command {
	var f publishFlags
	cmd := &cobra.Command{
		Use:   "publish (DIR | FILE)...",
		Short: "Send signed statements to Kafka: runs, operations, keys, revocations",
		Long: `Publish sends the signed statements of a directory (a run, or what verify --out
wrote), or single envelopes such as those that certify and revoke make, through
this node's outbox.

Sending a statement twice does no harm: it has an id, and is logged once.

Exit codes: 0 everything was acknowledged; 1 used wrongly, or a file is no signed
statement; 2 records wait in the outbox.`,
		Args: cli.Takes(1, cli.Any, "run directories or signed statements"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var records []ledger.Record
			for _, a := range args {
				r, err := statements(a)
				if err != nil {
					return err
				}
				records = append(records, r...)
			}
			return f.run(cmd.Context(), records, cmd.ErrOrStderr())
		},
	}
	f.add(cmd.Flags())
	return cmd
}

// statements reads the envelope that a file is, or those of a signed directory.
func statements(path string) ([]ledger.Record, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	files := []string{path}
	if info.IsDir() {
		// The key first: a notary must know it before it sees what it signed.
		files = nil
		for _, name := range append([]string{ledger.KeyFile}, ledger.StatementFiles(path)...) {
			files = append(files, filepath.Join(path, name))
		}
	}
	var out []ledger.Record
	for _, file := range files {
		b, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) && info.IsDir() {
			return nil, fmt.Errorf("%s is not signed: %s is missing; assay ledger sign %s", path, filepath.Base(file), path)
		} else if err != nil {
			return nil, err
		}
		r, err := ledger.RecordOf(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if filepath.Base(file) == ledger.KeyFile && info.IsDir() {
			if k, err := ledger.ParseKey(b); err == nil && k.SignedBy == k.ID {
				continue // a log does not take a key's own word
			}
		}
		out = append(out, r)
	}
	return out, nil
}

func (f *publishFlags) run(ctx context.Context, records []ledger.Record, stderr io.Writer) error {
	sink, err := f.Open()
	if err != nil {
		return err
	}
	defer sink.Close()
	box, err := publish.OpenOutbox(f.outbox)
	if err != nil {
		return err
	}
	defer box.Close()
	if len(records) > 0 {
		if err := box.Add(ctx, records...); err != nil {
			return cli.Unknown(err)
		}
	}
	p := cli.NewProgress(stderr, f.quiet)
	if err := publish.Deliver(ctx, box, sink, f.wait, p.Log(ctx)); err != nil {
		return cli.Unknown(err)
	}
	p.Say("everything is delivered")
	return nil
}
