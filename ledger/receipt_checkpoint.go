package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxCheckpoint bounds a checkpoint: three lines, and a signature line for each
// witness.
const maxCheckpoint = 64 << 10

// Cosignature is that of a witness: it has seen the log at this checkpoint, and
// the log had only grown since it last looked.
type Cosignature struct {
	Name string    `json:"name"` // of the witness in the policy
	Time time.Time `json:"time"` // by the witness's clock
}

// Checkpoint is a log at one size, as its policy's keys signed it.
type Checkpoint struct {
	Origin   string
	Size     uint64
	Root     [sha256.Size]byte
	Cosigned []Cosignature // in the order of their times
	Raw      []byte
}

// Errors of a checkpoint. Each is a different thing to tell a person.
var (
	ErrCheckpoint          = errors.New("not a checkpoint")
	ErrUnknownSigner       = errors.New("the checkpoint has a signature by somebody whom the policy does not know")
	ErrCheckpointSignature = errors.New("a signature of the checkpoint does not fit what it says: one of them was altered")
	ErrNotTheLog           = errors.New("the checkpoint is not signed by the log that it names")
	ErrQuorum              = errors.New("too few witnesses have seen the checkpoint")
)

// noteSignature is one signature line.
type noteSignature struct {
	name string
	hash uint32
	sig  []byte
}

// Open reads a checkpoint and checks all of it: every signature line is by a key
// of the policy and good, the log's own is among them, and the quorum of
// witnesses is kept.
func (p Policy) Open(raw []byte) (Checkpoint, error) {
	text, sigs, err := splitNote(raw)
	if err != nil {
		return Checkpoint{}, err
	}
	c, err := parseCheckpoint(text)
	if err != nil {
		return Checkpoint{}, err
	}
	c.Raw = bytes.Clone(raw)
	byLog, signed := false, map[string]bool{}
	for i, s := range sigs {
		if slices.ContainsFunc(sigs[:i], func(o noteSignature) bool { return o.name == s.name && o.hash == s.hash }) {
			return Checkpoint{}, fmt.Errorf("%w: %q signed it twice", ErrCheckpoint, s.name)
		}
		k, who, isLog := p.signer(s)
		switch {
		case k == nil:
			return Checkpoint{}, fmt.Errorf("%w: %q, key hash %08x; if it is to be trusted, the policy needs a line for it", ErrUnknownSigner, s.name, s.hash)
		case !k.Verify(text, s.sig):
			return Checkpoint{}, fmt.Errorf("%w (%s)", ErrCheckpointSignature, s.name)
		case isLog:
			if k.name != c.Origin {
				return Checkpoint{}, fmt.Errorf("%w: it names %q and is signed by %q", ErrNotTheLog, c.Origin, k.name)
			}
			byLog = true
		default:
			signed[who] = true
			c.Cosigned = append(c.Cosigned, Cosignature{who, cosignedAt(s.sig)})
		}
	}
	slices.SortStableFunc(c.Cosigned, func(a, b Cosignature) int { return a.Time.Compare(b.Time) })
	if !byLog {
		return Checkpoint{}, fmt.Errorf("%w: it names %q", ErrNotTheLog, c.Origin)
	}
	if !p.met(p.quorum, signed) {
		return Checkpoint{}, fmt.Errorf("%w: %s", ErrQuorum, p.shortfall(signed))
	}
	return c, nil
}

// signer finds who made a signature line; nil when the policy knows nobody.
func (p Policy) signer(s noteSignature) (k *vkey, name string, isLog bool) {
	for i, l := range p.logs {
		if l.name == s.name && l.hash == s.hash {
			return &p.logs[i], l.name, true
		}
	}
	for i, w := range p.witnesses {
		if w.key.name == s.name && w.key.hash == s.hash {
			return &p.witnesses[i].key, w.name, false
		}
	}
	return nil, "", false
}

// splitNote takes a signed note apart; it takes one spelling of each line.
func splitNote(raw []byte) (text []byte, sigs []noteSignature, err error) {
	fail := func(why string) ([]byte, []noteSignature, error) {
		return nil, nil, fmt.Errorf("%w: %s", ErrCheckpoint, why)
	}
	if len(raw) > maxCheckpoint {
		return fail(fmt.Sprintf("it has %d bytes; at most %d are allowed", len(raw), maxCheckpoint))
	}
	i := bytes.LastIndex(raw, []byte("\n\n"))
	if i < 0 {
		return fail("it has no signatures")
	}
	text = raw[:i+1]
	rest := string(raw[i+2:])
	for rest != "" {
		line, after, ok := strings.Cut(rest, "\n")
		body, dash := strings.CutPrefix(line, "— ")
		name, b64, space := strings.Cut(body, " ")
		b, err := base64.StdEncoding.Strict().DecodeString(b64)
		if !ok || !dash || !space || err != nil || len(b) < 5 || checkNoteName(name) != nil || strings.ContainsAny(b64, "\r\n") {
			return fail("a signature line is not of the form that it must have")
		}
		sigs = append(sigs, noteSignature{name, binary.BigEndian.Uint32(b), b[4:]})
		rest = after
	}
	if len(sigs) == 0 || len(sigs) > 100 {
		return fail(fmt.Sprintf("it has %d signatures; 1 to 100 are allowed", len(sigs)))
	}
	return text, sigs, nil
}

// parseCheckpoint reads the signed text: origin, size and root hash. Lines that
// follow are signed with the rest, and mean nothing here.
func parseCheckpoint(text []byte) (Checkpoint, error) {
	f := strings.SplitN(string(text), "\n", 4)
	if len(f) < 4 || f[0] == "" {
		return Checkpoint{}, fmt.Errorf("%w: it has not the lines origin, size and root hash", ErrCheckpoint)
	}
	size, err := strconv.ParseUint(f[1], 10, 63)
	if err != nil || strconv.FormatUint(size, 10) != f[1] {
		return Checkpoint{}, fmt.Errorf("%w: its size is %.40q", ErrCheckpoint, f[1])
	}
	root, err := base64.StdEncoding.Strict().DecodeString(f[2])
	if err != nil || len(root) != sha256.Size {
		return Checkpoint{}, fmt.Errorf("%w: its root hash is %.60q", ErrCheckpoint, f[2])
	}
	return Checkpoint{Origin: f[0], Size: size, Root: [sha256.Size]byte(root)}, nil
}
