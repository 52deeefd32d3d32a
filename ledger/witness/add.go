package witness

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"

	"github.com/assay-bench/assay/internal/disk"
)

// finding is what a good signature on a checkpoint that does not fit may mean.
type finding string

const (
	nothing  finding = ""
	fork     finding = "fork"     // two trees of one size, both signed: the log's key is convicted
	mismatch finding = "mismatch" // the proof does not fit: a fork, or only a bad proof, which anybody can send
	shrunk   finding = "shrunk"   // smaller than what was signed: a rolled-back log, or an old checkpoint sent again
)

// answer is what is decided about a request before anything is done.
type answer struct {
	status  int // 200: to be signed
	words   string
	size    bool // the body is the size that was last signed
	finding finding
}

// judge compares a checkpoint, which the log has signed, with the last one that
// was cosigned. It is pure, and follows the specification's order.
func (s state) judge(r request) answer {
	var f finding
	switch {
	case r.size == s.size && s.raw != nil && r.root != s.root:
		f = fork
	case r.size < s.size:
		f = shrunk
	}
	switch {
	case r.old > r.size:
		return answer{http.StatusBadRequest, fmt.Sprintf("old size %d is larger than the checkpoint's size %d", r.old, r.size), false, f}
	case r.old != s.size:
		return answer{http.StatusConflict, "", true, f}
	case f == fork:
		return answer{http.StatusConflict, fmt.Sprintf("at size %d this witness has signed another root", r.size), false, f}
	case r.size == 0 && r.root != [32]byte(rfc6962.DefaultHasher.EmptyRoot()):
		return answer{http.StatusUnprocessableEntity, "the root of an empty tree is another", false, nothing}
	}
	hashes := make([][]byte, len(r.proof))
	copy(hashes, r.proof)
	if err := proof.VerifyConsistency(rfc6962.DefaultHasher, r.old, r.size, hashes, s.root[:], r.root[:]); err != nil {
		// Without an old tree, or with the same one, a proof has nothing to say.
		if r.old != 0 && r.old != r.size {
			f = mismatch
		}
		return answer{http.StatusUnprocessableEntity, fmt.Sprintf("the consistency proof from size %d to %d does not fit", r.old, r.size), false, f}
	}
	return answer{status: http.StatusOK}
}

func (w *Witness) addCheckpoint(rw http.ResponseWriter, hr *http.Request) {
	b, err := io.ReadAll(http.MaxBytesReader(rw, hr.Body, maxBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			w.refuse(rw, "", fmt.Sprintf("the request has more than %d bytes", maxBody), http.StatusRequestEntityTooLarge)
			return
		}
		w.refuse(rw, "", "the request was interrupted", http.StatusBadRequest)
		return
	}
	r, err := parseRequest(b)
	if err != nil {
		w.refuse(rw, "", err.Error(), http.StatusBadRequest)
		return
	}
	l := w.logs[r.origin]
	if l == nil {
		w.refuse(rw, "", "this witness does not know a log of that origin", http.StatusNotFound)
		return
	}
	sigs := signedBy(r.note, l.keys...)
	if len(sigs) == 0 {
		w.refuse(rw, l.origin, "no key that this witness trusts for the log signed the checkpoint", http.StatusForbidden)
		return
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.last.judge(r)
	if a.finding != nothing {
		w.found(l, a.finding, r, encode(r.note.Text, sigs...))
	}
	switch {
	case a.size:
		rw.Header().Set("Content-Type", "text/x.tlog.size")
		rw.WriteHeader(a.status)
		fmt.Fprintln(rw, strconv.FormatUint(l.last.size, 10))
	case a.status != http.StatusOK:
		w.refuse(rw, l.origin, a.words, a.status)
	default:
		sig, err := w.accept(l, r, sigs)
		w.done(l, err)
		if err != nil {
			w.tell(l, "fault", slog.LevelError, "no cosignature", "size", r.size, "error", err)
			// Who asks need not know our paths.
			w.refuse(rw, l.origin, "the witness could not record or sign the checkpoint; try again later", http.StatusInternalServerError)
			return
		}
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(rw, line(sig))
	}
}

// accept signs a checkpoint and records it. The signature leaves only when the
// record is safe; a record whose signature never left does no harm, as the log
// learns the size and asks again for the same tree.
func (w *Witness) accept(l *log, r request, sigs []note.Signature) (note.Signature, error) {
	own, t, err := w.cosign(r.note.Text, l.last.time)
	if err != nil {
		return note.Signature{}, err
	}
	next := state{tree: r.tree, time: t, raw: encode(r.note.Text, append(sigs, own)...)}
	err = disk.Replace(l.path(), 0o600, disk.Bytes(next.raw))
	if err == nil || errors.Is(err, disk.ErrUnsynced) {
		l.last = next // it can be seen, so it is what was said
	}
	if err == nil {
		err = w.signed(l.origin)
	}
	if err != nil {
		return note.Signature{}, fmt.Errorf("record the checkpoint: %w", err)
	}
	return own, nil
}
