package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/disk"
)

// Run is a run directory, as it was when it was opened. It holds no file open.
type Run struct {
	dir        string
	manifest   assay.Manifest
	checkpoint *assay.Checkpoint
	whole      [len(appended)]int64 // length of each file in whole lines
	torn       []string
	locked     bool
}

// maxDocument bounds the files that are read as a whole.
const maxDocument = 256 << 20

// Open opens a run directory to be read; the run may still be under way. It
// fails when there is no run.json, or when that is of a format which this
// version does not know. Everything else can be missing.
func Open(dir string) (*Run, error) {
	r := &Run{dir: dir}
	if err := r.document(RunFile, &r.manifest); err != nil {
		if errors.Is(err, ErrNone) {
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("open run: there is no directory %s: %w", dir, fs.ErrNotExist)
			}
			return nil, fmt.Errorf("open run %s: it has no %s, so it is not a run directory: %w", dir, RunFile, fs.ErrNotExist)
		}
		return nil, fmt.Errorf("open run %s: %w", dir, err)
	}
	if r.manifest.Format != assay.RunFormat {
		return nil, fmt.Errorf("open run %s: its format is %q; this version reads %s", dir, r.manifest.Format, assay.RunFormat)
	}
	if f, err := os.Open(r.path(RequestsFile)); err == nil {
		// Where there are no locks, a run under way reads as partial.
		r.locked, _ = disk.Locked(f)
		_ = f.Close()
	}
	// The checkpoint is read before the files, which only grow: what it covers
	// is then there, unless it was lost.
	var c assay.Checkpoint
	switch err := r.document(CheckpointFile, &c); {
	case err == nil:
		r.checkpoint = &c
	case !errors.Is(err, ErrNone):
		r.torn = append(r.torn, fmt.Sprintf("%s: cannot be read (%v)", CheckpointFile, err))
	}
	for i, name := range appended {
		whole, size, err := wholeLines(r.path(name))
		if err != nil {
			return nil, fmt.Errorf("open run %s: %w", dir, err)
		}
		r.whole[i] = whole
		if size > whole {
			r.torn = append(r.torn, fmt.Sprintf("%s: the last line is torn, %d bytes dropped", name, size-whole))
		}
		if r.checkpoint != nil && whole < r.checkpoint.Offsets[name] {
			r.torn = append(r.torn, fmt.Sprintf("%s: %d bytes that the checkpoint covers are missing", name, r.checkpoint.Offsets[name]-whole))
		}
	}
	return r, nil
}

func (r *Run) path(name string) string { return filepath.Join(r.dir, name) }

// document reads a file that is one JSON value; ErrNone when it is not there.
func (r *Run) document(name string, v any) error {
	f, err := os.Open(r.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", name, ErrNone)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := readAll(f, maxDocument)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	// The newline is the last byte written: without it the file is not whole.
	if len(b) == 0 || b[len(b)-1] != '\n' {
		return fmt.Errorf("%s: it was cut off after %d bytes", name, len(b))
	}
	if err := decode(b, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// readAll reads a file whose length is known about, so that it is not held twice.
func readAll(f *os.File, most int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := bytes.NewBuffer(make([]byte, 0, min(info.Size(), most)+bytes.MinRead))
	_, err = b.ReadFrom(io.LimitReader(f, most))
	return b.Bytes(), err
}

// Dir is the directory.
func (r *Run) Dir() string { return r.dir }

// Manifest is what run.json says.
func (r *Run) Manifest() assay.Manifest { return r.manifest }

// Torn names what was dropped or is missing: a torn last line, bytes that the
// checkpoint covers and the file lacks, an unreadable checkpoint. It is empty
// for a run that was written to its end, and for one under way that was flushed.
func (r *Run) Torn() []string { return r.torn }

// Status is running while a process writes the run; complete when the last
// checkpoint says so, nothing is torn and there is a complete summary; and
// partial otherwise.
func (r *Run) Status() assay.Status {
	if r.locked && (r.checkpoint == nil || r.checkpoint.Status == assay.StatusRunning) {
		return assay.StatusRunning
	}
	if r.checkpoint == nil || r.checkpoint.Status != assay.StatusComplete || len(r.torn) > 0 {
		return assay.StatusPartial
	}
	if s, err := r.Summary(); err != nil || s.Status != assay.StatusComplete {
		return assay.StatusPartial
	}
	return assay.StatusComplete
}

// Checkpoint is the last one; ErrNone when there is none that can be read.
func (r *Run) Checkpoint() (assay.Checkpoint, error) {
	if r.checkpoint == nil {
		return assay.Checkpoint{}, fmt.Errorf("%s: %w", CheckpointFile, ErrNone)
	}
	return *r.checkpoint, nil
}

// Summary is what summary.json says; ErrNone when there is none.
func (r *Run) Summary() (*assay.Summary, error) {
	var s assay.Summary
	if err := r.document(SummaryFile, &s); err != nil {
		return nil, err
	}
	return &s, nil
}

// Health is what health.json says; ErrNone when there is none.
func (r *Run) Health() (*assay.Health, error) {
	var h assay.Health
	if err := r.document(HealthFile, &h); err != nil {
		return nil, err
	}
	return &h, nil
}

var errNoID = errors.New("a request without an id")

// Requests gives the requests in the order in which they were recorded. A
// Request and what it points to are valid until the next one: copy what you
// keep. After an error, which is a *[LineError] for a broken line, there is
// nothing more.
func (r *Run) Requests() iter.Seq2[*assay.Request, error] {
	return func(yield func(*assay.Request, error) bool) {
		var d decoder
		for n, l := range lines(r.path(RequestsFile), RequestsFile, r.whole[requests]) {
			if l.err != nil {
				yield(nil, l.err)
				return
			}
			req, err := d.decode(l.line)
			if err == nil && req.ID == "" {
				err = errNoID
			}
			if err != nil {
				yield(nil, &LineError{RequestsFile, n, err})
				return
			}
			if !yield(req, nil) {
				return
			}
		}
	}
}

// Readings gives the lines of telemetry.jsonl.
func (r *Run) Readings() iter.Seq2[*assay.Reading, error] {
	return each[assay.Reading](r.path(TelemetryFile), TelemetryFile, r.whole[telemetry])
}

// Checks gives the lines of checks.jsonl.
func (r *Run) Checks() iter.Seq2[*assay.Check, error] {
	return each[assay.Check](r.path(ChecksFile), ChecksFile, r.whole[checks])
}

// Events gives the lines of events.jsonl.
func (r *Run) Events() iter.Seq2[*assay.Event, error] {
	return each[assay.Event](r.path(EventsFile), EventsFile, r.whole[events])
}
