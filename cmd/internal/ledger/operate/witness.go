package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	fnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/witness"
)

type witnessFlags struct {
	key               keys.SignerFlags
	listen            cli.Listener
	dir, name, policy string
	logs              []string
	create            bool
}

func newLedgerWitness() *cobra.Command {
	var f witnessFlags
	cmd := &cobra.Command{
		Use:   "witness",
		Short: "Cosign the checkpoints of logs that only grow",
		Long: `Witness answers POST /add-checkpoint as C2SP tlog-witness says: it cosigns a log's
checkpoint when a proof shows that the log has grown from the last one that it
signed. A fork or a log that shrank is refused and said aloud; the checkpoints of
a fork are kept in the directory, as evidence against the log's key.

The directory is the witness's memory and belongs to its key: never start a
witness from an old copy of it, and never run two with one key. It is made once,
by --new; a witness whose directory or whose checkpoint of a log is gone does not
start, for it would sign a second history.

A witness that the log's own operator runs proves little. Run one for somebody
else's log, and ask them to run one for yours.`,
		Example: `  assay ledger keygen witness --kind witness --name witness.example.org/w1
  assay ledger witness --dir witness-state --key witness.key --name witness.example.org/w1 --policy policy.txt --new
  assay ledger witness --dir witness-state --key witness.key --name witness.example.org/w1 --policy policy.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), keys.ProcessSecrets(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.dir, "dir", "", "the witness's `directory`: what it has signed (needed)")
	fs.BoolVar(&f.create, "new", false, "make the directory of a key that has never signed, and end")
	fs.StringVar(&f.name, "name", "", "the witness's name, as its key was made with (needed)")
	f.key.Register(fs, "key")
	fs.StringArrayVar(&f.logs, "log", nil, "a log's verifier `key`, NAME+HASH+KEY; may be repeated")
	fs.StringVar(&f.policy, "policy", "", "`file` whose log lines name the logs")
	f.listen.Register(fs, "127.0.0.1:8081", "answer on this ")
	return cmd
}

func (f *witnessFlags) run(ctx context.Context, s keys.Secrets, stderr io.Writer) error {
	switch {
	case f.dir == "":
		return errors.New("--dir: name the directory that remembers what was signed")
	case f.name == "" || f.key.Key == "":
		return errors.New("--name and --key: say who signs; `assay ledger keygen FILE --kind witness --name NAME` makes a key")
	}
	if err := f.listen.Check(); err != nil {
		return err // before anybody is asked for a passphrase
	}
	logs, err := f.verifiers()
	if err != nil {
		return err
	}
	key, err := f.key.OpenNote(ctx, s)
	if err != nil {
		return err
	}
	return f.serve(ctx, key, logs, s.Now, stderr)
}

func (f *witnessFlags) serve(ctx context.Context, key ledger.Signer, logs []note.Verifier, now func() time.Time, stderr io.Writer) error {
	// Requests under way are answered after the context has ended.
	signer, err := ledger.CosignatureSigner(context.WithoutCancel(ctx), f.name, key, now)
	if err != nil {
		return err
	}
	vkey := ledger.CosignatureVerifierKey(f.name, key.Public())
	verifier, err := fnote.NewVerifierForCosignatureV1(vkey)
	if err != nil {
		return fmt.Errorf("the witness's own key: %w", err)
	}
	o := witness.Options{
		Dir: f.dir, Signer: signer, Verifier: verifier, Logs: logs, Now: now,
		Log: cli.Log(ctx),
	}
	if f.create {
		if err := witness.Create(o); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "made %s; start the witness without --new\n", f.dir)
		return nil
	}
	w, err := witness.New(o)
	if err != nil {
		return err
	}
	ln, err := f.listen.Open(ctx)
	if err != nil {
		return errors.Join(err, w.Close())
	}
	for _, l := range logs {
		fmt.Fprintf(stderr, "watching %s\n", l.Name())
	}
	fmt.Fprintf(stderr, "listening on %s; a policy's line for this witness:\nwitness NAME %s %s\n", ln.URL, vkey, ln.URL)
	return errors.Join(ln.Serve(ctx, w), w.Close())
}

// verifiers are the keys of the logs that the flags name.
func (f *witnessFlags) verifiers() ([]note.Verifier, error) {
	var out []note.Verifier
	for _, vkey := range f.logs {
		v, err := note.NewVerifier(vkey)
		if err != nil {
			return nil, fmt.Errorf("--log %.80q: not a log's verifier key, NAME+HASH+KEY, as assay ledger keygen --kind log prints it: %w", vkey, err)
		}
		out = append(out, v)
	}
	if f.policy != "" {
		b, err := os.ReadFile(f.policy)
		if err != nil {
			return nil, fmt.Errorf("read --policy: %w", err)
		}
		p, err := ledger.ParsePolicy(b)
		if err != nil {
			return nil, fmt.Errorf("--policy %s: %w", f.policy, err)
		}
		out = append(out, p.LogVerifiers()...)
	}
	if len(out) == 0 {
		return nil, errors.New("which log? give --log VKEY, or --policy FILE")
	}
	return out, nil
}
