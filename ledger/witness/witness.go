// Package witness cosigns the checkpoints of logs (C2SP tlog-witness): it
// remembers the last checkpoint of each log that it signed, and signs the next
// one only with a proof that the log has grown from there.
//
// What it promises: for one log it never signs two histories and never an older
// tree after a newer one, over crashes and full disks too. What it signs is on
// disk, synced, before anybody gets the signature, and the time in its
// signatures never goes back.
//
// What it refuses: logs that it was not told of, a proof that does not fit, a
// second process in its directory, and to forget: a directory without its memory
// is not begun anew unless somebody says so (Create). A fork is said aloud, and both
// checkpoints are kept: together they convict the log's key.
//
// What it cannot know is whether the entries are true. A witness that the log's
// own operator runs proves little: its key and its memory lie in the same hands.
package witness

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-bench/assay/internal/disk"
)

// Options say whose log is witnessed, and by whom.
type Options struct {
	// Dir holds what was signed. It belongs to one witness key, and to one
	// process at a time.
	Dir string
	// Signer makes cosignatures: type 4 of the note format, a time and a
	// signature.
	Signer note.Signer
	// Verifier checks what Signer made, now and when it is read back. Nil: the
	// signatures are taken as they are.
	Verifier note.Verifier
	// Logs are the keys of logs. The name of a key is the log's origin; a log
	// that changes its key has two of one name.
	Logs []note.Verifier
	// Now is the clock that Signer goes by. Nil: time.Now.
	Now func() time.Time
	// Log has what a person should know: a fork, a log that shrank, a disk that
	// is full. Nil: nobody is told.
	Log *slog.Logger
}

// Witness answers POST /add-checkpoint, GET /healthz and GET /metrics.
type Witness struct {
	o    Options
	lock *os.File
	logs map[string]*log // by origin; fixed after New
	mux  *http.ServeMux

	mu     sync.Mutex
	memory memory
	sick   map[string]error // by origin: why its last checkpoint was not signed, when that is our own fault
	m      counters
}

// log is one log's place in a witness. Its lock makes the comparison with the
// last checkpoint and its replacement one step.
type log struct {
	origin string
	dir    string
	keys   []note.Verifier

	mu   sync.Mutex
	last state
	said map[string]*speech
}

// Errors of New that a caller may want to tell apart.
var (
	// ErrInUse: another process has the directory. One key in two processes
	// with one memory each could sign a fork.
	ErrInUse = errors.New("another witness is at work in this directory")
	// ErrState: what lies in the directory is not what this witness wrote.
	// Starting without it would let the log begin anew, so it is not passed over.
	ErrState = errors.New("the witness's memory of a log does not fit")
	// ErrNotBegun: the directory has no memory of any witness. Find the one that has,
	// or Create one for a key that has never signed.
	ErrNotBegun = errors.New("no witness was begun in this directory")
	// ErrBegun: Create was called where a witness is. Open it by New.
	ErrBegun = errors.New("a witness was begun in this directory already")
)

// New takes the directory and reads what was signed before.
func New(o Options) (*Witness, error) {
	lock, err := o.take()
	if err != nil {
		return nil, err
	}
	w := &Witness{o: o, lock: lock, logs: map[string]*log{}, sick: map[string]error{}}
	if err := w.open(); err != nil {
		_ = disk.Unlock(lock) // the error that is returned matters more
		return nil, err
	}
	w.begin()
	w.mux = http.NewServeMux()
	w.mux.HandleFunc("POST /add-checkpoint", w.addCheckpoint)
	w.mux.HandleFunc("GET /healthz", w.healthz)
	w.mux.HandleFunc("GET /metrics", w.serveMetrics)
	return w, nil
}

// take fills what was left out and locks the directory, which is made if need be.
func (o *Options) take() (*os.File, error) {
	switch {
	case o.Dir == "":
		return nil, errors.New("witness: no directory was given")
	case o.Signer == nil:
		return nil, errors.New("witness: no key was given to sign with")
	case len(o.Logs) == 0:
		return nil, errors.New("witness: no log was given to watch: name its verifier key")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the witness's directory: %w", err)
	}
	lock, err := disk.Lock(filepath.Join(o.Dir, "lock"))
	if errors.Is(err, disk.ErrLocked) {
		err = fmt.Errorf("%w: %w", ErrInUse, err)
	}
	return lock, err
}

func (w *Witness) open() (err error) {
	if w.memory, err = readMemory(w.o); err != nil {
		return err
	}
	for _, v := range w.o.Logs {
		l := w.logs[v.Name()]
		if l == nil {
			id := sha256.Sum256([]byte(v.Name()))
			l = &log{
				origin: v.Name(),
				dir:    filepath.Join(w.o.Dir, "logs", hex.EncodeToString(id[:16])),
				said:   map[string]*speech{},
			}
			w.logs[v.Name()] = l
		}
		l.keys = append(l.keys, v)
	}
	for _, l := range w.logs {
		if err := disk.MkdirAll(l.dir, 0o700); err != nil {
			return fmt.Errorf("make the directory of log %s: %w", l.origin, err)
		}
		if l.last, err = w.load(l); err != nil {
			return err
		}
		if l.last.raw != nil { // it may have died between the two files
			if err := w.signed(l.origin); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close gives the directory back. Requests must have ended.
func (w *Witness) Close() error { return disk.Unlock(w.lock) }

// ServeHTTP answers as C2SP tlog-witness says.
func (w *Witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) { w.mux.ServeHTTP(rw, r) }

// healthz answers 503 while the last attempt to sign for some log failed by our
// own fault: a disk, a key, a clock. A log's fault is not ours.
func (w *Witness) healthz(rw http.ResponseWriter, _ *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for origin, err := range w.sick {
		http.Error(rw, fmt.Sprintf("log %s: %v", origin, err), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(rw, "ok")
}
