package ledger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Add takes a statement about a key that a trusted authority signed, or a
// revocation that a trusted authority or the key itself signed, and refuses any
// other. What is known already is taken again without effect.
func (r *Keyring) Add(envelope []byte) error { return r.AddLogged(envelope, time.Time{}) }

// AddLogged is Add with the time of the statement's log entry, zero for none. It
// matters when the authority is revoked later: the keys that it certified stay
// good only where their statements were logged before.
func (r *Keyring) AddLogged(envelope []byte, logged time.Time) error {
	e, err := ReadEnvelope(envelope)
	if err != nil {
		return err
	}
	s, st, err := ParseStatement(e.Payload)
	if err != nil {
		return err
	}
	if !s.AboutKey() {
		return fmt.Errorf("%w: its predicate is %s", ErrKeyStatement, s.PredicateType)
	}
	if _, err := r.Check(e, s, st, logged); err != nil {
		return err
	}
	if s.PredicateType == KeyRevocation {
		v, err := revocationOf(e, s, st)
		if err != nil {
			return err
		}
		v.Envelope = bytes.Clone(envelope)
		r.addRevocation(v)
		return nil
	}
	k, err := keyOf(e, s, st)
	if err != nil {
		return err
	}
	k.Envelope = bytes.Clone(envelope)
	return r.addKey(knownKey{Key: k, logged: logged})
}

// AddAll adds statements whatever their order: first keys, then revocations by
// their time, as a key must be known for its own revocation to be checked. What
// is refused is left out, and the error joins the reasons.
func (r *Keyring) AddAll(envelopes ...[]byte) error {
	type revocation struct {
		at  time.Time
		raw []byte
	}
	var later []revocation
	var errs []error
	for _, raw := range envelopes {
		if v, err := ParseRevocation(raw); err == nil {
			later = append(later, revocation{v.Time, raw})
			continue
		}
		errs = append(errs, r.Add(raw))
	}
	slices.SortStableFunc(later, func(a, b revocation) int { return a.at.Compare(b.at) })
	for _, v := range later {
		errs = append(errs, r.Add(v.raw))
	}
	return errors.Join(errs...)
}

func (r *Keyring) addKey(k knownKey) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := slices.Clone(r.keys[k.ID])
	i := slices.IndexFunc(of, func(o knownKey) bool { return bytes.Equal(o.Envelope, k.Envelope) })
	switch {
	case i >= 0 && of[i].logged.IsZero():
		of[i].logged = k.logged
	case i >= 0:
		if !k.logged.IsZero() && k.logged.Before(of[i].logged) {
			of[i].logged = k.logged
		}
	case len(of) >= maxKeyStatements:
		return fmt.Errorf("%s: there are %d statements about it already, which is the most: make a new key", k, len(of))
	default:
		of = append(of, k)
	}
	r.keys[k.ID] = of
	return nil
}

func (r *Keyring) addRevocation(v Revocation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := slices.Clone(r.revoked[v.KeyID])
	i := slices.IndexFunc(of, func(o Revocation) bool { return o.SignedBy == v.SignedBy })
	switch {
	case i < 0:
		of = append(of, v)
	case cmp.Or(v.From.Compare(of[i].From), v.Time.Compare(of[i].Time)) < 0:
		of[i] = v
	}
	r.revoked[v.KeyID] = of
}
