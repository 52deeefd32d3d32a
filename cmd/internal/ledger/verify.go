package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/cmd/internal/cli/keys"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/ledger"
)

// maxKeysFile bounds a file of statements about keys.
const maxKeysFile = 64 << 20

type ledgerVerifyFlags struct {
	trust, keys []string
	needReceipt bool
	quiet       bool
	keysMaxAge  time.Duration
	nonce       string
	format      string
}

func newLedgerVerify() *cobra.Command {
	var f ledgerVerifyFlags
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Was a run, or a record of operations, altered after it was made, and who says so",
		Long: `Verify answers without a network: signed by whom and whether the key was good
then, which files are as they were signed, in which log at which index, seen by
which witnesses, whether the figures follow from the evidence, and what all of
this does not prove. It takes a run, and what verify --out wrote.

Whom to trust you say: --trust takes statements about keys (NAME.pub, of the
signer or of an authority) and a policy (which logs and witnesses count).

Exit codes: 0 it holds; 1 used wrongly; 2 could not be decided (not signed, nobody
trusted); 3 it does not hold.`,
		Example: `  assay ledger verify runs/20261115-120000 --trust node.pub
  assay ledger verify run --trust authority.pub --trust policy.txt --need-receipt --keys revocations.jsonl`,
		Args: cli.Takes(1, 1, "the directory of a run or of verify --out"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringArrayVar(&f.trust, "trust", nil, "`file` with statements about keys that are trusted, or with a policy; may be given several times")
	fl.StringArrayVar(&f.keys, "keys", nil, "`file` with a snapshot of a log's keys, as assay ledger keys writes it, or statements about keys, one a line; they count if a trusted authority signed them")
	fl.DurationVar(&f.keysMaxAge, "keys-max-age", 0, "no pass without a log's keys that are at most so old, as 24h; 0: any age")
	fl.BoolVar(&f.needReceipt, "need-receipt", false, "no pass without a good receipt of a log for each statement")
	fl.StringVar(&f.nonce, "nonce", "", "the `HEX` that was given for the run: it must carry it")
	cli.FormatFlag(fl, &f.format, "text or json", "text", "json")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "print the result in one line, and nothing else")
	cmd.MarkFlagsMutuallyExclusive("quiet", "format")
	return cmd
}

func (f ledgerVerifyFlags) run(ctx context.Context, dir string, stdout, stderr io.Writer) error {
	if f.format != "text" && f.format != "json" {
		return cli.BadFormat(f.format)
	}
	o := ledger.VerifyOptions{
		NeedReceipt: f.needReceipt, MaxKeysAge: f.keysMaxAge, Nonce: strings.ToLower(f.nonce), Recompute: recompute, Version: cli.Version().Assay,
	}
	if o.Nonce != "" {
		if err := ledger.CheckNonce(o.Nonce); err != nil {
			return fmt.Errorf("--nonce: %w", err)
		}
	}
	var err error
	if o.Keys, o.Policy, err = Trusted(f.trust); err != nil {
		return err
	}
	for _, path := range f.keys {
		if err := f.addKeys(path, &o, stderr); err != nil {
			return err
		}
	}
	verify := ledger.VerifyRun
	if ledger.IsOperations(dir) {
		verify = ledger.VerifyOperations
	}
	v, err := unlessInterrupted(ctx, func() (ledger.Verification, error) { return verify(dir, o) })
	if err != nil {
		return cli.Unknown(err)
	}
	v.TrustFiles = trustFiles(f.trust)
	switch {
	case f.format == "json":
		err = cli.WriteJSON(stdout, v)
	case f.quiet:
		_, err = fmt.Fprintln(stdout, v.Line())
	default:
		err = v.Text(stdout)
	}
	if err != nil {
		return err
	}
	return cli.Judged(v.Verdict, v.Err())
}

// unlessInterrupted ends with the context, whatever the work does: it only reads,
// and files that somebody else made have any length.
func unlessInterrupted[T any](ctx context.Context, work func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		v, err := work()
		done <- answer{v, err}
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("interrupted: %w", ctx.Err())
	}
}

// addKeys takes a snapshot of a log's keys, or a file with one statement a line.
func (f ledgerVerifyFlags) addKeys(path string, o *ledger.VerifyOptions, stderr io.Writer) error {
	b, err := keys.ReadSmall(path, ledger.MaxSnapshot)
	if err != nil {
		return fmt.Errorf("--keys: %w", err)
	}
	statements, err := statementLines(path, b)
	if ledger.IsSnapshot(b) {
		statements, err = snapshotStatements(path, b, o, stderr)
	}
	if err != nil {
		return err
	}
	if err := o.Keys.AddAll(statements...); err != nil {
		fmt.Fprintf(stderr, "note: %s: left out: %s\n", path, foreign.Line(err.Error(), 4<<10))
	}
	return nil
}

func snapshotStatements(path string, b []byte, o *ledger.VerifyOptions, stderr io.Writer) ([]ledger.Logged, error) {
	s, err := ledger.ReadSnapshot(b)
	if err != nil {
		return nil, cli.Failed(fmt.Errorf("--keys %s: %w", path, err))
	}
	if o.Policy == nil {
		fmt.Fprintf(stderr, "note: %s: its log was not judged, and its times do not count: give a policy with --trust\n", path)
		var out []ledger.Logged
		for _, r := range s.Statements {
			out = append(out, ledger.Logged{Envelope: r.Envelope})
		}
		return out, nil
	}
	v, err := o.Policy.VerifySnapshot(s)
	switch {
	case errors.Is(err, ledger.ErrUnknownSigner), errors.Is(err, ledger.ErrQuorum):
		return nil, cli.Unknown(fmt.Errorf("--keys %s: %w", path, err))
	case err != nil:
		return nil, cli.Failed(fmt.Errorf("--keys %s: %w", path, err))
	}
	o.Snapshots = append(o.Snapshots, v)
	return v.Statements, nil
}

// trustFiles says which file each trusted key came from. [Trusted] has read them all,
// and refused what is wrong.
func trustFiles(paths []string) map[string]string {
	out := map[string]string{}
	for _, path := range paths {
		b, err := keys.ReadSmall(path, maxKeysFile)
		if err != nil || !isStatements(b) {
			continue
		}
		for line := range bytes.Lines(b) {
			if k, err := ledger.ParseKey(line); err == nil {
				out[k.ID] = path
			}
		}
	}
	return out
}

// isStatements tells statements about keys from a policy.
func isStatements(b []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")) }

// Trusted reads what a person trusts: statements about keys, and at most one
// policy, told apart by what they hold.
func Trusted(paths []string) (*ledger.Keyring, *ledger.Policy, error) {
	var trusted []ledger.Key
	var policy *ledger.Policy
	for _, path := range paths {
		b, err := keys.ReadSmall(path, maxKeysFile)
		if err != nil {
			return nil, nil, fmt.Errorf("--trust: %w", err)
		}
		if !isStatements(b) {
			p, err := ledger.ParsePolicy(b)
			if err != nil {
				return nil, nil, fmt.Errorf("--trust %s: neither a statement about a key nor a policy: %w", path, err)
			}
			if policy != nil {
				return nil, nil, fmt.Errorf("--trust %s: there is a policy already; put both into one file", path)
			}
			policy = &p
			continue
		}
		for line := range bytes.Lines(b) {
			k, err := ledger.ParseKey(line)
			if err != nil {
				return nil, nil, fmt.Errorf("--trust %s: %w", path, err)
			}
			trusted = append(trusted, k)
		}
	}
	return ledger.NewKeyring(trusted...), policy, nil
}

// statementLines reads a file with one envelope a line, as assay ledger keys
// writes it. Lines that begin with # are for people.
func statementLines(path string, b []byte) ([]ledger.Logged, error) {
	var out []ledger.Logged
	said := false
	for line := range bytes.Lines(b) {
		switch {
		case bytes.HasPrefix(line, []byte("#")):
			said = true
		case len(bytes.TrimSpace(line)) > 0:
			out = append(out, ledger.Logged{Envelope: line})
		}
	}
	if len(out) == 0 && !said {
		return nil, fmt.Errorf("--keys: %s holds no statement", path)
	}
	return out, nil
}
