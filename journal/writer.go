package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/disk"
)

// flushEvery is how often what was recorded is given to the operating system:
// half of the second that a kill may cost.
const flushEvery = 500 * time.Millisecond

// Writer records a run. Its methods may be called from any goroutine.
//
// An error of writing, such as a full disk, stays: the file that had it takes
// no more lines, every later call that concerns it returns the error, and so
// does Close. The other files still take theirs, so that an event can say what
// happened.
type Writer struct {
	dir      string
	files    [len(appended)]*appender // as in appended
	lines    sync.Pool                // *[]byte, to encode outside the lock
	recorded ids                      // of a resumed run; nil otherwise

	replace sync.Mutex // one replacement of a file at a time

	stop, done chan struct{}
	once       sync.Once
	closeErr   error
}

const (
	requests = iota
	telemetry
	checks
	events
)

// Create makes a run directory, and writes run.json first. It refuses a
// directory that is not empty. An empty Format of the manifest is filled in.
func Create(dir string, m assay.Manifest) (*Writer, error) {
	if m.Format == "" {
		m.Format = assay.RunFormat
	}
	if m.Format != assay.RunFormat {
		return nil, fmt.Errorf("create run %s: this version writes %s, not %s", dir, assay.RunFormat, m.Format)
	}
	if m.Node.GPUs == nil {
		m.Node.GPUs = []assay.GPU{}
	}
	// A file system that cannot sync a directory has done what it can.
	if err := disk.MkdirAll(dir, 0o755); err != nil && !errors.Is(err, disk.ErrUnsynced) {
		return nil, fmt.Errorf("create run: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("create run: %w", err)
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("create run %s: %w", dir, ErrNotEmpty)
	}
	w, err := open(dir, os.O_EXCL)
	if err != nil {
		return nil, fmt.Errorf("create run %s: %w", dir, err)
	}
	if err := w.put(RunFile, m, true); err != nil {
		return nil, errors.Join(fmt.Errorf("create run %s: %w", dir, err), w.Close())
	}
	return w, nil
}

// open opens the appended files, the first of which carries the lock. What a link
// in their place leads to is not written to.
func open(dir string, flag int) (*Writer, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	w := &Writer{dir: dir, stop: make(chan struct{}), done: make(chan struct{})}
	w.lines.New = func() any { b := make([]byte, 0, 4096); return &b }
	wake := make(chan struct{}, 1)
	fail := func(err error) (*Writer, error) {
		for _, a := range w.files {
			if a != nil {
				_ = a.f.Close() // nothing was written
			}
		}
		return nil, err
	}
	for i, name := range appended {
		f, err := disk.Open(root, name, os.O_WRONLY|os.O_APPEND|os.O_CREATE|flag, 0o644)
		if err != nil {
			return fail(err)
		}
		w.files[i] = &appender{name: name, f: f, wake: wake}
		if i == 0 {
			if w.files[i].f, err = lock(f); err != nil {
				return fail(err)
			}
		}
		info, err := f.Stat()
		if err != nil {
			return fail(err)
		}
		w.files[i].size = info.Size()
	}
	go w.flusher(wake)
	return w, nil
}

// lock takes the run for this process until the file that it gives is closed or
// the process ends, however it ends, so that a killed run is never locked. Where
// there are no locks nothing keeps two processes from writing one run.
func lock(f *os.File) (file, error) {
	free, err := disk.LockProbed(f)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return f, nil
	case err == nil && !free:
		err = ErrInUse
	}
	if err != nil {
		return f, err
	}
	return locked{f}, nil
}

// locked is a file whose lock ends when it is closed, whoever inherited it.
type locked struct{ *os.File }

func (l locked) Close() error { return disk.Unlock(l.File) }

// flusher runs until Close. It keeps no error: an appender does.
func (w *Writer) flusher(wake <-chan struct{}) {
	defer close(w.done)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-wake:
		case <-tick.C:
		}
		_ = w.Flush()
	}
}

// Request records a request. On a resumed run, one that is recorded already is
// refused with ErrRecorded.
func (w *Writer) Request(r *assay.Request) error {
	if w.recorded.has(r.ID) {
		return fmt.Errorf("request %s: %w", r.ID, ErrRecorded)
	}
	b := w.lines.Get().(*[]byte)
	line := append(AppendRequest((*b)[:0], r), '\n')
	err := w.line(requests, line)
	if cap(line) <= 1<<20 { // one huge line must not stay for ever
		*b = line
	}
	w.lines.Put(b)
	return err
}

// Reading records a reading.
func (w *Writer) Reading(r assay.Reading) error { return w.value(telemetry, r) }

// Check records what was verified.
func (w *Writer) Check(c assay.Check) error { return w.value(checks, c) }

// Event records an event. The end of a stage is also brought to the disk.
func (w *Writer) Event(e assay.Event) error {
	if err := w.value(events, e); err != nil {
		return err
	}
	if e.Kind == assay.EventStageEnded {
		return w.Sync()
	}
	return nil
}

func (w *Writer) value(file int, v any) error {
	line, err := marshal(v, "")
	if err != nil {
		return fmt.Errorf("encode a line of %s: %w", appended[file], err)
	}
	return w.line(file, line)
}

func (w *Writer) line(file int, line []byte) error {
	if len(line)-1 > MaxLine {
		return fmt.Errorf("%s: a line of %d bytes is longer than the %d that can be read again", appended[file], len(line)-1, MaxLine)
	}
	return w.files[file].append(line)
}

// Checkpoint replaces checkpoint.json, after everything recorded before has
// been given to the operating system. It fills in Offsets.
func (w *Writer) Checkpoint(c assay.Checkpoint) error {
	c.Offsets = map[string]int64{}
	var errs []error
	for _, a := range w.files {
		size, err := a.flush()
		c.Offsets[a.name] = size
		errs = append(errs, err)
	}
	return errors.Join(append(errs, w.put(CheckpointFile, c, c.Status != assay.StatusRunning))...)
}

// Summary writes summary.json, the last of a run's files.
func (w *Writer) Summary(s *assay.Summary) error { return w.put(SummaryFile, s, true) }

// Health writes health.json, which is made from the summary.
func (w *Writer) Health(h *assay.Health) error { return w.put(HealthFile, h, true) }

// put replaces a file as a whole: a reader sees the old one or the new one.
func (w *Writer) put(name string, v any, sync bool) error {
	indent := "  "
	if name == CheckpointFile {
		indent = ""
	}
	b, err := marshal(v, indent)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	w.replace.Lock()
	defer w.replace.Unlock()
	path := filepath.Join(w.dir, name)
	put := disk.Swap
	if sync {
		put = disk.Replace
	}
	// A file system that cannot sync a directory has done what it can.
	if err := put(path, 0o644, disk.Bytes(b)); err != nil && !errors.Is(err, disk.ErrUnsynced) {
		return err
	}
	return nil
}

// marshal writes JSON and a newline, with <, > and & as they are: nothing here
// goes into a web page unescaped.
func marshal(v any, indent string) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// Flush gives everything recorded so far to the operating system: a kill of
// this process cannot take it any more.
func (w *Writer) Flush() error {
	var errs []error
	for _, a := range w.files {
		_, err := a.flush()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Sync is Flush, and waits until the disk has it.
func (w *Writer) Sync() error {
	var errs []error
	for _, a := range w.files {
		errs = append(errs, a.sync())
	}
	return errors.Join(errs...)
}

// Close writes what is left to the disk and lets go of the run. It returns the
// first error that each file ever had. Closing again returns the same.
func (w *Writer) Close() error {
	w.once.Do(func() {
		close(w.stop)
		<-w.done
		var errs []error
		// The lock goes with the first file, so that one is closed last.
		for i := len(w.files) - 1; i >= 0; i-- {
			errs = append(errs, w.files[i].close())
		}
		w.closeErr = errors.Join(errs...)
	})
	return w.closeErr
}
