package operate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/tlog"
)

type proveFlags struct {
	logFlags
	id, output, format string
	index              int64
	wait               time.Duration
}

func newLedgerProve() *cobra.Command {
	var f proveFlags
	cmd := &cobra.Command{
		Use:   "prove [DIR]",
		Short: "Fetch receipts that prove that a run is in the log",
		Long: `Prove fetches the receipt of each signed statement of a run, or of what verify
--out wrote, and writes it beside the statement, as NAME.tlog-proof: with it,
anybody can verify without a network that the statement is in the log. A receipt
is verified before it is written.

Given --id or --index instead of a directory, it prints that entry's receipt, or with
--output NAME writes NAME.tlog-proof and the envelope NAME.dsse.json.

Exit codes: 0 proven; 1 used wrongly; 2 not in the log yet, or the log cannot be
read; 3 what the log gives does not prove it.`,
		Example: `  assay ledger prove runs/20261115-120000 --log https://log.example.org/gpu --policy policy.txt --wait 30s
  assay ledger prove --index 42 --log notary-dir --policy policy.txt --output entry42`,
		Args: cli.Takes(0, 1, "one run directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	f.register(fs)
	fs.StringVar(&f.id, "id", "", "the statement with this `ULID`")
	fs.Int64Var(&f.index, "index", -1, "the entry at this index")
	fs.StringVar(&f.output, "output", "", "with --id or --index: write `NAME`.tlog-proof and NAME.dsse.json")
	fs.DurationVar(&f.wait, "wait", 0, "how long to wait for a statement that is still on its way")
	cli.FormatFlag(fs, &f.format, "text or json", "text", "json")
	return cmd
}

// proven is what --format json prints.
type proven struct {
	ID        string               `json:"id"`
	Index     uint64               `json:"index"`
	Size      uint64               `json:"size"`
	Origin    string               `json:"origin"`
	Witnesses []ledger.Cosignature `json:"witnesses"`
	File      string               `json:"file,omitempty"`
}

func (f *proveFlags) run(ctx context.Context, args []string, stdout io.Writer) error {
	ways := len(args)
	if f.id != "" {
		ways++
	}
	if f.index >= 0 {
		ways++
	}
	if ways != 1 {
		return errors.New("name one of: a signed directory, --id ULID, --index N")
	}
	if err := textOrJSON(f.format); err != nil {
		return err
	}
	src, p, err := f.open()
	if err != nil {
		return err
	}
	defer src.Close()
	x := &prover{src: src, p: p, until: time.Now().Add(f.wait)}
	var done []proven
	if len(args) == 1 {
		done, err = x.proveRun(ctx, args[0])
	} else {
		done, err = f.one(ctx, x, stdout)
	}
	if err != nil {
		return proveOutcome(err)
	}
	if f.format == "json" {
		return cli.WriteJSON(stdout, done)
	}
	if len(args) == 0 && f.output == "" {
		return nil // the receipt is printed
	}
	for _, d := range done {
		fmt.Fprintf(stdout, "%s: entry %d of %d in %s, seen by %d witnesses\n", printable(d.File), d.Index, d.Size, printable(d.Origin), len(d.Witnesses))
	}
	return nil
}

// one proves what --id or --index names.
func (f *proveFlags) one(ctx context.Context, x *prover, stdout io.Writer) ([]proven, error) {
	var r ledger.Receipt
	var envelope []byte
	var c ledger.Checkpoint
	var err error
	if f.id != "" {
		id, perr := ulid.ParseStrict(f.id)
		if perr != nil {
			return nil, usage{fmt.Errorf("--id %s: %w", f.id, perr)}
		}
		r, envelope, c, err = x.byID(ctx, id, "")
	} else {
		if c, err = tlog.Checkpoint(ctx, x.src, x.p); err == nil {
			r, envelope, err = tlog.ProveAt(ctx, x.src, x.p, c, uint64(f.index))
		}
	}
	if err != nil {
		return nil, err
	}
	d := provenBy(r, c, "")
	if f.output != "" {
		d.File = f.output + ".tlog-proof"
		if err := cli.SaveProof(f.output+".dsse.json", envelope); err != nil {
			return nil, usage{err}
		}
		if err := cli.SaveProof(d.File, r.Encode()); err != nil {
			return nil, usage{err}
		}
	} else if f.format == "text" {
		if _, err := stdout.Write(r.Encode()); err != nil {
			return nil, usage{err}
		}
	}
	return []proven{d}, nil
}

type prover struct {
	src   tlog.Source
	p     ledger.Policy
	until time.Time
}

// errOtherEnvelope: the id is in the log with something else.
var errOtherEnvelope = errors.New("the log has another envelope under this id: the one beside the run is not the one that was logged")

func (x *prover) proveRun(ctx context.Context, dir string) ([]proven, error) {
	var done []proven
	for _, file := range ledger.StatementFiles(dir) {
		d, err := x.proveFile(ctx, dir, strings.TrimSuffix(file, ".dsse.json"))
		if err != nil {
			return nil, err
		}
		done = append(done, d)
	}
	return x.proveKey(ctx, dir, done)
}

// proveKey gets the receipt of the statement about the key, too: should who
// certified it be revoked, it shows that this was done before. A log has it
// unless only the key itself says whose it is.
func (x *prover) proveKey(ctx context.Context, dir string, done []proven) ([]proven, error) {
	raw, err := readEnvelopeFile(filepath.Join(dir, ledger.KeyFile))
	if err != nil {
		return done, nil // a run without it is verified with the key's statement from elsewhere
	}
	if k, err := ledger.ParseKey(raw); err != nil || k.SelfSigned() {
		return done, nil // the one is for verify to say, the other is in no log
	}
	x.until = time.Time{} // the run is in the log, and the key came before it
	d, err := x.proveFile(ctx, dir, "key")
	if errors.Is(err, tlog.ErrNotFound) {
		return done, nil
	}
	if err != nil {
		return nil, err
	}
	return append(done, d), nil
}

func (x *prover) proveFile(ctx context.Context, dir, name string) (proven, error) {
	file := filepath.Join(dir, name+".dsse.json")
	raw, err := readEnvelopeFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return proven{}, usage{fmt.Errorf("%w: it is not signed: `assay ledger sign %s` does it", err, dir)}
	}
	if err != nil {
		return proven{}, usage{err}
	}
	e, err := ledger.ReadEnvelope(raw)
	if err != nil {
		return proven{}, cli.Failed(fmt.Errorf("%s: %w", file, err))
	}
	_, stamp, err := ledger.ParseStatement(e.Payload)
	if err != nil {
		return proven{}, cli.Failed(fmt.Errorf("%s: %w", file, err))
	}
	r, envelope, c, err := x.byID(ctx, stamp.ID, e.Signatures[0].KeyID)
	if err != nil {
		return proven{}, fmt.Errorf("%s: %w", file, err)
	}
	if !bytes.Equal(envelope, raw) {
		return proven{}, fmt.Errorf("%s: %w", file, errOtherEnvelope)
	}
	d := provenBy(r, c, filepath.Join(dir, name+".tlog-proof"))
	if err := cli.SaveProof(d.File, r.Encode()); err != nil {
		return proven{}, usage{err}
	}
	return d, nil
}

// byID looks for a statement, of a key if one is named, until the time is up.
func (x *prover) byID(ctx context.Context, id ulid.ULID, keyID string) (r ledger.Receipt, envelope []byte, c ledger.Checkpoint, err error) {
	looked := uint64(0)
	_, err = backoff.Retry(ctx, func() (none struct{}, err error) {
		if c, err = tlog.Checkpoint(ctx, x.src, x.p); err != nil {
			return none, unlessAwaited(err)
		}
		if c.Size <= looked {
			return none, fmt.Errorf("%s: %w", id, tlog.ErrNotFound)
		}
		looked = c.Size // a scan of what was looked at finds nothing new
		index, err := tlog.Find(ctx, x.src, id, keyID, c.Size)
		if err != nil {
			return none, unlessAwaited(err)
		}
		r, envelope, err = tlog.ProveAt(ctx, x.src, x.p, c, index)
		return none, backoff.Permanent(err)
	}, backoff.WithBackOff(backoff.NewConstantBackOff(lookPause)), backoff.WithMaxElapsedTime(max(0, time.Until(x.until))+lookPause))
	return r, envelope, c, err
}

// unlessAwaited makes an error permanent, unless it may be that the log has not
// got that far yet.
func unlessAwaited(err error) error {
	if errors.Is(err, tlog.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return backoff.Permanent(err)
}

// lookPause is between two looks for a statement that is not in the log yet.
const lookPause = 500 * time.Millisecond

func provenBy(r ledger.Receipt, c ledger.Checkpoint, file string) proven {
	w := c.Cosigned
	if w == nil {
		w = []ledger.Cosignature{}
	}
	return proven{ID: r.ID.String(), Index: r.Index, Size: c.Size, Origin: c.Origin, Witnesses: w, File: file}
}

func readEnvelopeFile(file string) ([]byte, error) {
	info, err := os.Lstat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > ledger.MaxValue {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", file, ledger.MaxValue)
	}
	return os.ReadFile(file)
}

// usage is an error of ours or of the command line, whatever it wraps.
type usage struct{ error }

// proveOutcome: what the log says is wrong, or it could not be asked.
func proveOutcome(err error) error {
	var u usage
	switch {
	case errors.As(err, &u):
		return u.error
	case errors.Is(err, ledger.ErrNotInTheLog), errors.Is(err, errOtherEnvelope),
		errors.Is(err, ledger.ErrCheckpointSignature), errors.Is(err, ledger.ErrUnknownSigner), errors.Is(err, ledger.ErrNotTheLog),
		errors.Is(err, ledger.ErrNotCanonical), errors.Is(err, ledger.ErrEnvelope), errors.Is(err, ledger.ErrStatement):
		return cli.Failed(err)
	}
	return cli.Unknown(err)
}
