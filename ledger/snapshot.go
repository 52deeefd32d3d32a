package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// SnapshotFormat names the format of what a log says about keys, for verifiers
// that are offline.
const SnapshotFormat = "assay/log-keys/v1"

// MaxSnapshot bounds a snapshot's file.
const MaxSnapshot = 64 << 20

// ErrSnapshot marks bytes that are no snapshot of a log's keys.
var ErrSnapshot = errors.New("not a snapshot of a log's keys")

// Snapshot is every statement about a key that a log holds at one checkpoint,
// each with the proof that it is there (docs/formats/log.md).
//
// That what is in it is in the log, and since when, is proven by the checkpoint.
// That nothing is missing cannot be proven so: it is the word of whoever
// collected it, and with a signature that of the log.
type Snapshot struct {
	Checkpoint []byte
	Origin     string
	Size       uint64
	Root       [sha256.Size]byte
	Time       time.Time // when it was collected, by that clock; whole seconds
	Statements []Receipt // each with its envelope, and without a checkpoint
	signature  string    // the note's signature line; empty: nobody signed it
}

type snapshotHead struct {
	Format     string `json:"format"`
	Head       string `json:"head"`
	Checkpoint string `json:"checkpoint"`
}

type snapshotLine struct {
	Index    uint64   `json:"index"`
	Entry    string   `json:"entry"`
	Proof    [][]byte `json:"proof"`
	Envelope string   `json:"envelope"`
}

// Sign has the log itself say that nothing is missing: the signer is that of its
// checkpoints.
func (s *Snapshot) Sign(ctx context.Context, by Signer) error {
	signer, err := NoteSigner(ctx, s.Origin, by)
	if err != nil {
		return err
	}
	text := s.text(s.body())
	b, err := note.Sign(&note.Note{Text: text}, signer)
	if err != nil {
		return fmt.Errorf("sign the log's keys: %w", err)
	}
	s.signature = strings.TrimPrefix(string(b), text+"\n")
	return nil
}

// text is what the log signs. Its first line keeps it from being a checkpoint.
func (s *Snapshot) text(body []byte) string {
	sum := sha256.Sum256(body)
	return fmt.Sprintf("%s\n%s\n%d\n%s\n%d\n%s\n%s\n", SnapshotFormat, s.Origin, s.Size, base64.StdEncoding.EncodeToString(s.Root[:]),
		len(s.Statements), hex.EncodeToString(sum[:]), s.Time.UTC().Format(time.RFC3339))
}

func (s *Snapshot) body() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, r := range s.Statements {
		l := snapshotLine{Index: r.Index, Entry: string(r.Head()), Proof: [][]byte{}, Envelope: string(r.Envelope)}
		for _, h := range r.Proof {
			l.Proof = append(l.Proof, h[:])
		}
		if err := e.Encode(l); err != nil {
			panic(err) // numbers and strings only
		}
	}
	return b.Bytes()
}

// Encode is the snapshot's file.
func (s *Snapshot) Encode() []byte {
	body := s.body()
	head := s.text(body)
	if s.signature != "" {
		head += "\n" + s.signature
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(snapshotHead{SnapshotFormat, head, string(s.Checkpoint)}); err != nil {
		panic(err) // strings only
	}
	return append(b.Bytes(), body...)
}

// IsSnapshot reports whether a file begins as a snapshot does.
func IsSnapshot(b []byte) bool {
	return bytes.HasPrefix(b, []byte(`{"format":"`+SnapshotFormat+`"`))
}

// ReadSnapshot reads a snapshot: the one spelling that Encode writes. Whether the
// log says so is for Policy.VerifySnapshot.
func ReadSnapshot(b []byte) (*Snapshot, error) {
	fail := func(format string, args ...any) (*Snapshot, error) {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, fmt.Errorf(format, args...))
	}
	if len(b) > MaxSnapshot {
		return fail("it has %d bytes; at most %d are allowed", len(b), MaxSnapshot)
	}
	first, body, _ := bytes.Cut(b, []byte("\n"))
	var head snapshotHead
	if err := strict(first, &head); err != nil {
		return fail("%w", err)
	}
	s := &Snapshot{Checkpoint: []byte(head.Checkpoint)}
	f := strings.SplitN(head.Head, "\n", 8)
	if head.Format != SnapshotFormat || len(f) != 8 || f[0] != SnapshotFormat {
		return fail("its first line is not that of %s", SnapshotFormat)
	}
	var err error
	if s.Size, err = strconv.ParseUint(f[2], 10, 63); err != nil {
		return fail("its size is %.40q", f[2])
	}
	root, err := base64.StdEncoding.Strict().DecodeString(f[3])
	if err != nil || len(root) != sha256.Size {
		return fail("its root is %.60q", f[3])
	}
	if s.Time, err = time.Parse(time.RFC3339, f[6]); err != nil {
		return fail("its time is %.40q", f[6])
	}
	s.Origin, s.Root = f[1], [sha256.Size]byte(root)
	s.signature = strings.TrimPrefix(f[7], "\n")
	for line := range bytes.Lines(body) {
		r, err := readSnapshotLine(line)
		if err != nil {
			return fail("statement %d: %w", len(s.Statements)+1, err)
		}
		s.Statements = append(s.Statements, r)
	}
	if !bytes.Equal(s.Encode(), b) {
		return fail("it was altered: its head is not that of what follows, or it has another spelling than ours")
	}
	return s, nil
}

func readSnapshotLine(line []byte) (Receipt, error) {
	var l snapshotLine
	if err := strict(line, &l); err != nil {
		return Receipt{}, err
	}
	if len(l.Proof) > maxProof || len(l.Entry) > 700 {
		return Receipt{}, errors.New("its proof or its head is too long")
	}
	e, err := parseHead([]byte(l.Entry))
	if err != nil {
		return Receipt{}, err
	}
	r := Receipt{Entry: e, Index: l.Index}
	r.Envelope = []byte(l.Envelope)
	for _, h := range l.Proof {
		if len(h) != sha256.Size {
			return Receipt{}, errors.New("its proof has something that is no hash")
		}
		r.Proof = append(r.Proof, [sha256.Size]byte(h))
	}
	return r, nil
}
