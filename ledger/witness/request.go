package witness

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Limits of a request. Whoever sends it is unknown: only the log's signature on
// the checkpoint is checked.
const (
	maxBody  = 32 << 10
	maxProof = 63 // lines, as the specification says
	maxTries = 8  // signature lines that claim a known key: each costs a check
)

// request is the body of add-checkpoint.
type request struct {
	old   uint64
	proof [][]byte
	tree
	note *note.Note // signatures not checked yet, all in UnverifiedSigs
}

// tree is what the first three lines of a checkpoint say.
type tree struct {
	origin string
	size   uint64
	root   [sha256.Size]byte
}

// parseRequest reads the body's one spelling.
func parseRequest(b []byte) (request, error) {
	var r request
	head, checkpoint, ok := bytes.Cut(b, []byte("\n\n"))
	if !ok {
		return r, errors.New("no empty line before the checkpoint")
	}
	lines := strings.Split(string(head), "\n")
	size, ok := strings.CutPrefix(lines[0], "old ")
	if !ok {
		return r, errors.New(`the first line is not "old SIZE"`)
	}
	var err error
	if r.old, err = parseSize(size); err != nil {
		return r, fmt.Errorf("old size: %w", err)
	}
	if len(lines)-1 > maxProof {
		return r, fmt.Errorf("the proof has %d lines; at most %d are allowed", len(lines)-1, maxProof)
	}
	for i, line := range lines[1:] {
		h, err := parseHash(line)
		if err != nil {
			return r, fmt.Errorf("line %d of the proof: %w", i+1, err)
		}
		r.proof = append(r.proof, h)
	}
	if r.note, err = parseNote(checkpoint); err != nil {
		return r, err
	}
	r.tree, err = parseTree(r.note.Text)
	return r, err
}

// parseNote reads a signed note and checks no signature.
func parseNote(b []byte) (*note.Note, error) {
	_, err := note.Open(b, note.VerifierList())
	if u, ok := errors.AsType[*note.UnverifiedNoteError](err); ok {
		return u.Note, nil
	}
	return nil, errors.New("the checkpoint is not a signed note")
}

// parseTree reads a checkpoint's first three lines. What follows them is the
// log's own business.
func parseTree(text string) (tree, error) {
	var t tree
	lines := strings.SplitN(text, "\n", 4)
	if len(lines) < 4 || lines[0] == "" {
		return t, errors.New("the checkpoint has fewer than three lines")
	}
	if strings.Contains(text, "\n\n") {
		return t, errors.New("the checkpoint has an empty line")
	}
	var err error
	if t.size, err = parseSize(lines[1]); err != nil {
		return t, fmt.Errorf("the checkpoint's size: %w", err)
	}
	root, err := parseHash(lines[2])
	if err != nil {
		return t, fmt.Errorf("the checkpoint's root: %w", err)
	}
	t.origin, t.root = lines[0], [sha256.Size]byte(root)
	return t, nil
}

func parseSize(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	// A tree of more leaves would need more than 63 lines of proof.
	if err != nil || n > math.MaxInt64 || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("%.30q is not a size in decimal", s)
	}
	return n, nil
}

func parseHash(s string) ([]byte, error) {
	h, err := base64.StdEncoding.Strict().DecodeString(s)
	// The decoder passes over line breaks; the note's reader lets \r through.
	if err != nil || len(h) != sha256.Size || strings.ContainsAny(s, "\r\n") {
		return nil, fmt.Errorf("%.50q is not a hash in base64", s)
	}
	return h, nil
}

// signedBy gives the good signatures by these keys, one each. Others are passed
// over, as the specification says.
func signedBy(n *note.Note, keys ...note.Verifier) []note.Signature {
	var good []note.Signature
	tries := 0
	for _, s := range n.UnverifiedSigs {
		same := func(o note.Signature) bool { return o.Name == s.Name && o.Hash == s.Hash }
		i := slices.IndexFunc(keys, func(v note.Verifier) bool { return v.Name() == s.Name && v.KeyHash() == s.Hash })
		if i < 0 || slices.ContainsFunc(good, same) {
			continue
		}
		if tries++; tries > maxTries {
			break
		}
		raw, err := base64.StdEncoding.DecodeString(s.Base64)
		if err != nil || len(raw) < 4 || binary.BigEndian.Uint32(raw) != s.Hash {
			continue
		}
		if keys[i].Verify([]byte(n.Text), raw[4:]) {
			s.Base64 = base64.StdEncoding.EncodeToString(raw)
			good = append(good, s)
		}
	}
	return good
}

// encode writes a note with these signatures.
func encode(text string, sigs ...note.Signature) []byte {
	var b strings.Builder
	b.WriteString(text)
	b.WriteByte('\n')
	for _, s := range sigs {
		b.WriteString(line(s))
	}
	return []byte(b.String())
}

func line(s note.Signature) string { return "— " + s.Name + " " + s.Base64 + "\n" }
