package notary

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/assay-bench/assay/internal/disk"
	"github.com/assay-bench/assay/internal/foreign"
)

// Reason is why a record was not logged, as a word for machines. The words stay
// what they are: they are labels of a metric.
type Reason string

// Reasons.
const (
	ReasonRecord    Reason = "record"    // not a record of ours: headers, kind, size
	ReasonTime      Reason = "time"      // the broker gave it no time
	ReasonClock     Reason = "clock"     // the broker's time and the notary's differ by too much
	ReasonEnvelope  Reason = "envelope"  // no envelope, or not in our spelling
	ReasonStatement Reason = "statement" // what is signed is no statement that is known
	ReasonID        Reason = "id"        // the header has another id than the statement
	ReasonIDUsed    Reason = "id_used"   // the key has signed another statement with the id
	ReasonNode      Reason = "node"      // the record's key is another node than the statement's
	ReasonSchema    Reason = "schema"    // the predicate is not of its shape
	ReasonSignature Reason = "signature" // the signature does not fit
	ReasonKey       Reason = "unknown_key"
	ReasonEarly     Reason = "key_not_yet_valid"
	ReasonExpired   Reason = "key_expired"
	ReasonRevoked   Reason = "key_revoked"
	ReasonOtherNode Reason = "key_of_other_node"
	ReasonRole      Reason = "key_role"
	ReasonKeyring   Reason = "key_statement" // a statement about a key that may not make it
)

// refusal is one line of refused.jsonl.
type refusal struct {
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Time      time.Time `json:"time"` // the broker's
	ID        string    `json:"id,omitempty"`
	Reason    Reason    `json:"reason"`
	Why       string    `json:"why"`
}

// maxWhy bounds what a hostile record can write into the file.
const maxWhy = 400

func newRefusal(in Incoming, reason Reason, why error) refusal {
	r := refusal{in.Topic, in.Partition, in.Offset, in.Time.UTC(), "", reason, foreign.Line(why.Error(), maxWhy)}
	if in.Record.ID.Time() != 0 {
		r.ID = in.Record.ID.String()
	}
	if y := r.Time.Year(); y < 0 || y > 9999 {
		r.Time = time.Time{} // not a time that JSON can have
	}
	return r
}

// MaxRefused is how many files of refusals are kept: refused.jsonl, which is
// written, and refused.1.jsonl to refused.7.jsonl, the highest the oldest. Anybody
// who can reach the topic can have records refused: the files must have an end.
const MaxRefused = 8

// refusals is the file of what was not logged. Lines are appended in whole
// writes; a line that a crash tore is ended before the next one.
type refusals struct {
	dir   string
	f     *os.File
	size  int64
	limit int64 // of size
	buf   []byte
	dirty bool
}

func openRefusals(dir string, limit int64) (*refusals, error) {
	r := &refusals{dir: dir, limit: limit}
	if err := r.open(); err != nil {
		return nil, err
	}
	if r.size == 0 {
		return r, nil
	}
	last := make([]byte, 1)
	if _, err := r.f.ReadAt(last, r.size-1); err != nil {
		return nil, errors.Join(fmt.Errorf("read refused.jsonl: %w", err), r.f.Close())
	}
	if last[0] != '\n' {
		r.buf, r.dirty = append(r.buf, '\n'), true
	}
	return r, nil
}

func (r *refusals) path(k int) string {
	if k == 0 {
		return filepath.Join(r.dir, "refused.jsonl")
	}
	return filepath.Join(r.dir, fmt.Sprintf("refused.%d.jsonl", k))
}

func (r *refusals) open() error {
	f, err := os.OpenFile(r.path(0), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrWrite, err)
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("read refused.jsonl: %w", err), f.Close())
	}
	r.f, r.size = f, info.Size()
	return nil
}

// rotate puts the file aside and begins a new one. The oldest goes.
func (r *refusals) rotate() error {
	err := errors.Join(r.f.Sync(), r.f.Close())
	for k := MaxRefused - 1; k > 0 && err == nil; k-- {
		if err = os.Rename(r.path(k-1), r.path(k)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil {
		err = disk.SyncDir(r.dir)
	}
	if err != nil {
		return fmt.Errorf("%w: put refused.jsonl aside: %w", ErrWrite, err)
	}
	return r.open()
}

func (r *refusals) add(line refusal) {
	b, err := json.Marshal(line)
	if err != nil {
		panic(err) // newRefusal made it fit for JSON
	}
	r.buf, r.dirty = append(append(r.buf, b...), '\n'), true
}

// flush hands the lines to the kernel; sync makes them durable.
func (r *refusals) flush() error {
	if len(r.buf) == 0 {
		return nil
	}
	if r.size > 0 && r.size+int64(len(r.buf)) > r.limit {
		if err := r.rotate(); err != nil {
			return err
		}
	}
	n, err := r.f.Write(r.buf)
	if r.size += int64(n); err != nil {
		return fmt.Errorf("%w: refused.jsonl: %w", ErrWrite, err)
	}
	r.buf = r.buf[:0]
	return nil
}

func (r *refusals) sync() error {
	if err := r.flush(); err != nil {
		return err
	}
	if !r.dirty {
		return nil
	}
	if err := r.f.Sync(); err != nil {
		return fmt.Errorf("%w: refused.jsonl: %w", ErrWrite, err)
	}
	r.dirty = false
	return nil
}
