package notary

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Reason is why a record was not logged, as a word for machines. The words stay
// what they are: they are labels of a metric.
type Reason string

// Reasons.
const (
	ReasonRecord    Reason = "record"    // not a record of ours: headers, kind, size
	ReasonTime      Reason = "time"      // the broker gave it no time
	ReasonEnvelope  Reason = "envelope"  // no envelope, or not in our spelling
	ReasonStatement Reason = "statement" // what is signed is no statement that is known
	ReasonID        Reason = "id"        // the header has another id than the statement
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
	r := refusal{in.Topic, in.Partition, in.Offset, in.Time.UTC(), "", reason, clip(why.Error())}
	if in.Record.ID.Time() != 0 {
		r.ID = in.Record.ID.String()
	}
	if y := r.Time.Year(); y < 0 || y > 9999 {
		r.Time = time.Time{} // not a time that JSON can have
	}
	return r
}

func clip(s string) string {
	if len(s) > maxWhy {
		s = s[:maxWhy] + "…"
	}
	return strings.ToValidUTF8(s, "?")
}

// refusals is the file of what was not logged. Lines are appended in whole
// writes; a line that a crash tore is ended before the next one.
type refusals struct {
	f     *os.File
	buf   []byte
	dirty bool
}

func openRefusals(dir string) (*refusals, error) {
	f, err := os.OpenFile(filepath.Join(dir, "refused.jsonl"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWrite, err)
	}
	r := &refusals{f: f}
	st, err := f.Stat()
	if err == nil && st.Size() > 0 {
		last := make([]byte, 1)
		if _, err = f.ReadAt(last, st.Size()-1); err == nil && last[0] != '\n' {
			r.buf, r.dirty = append(r.buf, '\n'), true
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read refused.jsonl: %w", err), f.Close())
	}
	return r, nil
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
	if _, err := r.f.Write(r.buf); err != nil {
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
