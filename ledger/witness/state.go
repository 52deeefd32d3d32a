package witness

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
)

// state is the last checkpoint that was signed for a log. Its file is that
// checkpoint as a note, with the log's signature and ours: anybody can check it.
type state struct {
	tree
	time int64  // of our signature, Unix seconds
	raw  []byte // the file; nil when there is none
}

func (l *log) path() string { return filepath.Join(l.dir, "checkpoint") }

// load reads a log's state back. Anything that this witness did not write is an
// error: without its memory a witness would sign a second history.
func (w *Witness) load(l *log) (state, error) {
	fail := func(format string, args ...any) (state, error) {
		return state{}, fmt.Errorf("%w: log %s, %s: %w", ErrState, l.origin, l.path(), fmt.Errorf(format, args...))
	}
	f, err := os.Open(l.path())
	if errors.Is(err, fs.ErrNotExist) {
		if w.memory.has(l.origin) {
			return state{}, l.lost()
		}
		// A log never seen is one of size 0.
		return state{tree: tree{l.origin, 0, [32]byte(rfc6962.DefaultHasher.EmptyRoot())}}, nil
	}
	if err != nil {
		return state{}, fmt.Errorf("read what was signed for log %s: %w", l.origin, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 2*maxBody+1))
	if err != nil {
		return state{}, fmt.Errorf("read what was signed for log %s: %w", l.origin, err)
	}
	if len(b) > 2*maxBody {
		return fail("it is too large")
	}
	n, err := parseNote(b)
	if err != nil {
		return fail("%w; restore it from a backup, or make a new witness with a new key", err)
	}
	s := state{raw: b}
	if s.tree, err = parseTree(n.Text); err != nil {
		return fail("%w", err)
	}
	if s.origin != l.origin {
		return fail("it is about log %q", s.origin)
	}
	if len(signedBy(n, l.keys...)) == 0 {
		return fail("no key of the log signed it: it was altered, or the log's key was changed; in that case name the former key too")
	}
	own := false
	for _, sig := range n.UnverifiedSigs {
		if sig.Name == w.o.Signer.Name() && sig.Hash == w.o.Signer.KeyHash() {
			if s.time, err = cosignatureTime(sig); err != nil {
				return fail("%w", err)
			}
			own = true
		}
	}
	if !own {
		return fail("%s+%08x did not sign it: give the key that this directory belongs to, or another directory", w.o.Signer.Name(), w.o.Signer.KeyHash())
	}
	if w.o.Verifier != nil && len(signedBy(n, w.o.Verifier)) == 0 {
		return fail("our own signature on it is not good: it was altered; restore it from a backup, or make a new witness with a new key")
	}
	return s, nil
}

// cosignatureTime reads the time that a cosignature states in its first bytes.
func cosignatureTime(s note.Signature) (int64, error) {
	raw, err := base64.StdEncoding.DecodeString(s.Base64)
	if err != nil || len(raw) < 4+8+64 {
		return 0, fmt.Errorf("the signature of %s is not a cosignature with a time", s.Name)
	}
	t := binary.BigEndian.Uint64(raw[4:])
	if t > math.MaxInt64 {
		return 0, fmt.Errorf("the cosignature of %s has an impossible time", s.Name)
	}
	return int64(t), nil
}

// patience is how long a request waits for a clock that was set back a little.
const patience = 5 * time.Second

// cosign signs the checkpoint at a time that is not before the last one.
func (w *Witness) cosign(text string, last int64) (note.Signature, int64, error) {
	behind := time.Unix(last, 0).Sub(w.o.Now())
	if behind > patience {
		return note.Signature{}, 0, fmt.Errorf("the clock went back: it says %s, and the last cosignature for this log was given at %s; set the clock right, and if that time was the wrong one, make a new witness with a new key",
			w.o.Now().UTC().Format(time.RFC3339), time.Unix(last, 0).UTC().Format(time.RFC3339))
	}
	if behind > 0 {
		time.Sleep(behind)
	}
	sig, err := w.o.Signer.Sign([]byte(text))
	if err != nil {
		return note.Signature{}, 0, fmt.Errorf("sign: %w", err)
	}
	raw := binary.BigEndian.AppendUint32(nil, w.o.Signer.KeyHash())
	s := note.Signature{
		Name: w.o.Signer.Name(), Hash: w.o.Signer.KeyHash(),
		Base64: base64.StdEncoding.EncodeToString(append(raw, sig...)),
	}
	t, err := cosignatureTime(s)
	if err != nil {
		return note.Signature{}, 0, err
	}
	if t < last {
		return note.Signature{}, 0, fmt.Errorf("the signer's clock went back: it says %s, and the last cosignature for this log was given at %s",
			time.Unix(t, 0).UTC().Format(time.RFC3339), time.Unix(last, 0).UTC().Format(time.RFC3339))
	}
	if v := w.o.Verifier; v != nil && !v.Verify([]byte(text), sig) {
		return note.Signature{}, 0, errors.New("sign: the key gave a signature that does not fit its own public key")
	}
	return s, t, nil
}
