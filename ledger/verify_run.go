package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay"
)

// compare holds the files against what was signed.
func (v *verification) compare() {
	var signed []ResourceDescriptor
	for _, s := range v.statements {
		if s != nil {
			signed = s.statement.Subject // where they differ, agree has said so
		}
	}
	digest := map[string]string{}
	for _, s := range signed {
		digest[s.Name] = s.Digest["sha256"]
	}
	v.intact = len(signed) > 0
	for _, name := range v.d.layout.subjects() {
		want, covered := digest[name]
		found, err := v.found(name)
		out := VerifiedSubject{Name: name, Signed: want, Found: found}
		switch {
		case errors.Is(err, fs.ErrNotExist) && !covered:
			continue // neither there nor signed
		case errors.Is(err, fs.ErrNotExist):
			out.State = SubjectMissing
			v.fail("%s was signed and is missing", name)
		case err != nil:
			out.State = SubjectAltered
			v.fail("%s: %v", name, err)
		case !covered:
			out.State = SubjectNotSigned
			if len(signed) > 0 {
				v.fail("%s is not covered by the signature: it was added later", name)
			}
		case found != want:
			out.State = SubjectAltered
			v.fail("%s was altered after it was signed", name)
		default:
			out.State = SubjectSame
		}
		v.intact = v.intact && out.State == SubjectSame
		v.Subjects = append(v.Subjects, out)
	}
	others, more, err := v.d.others()
	if err != nil {
		v.unknown("list the directory: %v", err)
	}
	if len(others) > 0 {
		and := ""
		if more {
			and = " and more"
		}
		v.note("also there, no part of the %s and not signed: %q%s", v.d.layout.thing, others, and)
	}
}

// found is a subject's hash as it is now; fs.ErrNotExist when there is none.
func (v *verification) found(name string) (string, error) {
	switch name {
	case configSubject:
		return v.d.configSum()
	case binarySubject:
		m, err := v.d.manifest()
		if err == nil && m.Version.BinarySHA256 == "" {
			err = fs.ErrNotExist
		}
		if err != nil {
			return "", err
		}
		return m.Version.BinarySHA256, nil
	}
	return v.d.sum(name)
}

// manifest reads run.json without the rest of the run.
func (d *runDir) manifest() (*assay.Manifest, error) {
	r, err := d.runFile()
	if err == nil {
		err = r.err
	}
	if err != nil {
		return nil, err
	}
	return &r.manifest, nil
}

// about holds the statements against the run beside which they lie.
func (v *verification) about() {
	m, err := v.d.manifest()
	if err != nil {
		v.fail("%v", err)
		return
	}
	v.manifest = m
	v.Run = &VerifiedRun{
		ID: m.ID, Node: m.Node.ID, Nonce: m.Nonce, Created: time.Unix(0, m.Created).UTC(), Model: m.Engine.Model,
		Status: assay.StatusPartial, Result: "unknown",
	}
	if !slices.ContainsFunc(v.statements, func(s *statement) bool { return s != nil }) {
		v.Run.Status = v.d.status() // nobody has signed another
	}
	for _, s := range v.statements {
		if s == nil {
			continue
		}
		switch {
		case s.stamp.Node != m.Node.ID:
			v.fail("%s is of node %q, and the run of node %q: it was taken from another run", s.file, s.stamp.Node, m.Node.ID)
		case s.stamp.Nonce != m.Nonce:
			v.fail("%s has the nonce %q, and the run %q: it was taken from another run", s.file, s.stamp.Nonce, m.Nonce)
		}
		if err := v.predicate(s); err != nil {
			v.fail("%s: %v", s.file, err)
		}
	}
	switch {
	case v.o.Nonce != "" && v.o.Nonce != m.Nonce:
		v.fail("the run has the nonce %q, not the %q that was asked for: it is another run, or was made before it was asked for", m.Nonce, v.o.Nonce)
	case m.Nonce == "":
		v.note("the run has no nonce: nothing says that it was made for whoever asked for it")
	}
}

// predicate reads what a statement says of the run.
func (v *verification) predicate(s *statement) error {
	if s.statement.PredicateType == TestResult {
		var p TestResultPredicate
		if err := strict(s.statement.Predicate, &p); err != nil {
			return fmt.Errorf("%w: %w", ErrStatement, err)
		}
		if p.Result != "PASSED" && p.Result != "WARNED" && p.Result != "FAILED" {
			return fmt.Errorf("%w: its result is %.40q", ErrStatement, p.Result)
		}
		v.Run.Result = p.Result
		return nil
	}
	var b Benchmark
	if err := strict(s.statement.Predicate, &b); err != nil {
		return fmt.Errorf("%w: %w", ErrStatement, err)
	}
	v.Run.Status = b.Run.Status
	if b.Run.ID != v.manifest.ID {
		return fmt.Errorf("it is about run %.40q, and this is run %.40q: it was taken from another run", b.Run.ID, v.manifest.ID)
	}
	return nil
}

// receipt judges the receipt of a statement.
func (v *verification) receipt(s *statement, out *VerifiedStatement) {
	i := slices.IndexFunc(v.d.layout.statements, func(f statementFile) bool { return f.file == s.file })
	out.Log = v.logged(v.d.layout.statements[i].receipt, s.file, s.raw, s.stamp.ID, v.o.NeedReceipt)
	if out.Log != nil {
		s.logged = out.Log.Time
	}
}

// keyReceipt is the time at which the statement about the key was logged, where a
// receipt shows it: it counts when who certified the key is revoked.
func (v *verification) keyReceipt(raw []byte, id ulid.ULID) time.Time {
	if l := v.logged(KeyReceipt, KeyFile, raw, id, false); l != nil {
		return l.Time
	}
	return time.Time{}
}

// logged judges the receipt of an envelope; nil: there is none that is good.
func (v *verification) logged(name, of string, envelope []byte, id ulid.ULID, need bool) *VerifiedLog {
	raw, err := v.d.bytes(name, MaxReceipt)
	if errors.Is(err, fs.ErrNotExist) {
		if need {
			v.unknown("%s is in no log: there is no %s; assay ledger prove gets it from the log", of, name)
		}
		return nil
	}
	var r Receipt
	if err == nil {
		r, err = ReadReceipt(raw)
	}
	if err == nil && r.ID != id {
		err = fmt.Errorf("%w: its id is %s, and that of %s is %s", ErrOtherReceipt, r.ID, of, id)
	}
	if err != nil {
		v.fail("%s: %v", name, err)
		return nil
	}
	if v.o.Policy == nil {
		if need {
			v.unknown("%s was not judged: no policy says which logs and witnesses to trust; give one with --trust", name)
		} else {
			v.note("%s is there and was not judged: no policy says which logs and witnesses to trust", name)
		}
		return nil
	}
	c, err := v.o.Policy.VerifyReceipt(r, envelope)
	switch {
	case errors.Is(err, ErrUnknownSigner):
		v.unknown("%s: %v", name, err)
		return nil
	case err != nil:
		v.fail("%s: %v", name, err)
		return nil
	}
	return &VerifiedLog{
		Origin: c.Origin, Index: r.Index, Size: c.Size, Time: r.Time,
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Witnesses: append([]Cosignature{}, c.Cosigned...),
	}
}

// fresh says when what is known of keys is too old.
func (v *verification) fresh() {
	newest := time.Time{}
	for _, k := range v.Keys {
		if k.AsOf.After(v.o.Now.Add(futureSlack)) {
			v.unknown("the keys of %s are of %s, and here it is %s: one of the clocks is wrong", k.Origin, clockTime(k.AsOf), clockTime(v.o.Now))
		}
		if k.By != "collector" && k.AsOf.After(newest) {
			newest = k.AsOf
		}
	}
	switch {
	case v.o.MaxKeysAge <= 0:
	case newest.IsZero():
		v.unknown("no log's keys were given of whose age a witness or the log tells, and they may be at most %s old: assay ledger keys collects them", v.o.MaxKeysAge)
	case v.o.Now.Sub(newest) > v.o.MaxKeysAge:
		v.unknown("the log's keys are of %s, and may be at most %s old: assay ledger keys collects them again", clockTime(newest), v.o.MaxKeysAge)
	}
}

// signature checks whose signature it is, and whether the key was good then.
func (v *verification) signature(s *statement, out *VerifiedStatement) {
	id := s.envelope.Signatures[0].KeyID
	if v.key != nil && v.key.ID != id {
		v.fail("%s is signed by key %s, and %s is about another key, %s", s.file, shortKeyID(id), KeyFile, shortKeyID(v.key.ID))
	}
	k, err := v.o.Keys.Check(s.envelope, s.statement, s.stamp, s.logged)
	switch {
	case err == nil:
		out.Signature = "good"
		v.signedBy(k, true)
	case errors.Is(err, ErrUnknownKey) && (v.key == nil || v.key.ID != id):
		v.unknown("%s: %v", s.file, err)
	case errors.Is(err, ErrUnknownKey):
		// The key beside the run says at least whether the signature fits.
		if _, err := NewKeyring(*v.key).Check(s.envelope, s.statement, s.stamp, s.logged); err != nil {
			out.Signature = "bad"
			v.fail("%s: %v", s.file, err)
			return
		}
		out.Signature = "good"
		v.signedBy(*v.key, false)
		v.unknown("%s: the signature is good, but no trusted statement says whose key %s is: give its statement, or its authority's, with --trust", s.file, shortKeyID(id))
	default:
		out.Signature = "bad"
		v.fail("%s: %v", s.file, err)
	}
}

// signedBy says whose key it is.
func (v *verification) signedBy(k Key, trusted bool) {
	out := &VerifiedSigner{
		KeyID: k.ID, Trusted: trusted, Owner: k.Owner, Node: k.Node, NotBefore: k.NotBefore.UTC(), NotAfter: k.NotAfter.UTC(), SelfSigned: k.SelfSigned(),
	}
	if !k.SelfSigned() {
		out.AuthorityKey = k.SignedBy
		for _, a := range v.o.Keys.Keys() {
			if a.ID == k.SignedBy {
				out.Authority = a.Owner
			}
		}
	}
	for _, r := range v.o.Keys.Revocations() {
		out.Revocations++
		if at := r.Time.UTC(); out.RevocationsTo == nil || at.After(*out.RevocationsTo) {
			out.RevocationsTo = &at
		}
	}
	v.Signer = out
}

// since finds the earliest time at which somebody knew the files' hashes. It
// says nothing where they are not what was signed.
func (v *verification) since() {
	if !v.intact {
		return
	}
	rank := map[string]int{"witness": 0, "log": 1, "signer": 2}
	offer := func(by, who string, at time.Time) {
		if v.Since == nil || rank[by] < rank[v.Since.By] || by == v.Since.By && at.Before(v.Since.Time) {
			v.Since = &VerifiedSince{at.UTC(), by, who}
		}
	}
	for i, s := range v.statements {
		if s == nil || v.Statements[i].Signature != "good" {
			continue
		}
		offer("signer", v.Signer.Owner, s.stamp.Time)
		if l := v.Statements[i].Log; l != nil {
			offer("log", l.Origin, l.Time)
			for _, w := range l.Witnesses {
				offer("witness", w.Name, w.Time)
			}
		}
	}
}
