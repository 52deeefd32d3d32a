package decide

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/network/evidence"
	"github.com/assay-bench/assay/network/store"
	"github.com/assay-bench/assay/summary"
)

// Bounds of a run that is read as a whole.
const (
	maxDocument = 16 << 20
	maxChecks   = 10_000
	maxStages   = 300
	maxGPUs     = 256
)

// errUnreadable marks evidence of which nothing can be known, however often it is
// read: its report is unknown. Any other error is ours, and is tried again.
var errUnreadable = errors.New("the evidence cannot be judged")

func unreadable(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errUnreadable, fmt.Errorf(format, args...))
}

// evidenceFiles are those that are read. What a node derived from them is not: the
// server derives it anew.
var evidenceFiles = []string{journal.RunFile, journal.RequestsFile, journal.TelemetryFile, journal.ChecksFile, journal.EventsFile, journal.CheckpointFile}

// reading is a run as the server sees it.
type reading struct {
	manifest assay.Manifest // without what its node wants to be judged by
	summary  assay.Summary
	checks   []assay.Check
	share    summary.Share // of a joint result with others
}

// readRun fetches the evidence of a report and summarises it.
func (d *Decider) readRun(outer context.Context, r store.Report) (out reading, err error) {
	ctx, cancel := context.WithTimeoutCause(outer, d.o.Limits.Time, unreadable("reading it takes longer than %s", d.o.Limits.Time))
	defer cancel()
	dir, err := os.MkdirTemp(d.o.Scratch, "assay-report-")
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err = d.fetch(ctx, r, dir); err == nil {
		out, err = d.reduce(ctx, r, dir)
	}
	switch {
	case err == nil:
		return out, nil
	case outer.Err() != nil:
		return out, outer.Err() // we are about to end; it says nothing about the evidence
	case ctx.Err() != nil:
		return out, context.Cause(ctx)
	}
	return out, err
}

// fetch writes the files of a report into a directory. They are those that the
// node's statement names, with the hashes that were signed.
func (d *Decider) fetch(ctx context.Context, r store.Report, dir string) error {
	signed, err := d.signedFiles(ctx, r)
	if err != nil {
		return err
	}
	left := d.o.Limits.Bytes
	announced := map[string]store.File{}
	for _, f := range r.Files {
		announced[f.Name] = f
	}
	for _, name := range evidenceFiles {
		f, ok := announced[name]
		sum, isSigned := signed[name]
		switch {
		case !ok && !isSigned:
			continue // a run need not have it
		case !ok:
			return unreadable("%s is signed and was not uploaded", name)
		case sum != f.SHA256:
			return unreadable("%s is not the file that was signed", name)
		case (name == journal.RunFile || name == journal.CheckpointFile) && f.Size > maxDocument:
			return unreadable("%s has %d bytes; at most %d are read", name, f.Size, maxDocument)
		case f.Size > left:
			return unreadable("it has more than %d bytes", d.o.Limits.Bytes)
		}
		left -= f.Size
		if err := d.fetchFile(ctx, filepath.Join(dir, name), evidence.Object{SHA256: f.SHA256, Size: f.Size}); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// signedFiles are the hashes that the node has signed.
func (d *Decider) signedFiles(ctx context.Context, r store.Report) (map[string]string, error) {
	rec, err := d.store.Statement(ctx, everybody, r.Node, r.Statement)
	if errors.Is(err, store.ErrNotFound) {
		return nil, unreadable("its statement %s is not here", foreign.Line(r.Statement, 40))
	}
	if err != nil {
		return nil, err
	}
	e, err := ledger.ReadEnvelope(rec.Bytes)
	if err != nil {
		return nil, unreadable("%w", err)
	}
	s, st, err := ledger.ParseStatement(e.Payload)
	switch {
	case err != nil:
		return nil, unreadable("%w", err)
	case st.Node != r.Node:
		return nil, unreadable("its statement is of the node %q", foreign.Line(st.Node, 60))
	case s.PredicateType != ledger.GPUBenchmark && s.PredicateType != ledger.TestResult:
		return nil, unreadable("its statement is not about a run")
	}
	out := map[string]string{}
	for _, sub := range s.Subject {
		out[sub.Name] = sub.Digest["sha256"]
	}
	return out, nil
}

// fetchFile copies an object. The reader compares its hash; what is not whole or
// not the same is never looked at.
func (d *Decider) fetchFile(ctx context.Context, path string, o evidence.Object) error {
	from, err := d.o.Evidence.Open(ctx, o)
	if err != nil {
		return permanent(err)
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(to, &untilDone{ctx, io.LimitReader(from, o.Size+1)})
	if err := errors.Join(permanent(err), to.Close()); err != nil {
		return err
	}
	if n != o.Size {
		return unreadable("it has %d bytes, not %d", n, o.Size)
	}
	return nil
}

// permanent marks errors that no second try makes good.
func permanent(err error) error {
	if errors.Is(err, evidence.ErrAbsent) || errors.Is(err, evidence.ErrDamaged) || errors.Is(err, evidence.ErrObject) {
		return unreadable("%w", err)
	}
	return err
}

// untilDone reads while ctx lasts.
type untilDone struct {
	ctx  context.Context
	from io.Reader
}

func (u *untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.from.Read(p)
}

// reduce summarises a run directory that a stranger filled. Whatever it holds, the
// server goes on: a fault of ours in reading it is one report of which nothing is
// known.
func (d *Decider) reduce(ctx context.Context, r store.Report, dir string) (out reading, err error) {
	defer func() {
		if p := recover(); p != nil {
			d.log.Error("reading a report's evidence failed in the program itself; please report it", "report", r.ID, "node", r.Node, "error", fmt.Sprint(p))
			err = unreadable("reading it failed in the program itself")
		}
	}()
	rd, err := journal.Open(dir)
	if err != nil {
		return out, unreadable("%w", err)
	}
	out.manifest = rd.Manifest()
	switch m := out.manifest; {
	case m.Node.ID != r.Node:
		return out, unreadable("it is a run of the node %q", foreign.Line(m.Node.ID, 60))
	case len(m.Node.GPUs) > maxGPUs:
		return out, unreadable("it has %d GPUs; at most %d are looked at", len(m.Node.GPUs), maxGPUs)
	}
	// A node does not choose what it is judged by.
	out.manifest.Judge = assay.Judge{Search: out.manifest.Judge.Search}
	lines := d.o.Limits.Lines
	run := bounded{Run: rd, manifest: out.manifest, ctx: ctx, left: &lines}
	if out.summary, out.share, err = summary.WithShare(run); err != nil {
		return out, unreadable("%w", err)
	}
	if out.checks, err = run.checks(); err != nil {
		return out, unreadable("%w", err)
	}
	return out, nil
}

// bounded is a run whose reading ends with ctx or after so many lines.
type bounded struct {
	*journal.Run
	manifest assay.Manifest
	ctx      context.Context
	left     *int
}

func (b bounded) Manifest() assay.Manifest                   { return b.manifest }
func (b bounded) Requests() iter.Seq2[*assay.Request, error] { return atMost(b, b.Run.Requests()) }

// Events of a run have so many stages at most: each costs time and memory long
// after its line was read.
func (b bounded) Events() iter.Seq2[*assay.Event, error] {
	return distinct(atMost(b, b.Run.Events()), "stages", maxStages, func(e *assay.Event) string { return e.Stage })
}

// Readings of a run are of so many devices at most.
func (b bounded) Readings() iter.Seq2[*assay.Reading, error] {
	return distinct(atMost(b, b.Run.Readings()), "devices", maxGPUs, func(r *assay.Reading) string { return r.Device })
}

// distinct ends with an error when there are more values of something than most.
func distinct[T any](from iter.Seq2[*T, error], what string, most int, of func(*T) string) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		seen := map[string]bool{}
		for v, err := range from {
			if err == nil {
				if seen[of(v)] = true; len(seen) > most+1 { // one for those that are of none
					yield(nil, fmt.Errorf("it has more than %d %s", most, what))
					return
				}
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

// checks are few in a run that is one.
func (b bounded) checks() ([]assay.Check, error) {
	n := 0
	for _, err := range atMost(b, b.Run.Checks()) {
		if err != nil {
			return nil, err
		}
		if n++; n > maxChecks {
			return nil, fmt.Errorf("it has more than %d checks", maxChecks)
		}
	}
	return hammer.Checks(b.Run)
}

func atMost[T any](b bounded, from iter.Seq2[*T, error]) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for v, err := range from {
			switch {
			case b.ctx.Err() != nil:
				yield(nil, context.Cause(b.ctx))
				return
			case *b.left <= 0:
				yield(nil, errors.New("it has more lines than are read"))
				return
			}
			*b.left--
			if !yield(v, err) {
				return
			}
		}
	}
}

// began is when a run began: by its node's word, and not after it was announced
// here.
func began(m assay.Manifest, r store.Report) time.Time {
	t := time.Unix(0, m.Created).UTC()
	if m.Created <= 0 || t.After(r.At) {
		return r.At
	}
	return t
}
