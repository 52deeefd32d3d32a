package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// Revocation is a statement that a key is not to be trusted. It cannot be taken
// back: a new key is made.
type Revocation struct {
	KeyID    string
	From     time.Time // since when
	Reason   string
	SignedBy string // key id: an authority's, or the key's own
	Stamp
	Envelope []byte
}

// RevocationOptions say what is not in the revocation itself.
type RevocationOptions struct {
	ID  ulid.ULID // of the statement; zero: made from Now and chance
	Now time.Time // zero: the clock's
}

// revocationPredicate is key-revocation/v1.
type revocationPredicate struct {
	Stamp
	From   time.Time `json:"from"`
	Reason string    `json:"reason"`
}

// StateRevocation revokes a key since a time, which is cut to whole seconds. It
// is signed by the key itself, or by an authority; whether somebody trusts that
// authority is for a Keyring to say.
func StateRevocation(ctx context.Context, key Key, by Signer, from time.Time, reason string, o RevocationOptions) (Revocation, error) {
	st, err := keyStamp(key.Node, o.ID, o.Now)
	if err != nil {
		return Revocation{}, fmt.Errorf("revoke %s: %w", key, err)
	}
	if from.IsZero() {
		return Revocation{}, fmt.Errorf("revoke %s: no time given since when it is not to be trusted", key)
	}
	p := revocationPredicate{Stamp: st, From: from.UTC().Truncate(time.Second), Reason: reason}
	envelope, err := signAboutKey(ctx, KeyRevocation, key.ID, p, by)
	if err != nil {
		return Revocation{}, fmt.Errorf("revoke %s: %w", key, err)
	}
	r, err := ParseRevocation(envelope)
	if err != nil {
		return Revocation{}, fmt.Errorf("revoke %s: %w", key, err)
	}
	if by.Public().Equal(key.Public) != (r.SignedBy == r.KeyID) {
		return Revocation{}, fmt.Errorf("revoke %s: its id is not that of its public key", key)
	}
	return r, nil
}

// ParseRevocation reads a revocation as strictly as ParseKey a key. It holds no
// public key, so the signature is checked by Keyring.Add.
func ParseRevocation(envelope []byte) (Revocation, error) {
	e, s, st, err := readAboutKey(envelope, KeyRevocation)
	if err != nil {
		return Revocation{}, err
	}
	r, err := revocationOf(e, s, st)
	if err != nil {
		return Revocation{}, err
	}
	r.Envelope = bytes.Clone(envelope)
	return r, nil
}

func revocationOf(e Envelope, s Statement, st Stamp) (Revocation, error) {
	bad := func(err error) (Revocation, error) {
		return Revocation{}, fmt.Errorf("%w: revocation: %w", ErrKeyStatement, err)
	}
	var p revocationPredicate
	if err := decodeMembers(s.Predicate, &p, "id", "node", "nonce", "time", "from", "reason"); err != nil {
		return bad(fmt.Errorf("predicate: %w", err))
	}
	id, ok := strings.CutPrefix(s.Subject[0].Name, keySubject(""))
	if !ok || !isSHA256(id) {
		return bad(fmt.Errorf("its subject is %.80q, which is no key", s.Subject[0].Name))
	}
	if err := checkAboutKey(s, st, id); err != nil {
		return bad(err)
	}
	if p.From.IsZero() {
		return bad(errors.New("it does not say since when"))
	}
	if err := checkKeyWords("reason", p.Reason, MaxReason); err != nil {
		return bad(err)
	}
	return Revocation{KeyID: id, From: p.From.UTC(), Reason: p.Reason, SignedBy: e.Signatures[0].KeyID, Stamp: st}, nil
}
