package ledger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Why a signature does not count although it fits. The message says who, which
// key and when; the comment says what to do.
var (
	// Trust the key's statement, or have an authority that is trusted certify it.
	ErrUnknownKey = errors.New("nobody here vouches for the key")
	// Set the signer's clock and sign again.
	ErrKeyNotYetValid = errors.New("the key was not valid yet")
	// Make a new key, or have an authority certify this one for longer.
	ErrKeyExpired = errors.New("the key had expired")
	// Do not trust it; what was logged before the revocation stands with its receipt.
	ErrKeyRevoked = errors.New("the key is revoked")
	// Ask how the key of one node came to another.
	ErrOtherNode = errors.New("the key belongs to another node")
	// Sign with a key that may.
	ErrRole = errors.New("the key may not sign this")
)

// maxKeyStatements bounds the statements about one key by one signer: whoever
// certifies nodes without need cannot keep an authority from it.
const maxKeyStatements = 32

// Keyring knows keys and their revocations, and answers whether a key was good
// when something was signed ("Was the key good then?" in
// docs/formats/statement.md). It is safe for concurrent use, and holds no lock
// while it checks a signature.
//
// Trust comes from outside only: the keys that NewKeyring was given. An authority
// among them certifies others; a key that takes in nodes (RoleEnrol), trusted or
// so certified, certifies keys that only sign runs. No other certified key
// certifies anybody, so that a chain has two links at most and no cycle.
//
// There may be several statements about a key: each stands on its own, and a
// signature counts when one of them lets it. So an authority extends a key's time
// by a second statement. It cannot shorten it by one: that is a revocation.
// Nothing that a key says about itself changes what is known of it.
//
// Of several revocations of a key the earliest time counts.
type Keyring struct {
	mu      sync.RWMutex
	keys    map[string][]knownKey   // by key id; slices are replaced, never changed
	revoked map[string][]Revocation // the same; at most one a signer
}

type knownKey struct {
	Key
	trusted bool
	logged  time.Time // of the statement's log entry; zero: not known to be in a log
}

// NewKeyring makes a keyring that trusts these keys, whoever signed their
// statements: they come from somewhere trusted.
func NewKeyring(trusted ...Key) *Keyring {
	r := &Keyring{keys: map[string][]knownKey{}, revoked: map[string][]Revocation{}}
	for _, k := range trusted {
		r.keys[k.ID] = append(r.keys[k.ID], knownKey{Key: k, trusted: true})
	}
	return r
}

// Keys gives all statements about keys, by key id and time.
func (r *Keyring) Keys() []Key {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var out []Key
	for _, id := range slices.Sorted(maps.Keys(r.keys)) {
		of := slices.Clone(r.keys[id])
		slices.SortStableFunc(of, func(a, b knownKey) int { return a.Time.Compare(b.Time) })
		for _, k := range of {
			out = append(out, k.Key)
		}
	}
	return out
}

// Revocations gives those that count, by key id and time: of each signer the one
// that reaches back the furthest.
func (r *Keyring) Revocations() []Revocation {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var out []Revocation
	for _, of := range r.revoked {
		out = append(out, of...)
	}
	slices.SortFunc(out, func(a, b Revocation) int { return cmp.Or(cmp.Compare(a.KeyID, b.KeyID), a.From.Compare(b.From)) })
	return out
}

// Check verifies an envelope's signature and says whether its key was good for
// the statement: s and st are what ParseStatement makes of e's payload, and
// logged is the time of its log entry, zero when there is no receipt. The key is
// the statement about it that counted.
//
// A statement about a key passes when Add would take it.
func (r *Keyring) Check(e Envelope, s Statement, st Stamp, logged time.Time) (Key, error) {
	signer, err := r.verify(e)
	if err != nil {
		return Key{}, err
	}
	p, ok := predicateOf(s.PredicateType)
	switch {
	case !ok:
		return Key{}, fmt.Errorf("%w: %s does not sign %.80q", ErrRole, signer, s.PredicateType)
	case p.Type == KeyPredicate:
		k, err := keyOf(e, s, st)
		if err != nil {
			return Key{}, err
		}
		return r.mayState(k, e, signer, logged)
	case p.Type == KeyRevocation:
		v, err := revocationOf(e, s, st)
		if err != nil {
			return Key{}, err
		}
		return r.mayRevoke(v, signer, logged)
	}
	return r.good(signer, st.Time, logged, p.signs(st.Node))
}

// verify finds the key that an envelope names and checks the signature with it.
func (r *Keyring) verify(e Envelope) (Key, error) {
	if len(e.Signatures) != 1 {
		return Key{}, e.Verify(nil) // says that there must be one
	}
	id := e.Signatures[0].KeyID
	r.mu.RLock()
	of := r.keys[id]
	r.mu.RUnlock()
	if len(of) == 0 {
		return Key{}, fmt.Errorf("signed by key %s: %w: trust its statement, or give one that a trusted authority signed", shortKeyID(id), ErrUnknownKey)
	}
	if err := e.Verify(of[0].Public); err != nil {
		return Key{}, fmt.Errorf("signature of %s: %w", of[0].Key, err)
	}
	return of[0].Key, nil
}

// allow says whether a key's statement lets it sign something.
type allow func(knownKey) error

// asAuthority is for revocations of other keys.
func asAuthority(k knownKey) error {
	switch {
	case !k.Has(RoleAuthority):
		return fmt.Errorf("%s: %w: only the role %s revokes other keys", k, ErrRole, RoleAuthority)
	case !k.trusted:
		return fmt.Errorf("%s: %w: it was certified by another key; an authority's statements about keys count where its own statement is trusted", k, ErrRole)
	}
	return nil
}

// certifies is for a statement about another key: an authority's, or of a key
// that only signs runs also that of a key which takes in nodes. Such a key may
// itself be certified, and then by an authority: so a chain ends.
func certifies(subject Key) allow {
	return func(k knownKey) error {
		switch {
		case k.Has(RoleAuthority):
			return asAuthority(k)
		case !k.Has(RoleEnrol):
			return fmt.Errorf("%s: %w: only the roles %s and %s sign statements about other keys", k, ErrRole, RoleEnrol, RoleAuthority)
		case !slices.Equal(subject.Roles, []Role{RoleRun}):
			return fmt.Errorf("%s: %w: the role %s certifies keys of the role %s and no others, and this one is to have %q", k, ErrRole, RoleEnrol, RoleRun, subject.Roles)
		}
		return nil
	}
}

// CheckCertifier says whether a key can certify another with these roles, as far
// as its own statement goes: before somebody is asked for a passphrase.
func CheckCertifier(by Key, roles []Role) error {
	return certifies(Key{Roles: roles})(knownKey{Key: by, trusted: true})
}

// good judges by the four rules, for something of time t that was logged then. It
// gives the statement that counted, or the reason that came closest.
func (r *Keyring) good(k Key, t, logged time.Time, allows allow) (Key, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.judge(k, t, logged, allows)
}

// judge is good, with the lock held.
func (r *Keyring) judge(of Key, t, logged time.Time, allows allow) (Key, error) {
	if err := r.notRevoked(of, logged); err != nil {
		return Key{}, err
	}
	var why error
	closest := -1
	for _, k := range r.keys[of.ID] {
		err, step := allows(k), 0
		if err == nil {
			err, step = inTime(k.Key, t, logged), 1
		}
		if err == nil && !k.trusted {
			_, err = r.judge(Key{ID: k.SignedBy}, k.Time, k.logged, certifies(k.Key))
			if step = 2; err != nil {
				err = fmt.Errorf("%s was certified on %s, which does not count: %w", k, clockTime(k.Time), err)
			}
		}
		if err == nil {
			return k.Key, nil
		}
		if step > closest {
			why, closest = err, step
		}
	}
	if why == nil {
		why = fmt.Errorf("key %s: %w", shortKeyID(of.ID), ErrUnknownKey)
	}
	return Key{}, why
}

// inTime is the third rule.
func inTime(k Key, t, logged time.Time) error {
	bad := func(what error, format string, args ...any) error {
		return fmt.Errorf("%s, valid from %s to %s: %w: %s", k, clockTime(k.NotBefore), clockTime(k.NotAfter), what, fmt.Sprintf(format, args...))
	}
	switch {
	case t.Before(k.NotBefore):
		return bad(ErrKeyNotYetValid, "the statement is of %s; the signer's clock was wrong or stepped back: set it, and sign again", clockTime(t))
	case t.After(k.NotAfter):
		return bad(ErrKeyExpired, "the statement is of %s; make a new key, or have an authority certify it for longer", clockTime(t))
	case logged.IsZero():
	case logged.Before(k.NotBefore):
		return bad(ErrKeyNotYetValid, "the statement was logged at %s, and is of %s; the clocks of signer and broker differ: set them", clockTime(logged), clockTime(t))
	case logged.After(k.NotAfter):
		return bad(ErrKeyExpired, "the statement is of %s by the signer's word, and was logged at %s: it came too late", clockTime(t), clockTime(logged))
	}
	return nil
}

// notRevoked is the fourth rule.
func (r *Keyring) notRevoked(k Key, logged time.Time) error {
	of := r.revoked[k.ID]
	if len(of) == 0 {
		return nil
	}
	if known := r.keys[k.ID]; len(known) > 0 {
		k = known[0].Key
	}
	v := slices.MinFunc(of, func(a, b Revocation) int { return a.From.Compare(b.From) })
	since := fmt.Sprintf("since %s (%q)", clockTime(v.From), v.Reason)
	switch {
	case logged.IsZero():
		return fmt.Errorf("%s: %w %s: without a receipt only the signer says that it was signed before; get the receipt from the log, if there is one", k, ErrKeyRevoked, since)
	case !logged.Before(v.From):
		return fmt.Errorf("%s: %w %s, and the statement was logged at %s", k, ErrKeyRevoked, since, clockTime(logged))
	}
	return nil
}

// mayState judges a statement about a key whose signature was checked.
func (r *Keyring) mayState(k Key, e Envelope, signer Key, logged time.Time) (Key, error) {
	if !k.SelfSigned() {
		return r.good(signer, k.Time, logged, certifies(k))
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	bytesOf := e.Encode()
	for _, known := range r.keys[k.ID] {
		if bytes.Equal(known.Envelope, bytesOf) {
			return known.Key, nil
		}
	}
	return Key{}, fmt.Errorf("%s: %w: a key's word about itself adds nothing to what is known of it; have an authority certify it", k, ErrRole)
}

// mayRevoke judges a revocation whose signature was checked. The key itself may
// always: whoever holds it, and be it a thief, can only take trust away.
func (r *Keyring) mayRevoke(v Revocation, signer Key, logged time.Time) (Key, error) {
	if v.SignedBy == v.KeyID {
		return signer, nil
	}
	// Without a receipt the authority's own word on the time has to do: to take
	// trust away needs less proof than to give it.
	if logged.IsZero() {
		logged = v.Time
	}
	return r.good(signer, v.Time, logged, asAuthority)
}
