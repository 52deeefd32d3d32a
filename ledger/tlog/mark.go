package tlog

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/ledger"
)

// Name is what a statement is known by in a log. An id belongs to the key that
// signed with it: nobody can take up another's id and so keep their statement
// out of the log.
type Name struct {
	ID  ulid.ULID
	Key [8]byte // the first bytes of the key's id
}

// Compare orders names.
func (a Name) Compare(b Name) int {
	return cmp.Or(a.ID.Compare(b.ID), slices.Compare(a.Key[:], b.Key[:]))
}

// Mark is what the notary's file of ids keeps of an entry (docs/formats/log.md).
type Mark struct {
	Name
	Sum [8]byte // the first bytes of the SHA-256 of the envelope's signature
}

// MarkSize is that of a mark in the file.
const MarkSize = 32

// NameOf is the name of an entry with this id and envelope.
func NameOf(id ulid.ULID, envelope []byte) Name {
	keyID, _ := ledger.SignedBy(envelope)
	return Name{id, KeyMark(keyID)}
}

// MarkOf is the mark of an entry with this id and envelope. A signature stands for
// all that was signed: of what one key signed, no two have the same, unless its
// holder made the key so, and then only the holder's own statements are mixed up.
func MarkOf(id ulid.ULID, envelope []byte) Mark {
	_, sig := ledger.SignedBy(envelope)
	if sig == nil {
		sig = envelope
	}
	sum := sha256.Sum256(sig)
	return Mark{NameOf(id, envelope), [8]byte(sum[:8])}
}

// KeyMark is the beginning of a key's id in bytes; zero for what is no key's id.
func KeyMark(keyID string) (k [8]byte) {
	if len(keyID) == 2*sha256.Size {
		if _, err := hex.Decode(k[:], []byte(keyID[:2*len(k)])); err != nil {
			return [8]byte{}
		}
	}
	return k
}

// Append writes the mark as the file has it.
func (m Mark) Append(b []byte) []byte {
	return append(append(append(b, m.ID[:]...), m.Key[:]...), m.Sum[:]...)
}

// ParseMark reads the first MarkSize bytes.
func ParseMark(b []byte) Mark {
	return Mark{Name{ulid.ULID(b[:16]), [8]byte(b[16:24])}, [8]byte(b[24:MarkSize])}
}
