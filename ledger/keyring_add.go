package ledger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Add takes a statement about a key that somebody signed who may certify it, or a
// revocation that a trusted authority or the key itself signed, and refuses any
// other. What is known already is taken again without effect. The time is that
// of the statement's log entry, zero for none. It matters when the authority is
// revoked later: the keys that it certified stay good only where their
// statements were logged before.
func (r *Keyring) Add(envelope []byte, logged time.Time) error {
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

// Logged is a statement about a key with the time of its log entry; the zero
// time means that none is known.
type Logged struct {
	Envelope []byte
	Time     time.Time
}

// AddAll adds statements whatever their order: first keys, those that certify
// others before those that are certified, then revocations by their time, as a
// key must be known for its own revocation to be checked. What is refused is left
// out, and the error joins the reasons.
func (r *Keyring) AddAll(statements ...Logged) error {
	type ranked struct {
		Logged
		rank int
		at   time.Time
	}
	var all []ranked
	for _, s := range statements {
		if v, err := ParseRevocation(s.Envelope); err == nil {
			all = append(all, ranked{s, 2, v.Time})
		} else if k, err := ParseKey(s.Envelope); err == nil && slices.Equal(k.Roles, []Role{RoleRun}) {
			all = append(all, ranked{s, 1, time.Time{}})
		} else { // what cannot be read is refused below
			all = append(all, ranked{s, 0, time.Time{}})
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Or(cmp.Compare(a.rank, b.rank), a.at.Compare(b.at)) })
	var errs []error
	for _, s := range all {
		errs = append(errs, r.Add(s.Envelope, s.Time))
	}
	return errors.Join(errs...)
}

func (r *Keyring) addKey(k knownKey) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := slices.Clone(r.keys[k.ID])
	i := slices.IndexFunc(of, func(o knownKey) bool { return bytes.Equal(o.Envelope, k.Envelope) })
	bySame := 0
	for _, o := range of {
		if o.SignedBy == k.SignedBy {
			bySame++
		}
	}
	switch {
	case i >= 0 && of[i].logged.IsZero():
		of[i].logged = k.logged
	case i >= 0:
		if !k.logged.IsZero() && k.logged.Before(of[i].logged) {
			of[i].logged = k.logged
		}
	case bySame >= maxKeyStatements:
		return fmt.Errorf("%s: there are %d statements about it by key %s already, which is the most: make a new key", k, bySame, shortKeyID(k.SignedBy))
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
