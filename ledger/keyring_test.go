package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
)

// signedRun is a statement of a run, small and of the right shape.
func signedRun(tb testing.TB, by Signer, node string, at time.Time) (Envelope, Statement, Stamp) {
	tb.Helper()
	id := ulid.MustNew(ulid.Timestamp(at), ulid.DefaultEntropy())
	predicate := fmt.Sprintf(`{"id":%q,"node":%q,"nonce":"00","time":%q}`, id, node, at.Format(time.RFC3339Nano))
	payload, err := Statement{
		Type: StatementType, PredicateType: GPUBenchmark, Predicate: []byte(predicate),
		Subject: []ResourceDescriptor{{Name: "run.json", Digest: map[string]string{"sha256": strings.Repeat("0", 64)}}},
	}.payload()
	if err != nil {
		tb.Fatal(err)
	}
	e, err := Sign(context.Background(), by, payload)
	if err != nil {
		tb.Fatal(err)
	}
	s, st, err := ParseStatement(e.Payload)
	if err != nil {
		tb.Fatal(err)
	}
	return e, s, st
}

func checkRun(tb testing.TB, r *Keyring, by Signer, node string, at, logged time.Time) (Key, error) {
	tb.Helper()
	e, s, st := signedRun(tb, by, node, at)
	return r.Check(e, s, st, logged)
}

// cast are the keys of the tests: an authority that is trusted, another that it
// certified, one node of its own and one that is trusted by itself.
type cast struct {
	root, second, node, lone, stranger   Signer
	rootKey, secondKey, nodeKey, loneKey Key
	end                                  time.Time
	ring                                 *Keyring
}

func newCast(tb testing.TB) cast {
	c := cast{root: testSigner("root"), second: testSigner("second"), node: testSigner("node"), lone: testSigner("lone"), stranger: testSigner("stranger")}
	c.rootKey = stateTestKey(tb, c.root, c.root, "office", RoleAuthority)
	c.secondKey = stateTestKey(tb, c.second, c.root, "branch", RoleAuthority)
	c.nodeKey = stateTestKey(tb, c.node, c.root, "n1", RoleRun)
	c.loneKey = stateTestKey(tb, c.lone, c.lone, "n2", RoleRun)
	c.end = keyDay.AddDate(0, 0, 10)
	c.ring = NewKeyring(c.rootKey, c.loneKey)
	for _, k := range []Key{c.secondKey, c.nodeKey} {
		if err := c.ring.Add(k.Envelope, time.Time{}); err != nil {
			tb.Fatal(err)
		}
	}
	return c
}

// unlogged are statements of which nobody knows when they were logged.
func unlogged(envelopes ...[]byte) (out []Logged) {
	for _, e := range envelopes {
		out = append(out, Logged{Envelope: e})
	}
	return out
}

func (c cast) revoke(tb testing.TB, k Key, by Signer, from, at time.Time) []byte {
	tb.Helper()
	v, err := StateRevocation(context.Background(), k, by, from, "stolen", RevocationOptions{Now: at})
	if err != nil {
		tb.Fatal(err)
	}
	return v.Envelope
}

func TestKeyWasGoodThen(t *testing.T) {
	c := newCast(t)
	day := func(n int) time.Time { return keyDay.AddDate(0, 0, n) }
	never := time.Time{}
	for _, tt := range []struct {
		name       string
		by         Signer
		node       string
		at, logged time.Time
		want       error
		says       string
	}{
		{"certified", c.node, "n1", day(1), never, nil, ""},
		{"certified, logged", c.node, "n1", day(1), day(1), nil, ""},
		{"trusted itself", c.lone, "n2", day(1), never, nil, ""},
		{"authority, any node", c.root, "n77", day(1), never, nil, ""},
		{"certified authority, any node", c.second, "n77", day(1), never, nil, ""},
		{"unknown", c.stranger, "n1", day(1), never, ErrUnknownKey, "trust its statement"},
		{"another node's", c.node, "n2", day(1), never, ErrOtherNode, `"n2"`},
		{"first moment", c.node, "n1", keyDay, keyDay, nil, ""},
		{"before", c.node, "n1", keyDay.Add(-1), never, ErrKeyNotYetValid, "stepped back"},
		{"logged before", c.node, "n1", keyDay, keyDay.Add(-time.Millisecond), ErrKeyNotYetValid, "clocks of signer and broker"},
		{"last moment", c.node, "n1", c.end, c.end, nil, ""},
		{"after", c.node, "n1", c.end.Add(1), never, ErrKeyExpired, "make a new key"},
		{"logged after", c.node, "n1", c.end, c.end.Add(time.Millisecond), ErrKeyExpired, "came too late"},
	} {
		k, err := checkRun(t, c.ring, tt.by, tt.node, tt.at, tt.logged)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %q does not say %q", tt.name, err, tt.says)
		}
		if err == nil && k.ID != KeyID(tt.by.Public()) {
			t.Errorf("%s: key %v", tt.name, k)
		}
	}
}

func TestAlteredStatementIsNotCalledExpired(t *testing.T) {
	c := newCast(t)
	e, s, st := signedRun(t, c.node, "n1", keyDay)
	e.Payload = []byte(strings.Replace(string(e.Payload), "2026", "2036", 1))
	st.Time = st.Time.AddDate(10, 0, 0)
	if _, err := c.ring.Check(e, s, st, time.Time{}); !errors.Is(err, ErrSignature) {
		t.Errorf("altered: %v", err)
	}
	e, s, st = signedRun(t, c.stranger, "n1", keyDay)
	e.Signatures[0].KeyID = c.nodeKey.ID // names a key that is good
	if _, err := c.ring.Check(e, s, st, time.Time{}); !errors.Is(err, ErrSignature) {
		t.Errorf("under another's name: %v", err)
	}
	e.Signatures = append(e.Signatures, e.Signatures[0])
	if _, err := c.ring.Check(e, s, st, time.Time{}); !errors.Is(err, ErrEnvelope) {
		t.Errorf("two signatures: %v", err)
	}
}

func TestRevokedKey(t *testing.T) {
	day := func(n int) time.Time { return keyDay.AddDate(0, 0, n) }
	for _, by := range []string{"authority", "itself"} {
		c := newCast(t)
		signer := c.root
		if by == "itself" {
			signer = c.node
		}
		raw := c.revoke(t, c.nodeKey, signer, day(3), day(4))
		for range 2 { // idempotent
			if err := c.ring.Add(raw, time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		if got := c.ring.Revocations(); len(got) != 1 || got[0].KeyID != c.nodeKey.ID || string(got[0].Envelope) != string(raw) {
			t.Errorf("revocations: %+v", got)
		}
		for _, tt := range []struct {
			name       string
			at, logged time.Time
			want       error
			says       string
		}{
			{"logged before", day(1), day(2), nil, ""},
			{"logged a moment before", day(1), day(3).Add(-time.Millisecond), nil, ""},
			{"logged in that moment", day(1), day(3), ErrKeyRevoked, "was logged at"},
			{"logged after, dated before", day(1), day(5), ErrKeyRevoked, "was logged at"},
			{"no receipt, dated before", day(1), time.Time{}, ErrKeyRevoked, "without a receipt"},
			{"no receipt, dated after", day(5), time.Time{}, ErrKeyRevoked, "without a receipt"},
		} {
			_, err := checkRun(t, c.ring, c.node, "n1", tt.at, tt.logged)
			if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("by %s: %s: %v, want %v (%q)", by, tt.name, err, tt.want, tt.says)
			}
		}
		// A revocation that reaches further back counts, a later one does not take
		// it back.
		for _, from := range []time.Time{day(1), day(8)} {
			if err := c.ring.Add(c.revoke(t, c.nodeKey, signer, from, day(5)), time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := checkRun(t, c.ring, c.node, "n1", day(1), day(2)); !errors.Is(err, ErrKeyRevoked) {
			t.Errorf("by %s: revoked from an earlier time: %v", by, err)
		}
		if got := c.ring.Revocations(); len(got) != 1 || !got[0].From.Equal(day(1)) {
			t.Errorf("by %s: revocations: %+v", by, got)
		}
		// A new statement of the authority does not bring it back.
		longer, err := StateKey(context.Background(), c.node.Public(), c.root, KeyOptions{Node: "n1", Owner: "o", Now: day(6)})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.ring.Add(longer.Envelope, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := checkRun(t, c.ring, c.node, "n1", day(7), day(7)); !errors.Is(err, ErrKeyRevoked) {
			t.Errorf("by %s: certified again: %v", by, err)
		}
	}
}

// Of the revocations by the key and by authorities the earliest counts.
func TestRevokedByTwo(t *testing.T) {
	for _, first := range []string{"itself", "authority"} {
		c := newCast(t)
		early, late := c.node, c.root
		if first == "authority" {
			early, late = late, early
		}
		if err := c.ring.AddAll(unlogged(c.revoke(t, c.nodeKey, late, keyDay.AddDate(0, 0, 5), keyDay), c.revoke(t, c.nodeKey, early, keyDay.AddDate(0, 0, 2), keyDay))...); err != nil {
			t.Fatal(err)
		}
		if n := len(c.ring.Revocations()); n != 2 {
			t.Errorf("%d revocations", n)
		}
		if _, err := checkRun(t, c.ring, c.node, "n1", keyDay, keyDay.AddDate(0, 0, 3)); !errors.Is(err, ErrKeyRevoked) {
			t.Errorf("first by %s: %v", first, err)
		}
		if _, err := checkRun(t, c.ring, c.node, "n1", keyDay, keyDay.AddDate(0, 0, 1)); err != nil {
			t.Errorf("first by %s: %v", first, err)
		}
	}
}

func TestKeyringRefusesToAdd(t *testing.T) {
	c := newCast(t)
	day := func(n int) time.Time { return keyDay.AddDate(0, 0, n) }
	at := func(whose, by Signer, now time.Time) []byte {
		k, err := StateKey(context.Background(), whose.Public(), by, KeyOptions{Node: "n9", Owner: "o", Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return k.Envelope
	}
	forged := stateTestKey(t, c.stranger, c.second, "n9")
	e, _ := ReadEnvelope(forged.Envelope)
	e.Signatures[0].KeyID = c.rootKey.ID
	run, _, _ := signedRun(t, c.root, "office", day(1))
	for _, tt := range []struct {
		name string
		raw  []byte
		want error
	}{
		{"self-signed, unknown", at(c.stranger, c.stranger, day(1)), ErrUnknownKey},
		{"by a stranger", at(c.node, c.stranger, day(1)), ErrUnknownKey},
		{"by a node", at(c.stranger, c.node, day(1)), ErrRole},
		{"by an authority that is only certified", at(c.stranger, c.second, day(1)), ErrRole},
		{"of a known key about itself", at(c.node, c.node, day(1)), ErrRole},
		{"of a trusted key about itself, for longer", at(c.lone, c.lone, day(1)), ErrRole},
		{"by the authority before its time", at(c.stranger, c.root, keyDay.Add(-time.Millisecond)), ErrKeyNotYetValid},
		{"by the authority after its time", at(c.stranger, c.root, c.end.Add(time.Millisecond)), ErrKeyExpired},
		{"under the authority's name", e.Encode(), ErrSignature},
		{"a run", run.Encode(), ErrKeyStatement},
		{"no envelope", []byte("{}"), ErrEnvelope},
		{"revoked by a stranger", c.revoke(t, c.nodeKey, c.stranger, day(1), day(1)), ErrUnknownKey},
		{"revoked by another node", c.revoke(t, c.nodeKey, c.lone, day(1), day(1)), ErrRole},
		{"revoked by an authority that is only certified", c.revoke(t, c.nodeKey, c.second, day(1), day(1)), ErrRole},
		{"revoked by the authority after its time", c.revoke(t, c.nodeKey, c.root, day(1), c.end.Add(time.Hour)), ErrKeyExpired},
	} {
		if err := c.ring.Add(tt.raw, time.Time{}); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if n := len(c.ring.Keys()); n != 4 {
		t.Errorf("%d keys, want 4", n)
	}
	if n := len(c.ring.Revocations()); n != 0 {
		t.Errorf("%d revocations", n)
	}
	if _, err := checkRun(t, c.ring, c.node, "n1", day(1), day(1)); err != nil {
		t.Error(err)
	}
	// The trusted key's own statement is known, so it may be logged.
	if err := c.ring.Add(c.loneKey.Envelope, time.Time{}); err != nil {
		t.Errorf("a trusted key's own statement: %v", err)
	}
	// An authority may revoke a key of which nothing else is known yet.
	unknown := stateTestKey(t, c.stranger, c.stranger, "n9")
	if err := c.ring.Add(c.revoke(t, unknown, c.root, day(1), day(1)), time.Time{}); err != nil {
		t.Errorf("revoke a key that is not known yet: %v", err)
	}
}

func TestAuthorityExtendsAKey(t *testing.T) {
	c := newCast(t)
	later := c.end.Add(time.Hour)
	if _, err := checkRun(t, c.ring, c.node, "n1", later, later); !errors.Is(err, ErrKeyExpired) {
		t.Fatal(err)
	}
	k, err := StateKey(context.Background(), c.node.Public(), c.root, KeyOptions{Node: "n1", Owner: "o", Now: keyDay.AddDate(0, 0, 9)})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ring.Add(k.Envelope, time.Time{}); err != nil {
		t.Fatal(err)
	}
	got, err := checkRun(t, c.ring, c.node, "n1", later, later)
	if err != nil || got.Stamp.ID != k.Stamp.ID {
		t.Errorf("%v, %v: want the statement that extends", got, err)
	}
	if _, err := checkRun(t, c.ring, c.node, "n1", keyDay, keyDay); err != nil {
		t.Errorf("the first statement stands: %v", err)
	}
	for i := range maxKeyStatements {
		k, err := StateKey(context.Background(), c.node.Public(), c.root, KeyOptions{Node: "n1", Owner: "o", Now: keyDay.Add(time.Duration(i) * time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.ring.Add(k.Envelope, time.Time{}); (err != nil) != (i >= maxKeyStatements-2) {
			t.Errorf("statement %d: %v", i+3, err)
		}
	}
}

// When the authority is revoked, what it certified falls with it, unless the log
// shows that it was certified before.
func TestAuthorityRevoked(t *testing.T) {
	day := func(n int) time.Time { return keyDay.AddDate(0, 0, n) }
	for _, tt := range []struct {
		name   string
		logged time.Time // of the node's key
		want   error
	}{
		{"certified without a log", time.Time{}, ErrKeyRevoked},
		{"certified and logged before", day(2), nil},
		{"certified, logged after", day(4), ErrKeyRevoked},
	} {
		c := newCast(t)
		if !tt.logged.IsZero() {
			if err := c.ring.Add(c.nodeKey.Envelope, tt.logged); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.ring.Add(c.revoke(t, c.rootKey, c.root, day(3), day(3)), time.Time{}); err != nil {
			t.Fatal(err)
		}
		_, err := checkRun(t, c.ring, c.node, "n1", day(5), day(5))
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if err != nil && !strings.Contains(err.Error(), "was certified on") {
			t.Errorf("%s: %q does not say that it is the authority's key", tt.name, err)
		}
		fresh := stateTestKey(t, c.stranger, c.root, "n9")
		if err := c.ring.Add(fresh.Envelope, time.Time{}); !errors.Is(err, ErrKeyRevoked) {
			t.Errorf("%s: a revoked authority certified: %v", tt.name, err)
		}
		if err := c.ring.Add(fresh.Envelope, day(3)); !errors.Is(err, ErrKeyRevoked) {
			t.Errorf("%s: a revoked authority certified, logged: %v", tt.name, err)
		}
		if err := c.ring.Add(fresh.Envelope, day(2)); err != nil {
			t.Errorf("%s: certified and logged before: %v", tt.name, err)
		}
		// It takes trust away up to its revocation, by its own word on the time or
		// by the log's.
		raw := c.revoke(t, c.loneKey, c.root, day(1), day(4))
		if err := c.ring.Add(raw, time.Time{}); !errors.Is(err, ErrKeyRevoked) {
			t.Errorf("%s: a revoked authority revoked: %v", tt.name, err)
		}
		raw = c.revoke(t, c.loneKey, c.root, day(1), day(2))
		if err := c.ring.Add(raw, day(4)); !errors.Is(err, ErrKeyRevoked) {
			t.Errorf("%s: a revoked authority revoked, dated back: %v", tt.name, err)
		}
		if err := c.ring.Add(raw, time.Time{}); err != nil {
			t.Errorf("%s: revoked before: %v", tt.name, err)
		}
	}
}

func TestAddAllTakesAnyOrder(t *testing.T) {
	c := newCast(t)
	r := NewKeyring(c.rootKey)
	err := r.AddAll(unlogged(
		c.revoke(t, c.rootKey, c.root, keyDay, keyDay.AddDate(0, 0, 3)), // reaches back before the last one
		c.revoke(t, c.nodeKey, c.node, keyDay, keyDay.AddDate(0, 0, 2)), // signed by a key that comes later
		c.revoke(t, c.secondKey, c.root, keyDay, keyDay.AddDate(0, 0, 1)),
		c.nodeKey.Envelope, c.secondKey.Envelope,
	)...)
	if err != nil {
		t.Error(err)
	}
	if len(r.Keys()) != 3 || len(r.Revocations()) != 3 {
		t.Errorf("%d keys, %d revocations", len(r.Keys()), len(r.Revocations()))
	}
	err = r.AddAll(unlogged([]byte("x"), c.loneKey.Envelope)...)
	if !errors.Is(err, ErrEnvelope) || !errors.Is(err, ErrUnknownKey) {
		t.Errorf("both reasons are wanted: %v", err)
	}
}

// Check passes a statement about a key exactly when Add takes it.
func TestCheckOfKeyStatements(t *testing.T) {
	c := newCast(t)
	for name, raw := range map[string][]byte{
		"certified":           stateTestKey(t, c.stranger, c.root, "n9").Envelope,
		"self-signed":         stateTestKey(t, c.stranger, c.stranger, "n9").Envelope,
		"known":               c.loneKey.Envelope,
		"revocation":          c.revoke(t, c.nodeKey, c.root, keyDay, keyDay),
		"revocation by other": c.revoke(t, c.nodeKey, c.lone, keyDay, keyDay),
	} {
		e, err := ReadEnvelope(raw)
		if err != nil {
			t.Fatal(err)
		}
		s, st, err := ParseStatement(e.Payload)
		if err != nil {
			t.Fatal(err)
		}
		_, checked := c.ring.Check(e, s, st, keyDay)
		if added := newCast(t).ring.Add(raw, keyDay); (checked == nil) != (added == nil) {
			t.Errorf("%s: Check says %v, Add %v", name, checked, added)
		}
	}
}

func TestKeyringConcurrently(t *testing.T) {
	c := newCast(t)
	e, s, st := signedRun(t, c.lone, "n2", keyDay)
	e2, s2, st2 := signedRun(t, c.node, "n1", keyDay)
	raws := make([][]byte, 20)
	for i := range raws {
		raws[i] = stateTestKey(t, testSigner(fmt.Sprint("many", i)), c.root, fmt.Sprint("m", i)).Envelope
	}
	revocation := c.revoke(t, c.nodeKey, c.root, keyDay.Add(time.Hour), keyDay)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				if _, err := c.ring.Check(e, s, st, keyDay); err != nil {
					t.Error(err)
				}
				if _, err := c.ring.Check(e2, s2, st2, keyDay); err != nil {
					t.Error(err)
				}
				_, _ = c.ring.Keys(), c.ring.Revocations()
			}
		})
		wg.Go(func() {
			for i, raw := range raws {
				if err := c.ring.Add(raw, time.Time{}); err != nil {
					t.Error(err)
				}
				if i == 10 {
					if err := c.ring.Add(revocation, time.Time{}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := len(c.ring.Keys()); n != 4+len(raws) {
		t.Errorf("%d keys", n)
	}
}

func BenchmarkKeyringCheck(b *testing.B) {
	c := newCast(b)
	e, s, st := signedRun(b, c.node, "n1", keyDay)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.ring.Check(e, s, st, keyDay); err != nil {
				b.Fatal(err)
			}
		}
	})
}
