package ledger

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// keyDay is the day on which keys of these tests are made.
var keyDay = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// testSigner is the signer of a key that is the same in each run of the tests.
func testSigner(name string) Signer {
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, name)
	return HeldKey(ed25519.NewKeyFromSeed(seed))
}

// stateTestKey makes a key statement that holds from keyDay for ten days.
func stateTestKey(tb testing.TB, whose, by Signer, node string, roles ...Role) Key {
	tb.Helper()
	id := ulid.ULID(append(whose.Public()[:8:8], by.Public()[:8]...)) // the same each time
	k, err := StateKey(context.Background(), whose.Public(), by, KeyOptions{
		ID: id, Node: node, Owner: "Owner of " + node, Roles: roles, Now: keyDay,
		NotBefore: keyDay, NotAfter: keyDay.AddDate(0, 0, 10),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

func keySchema(tb testing.TB, name string) *jsonschema.Schema {
	tb.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	s, err := c.Compile(filepath.Join("..", "docs", "formats", "schema", name+".schema.json"))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// keyPredicateOf is the predicate of an envelope, as a document.
func keyPredicateOf(tb testing.TB, envelope []byte) any {
	tb.Helper()
	e, err := ReadEnvelope(envelope)
	if err != nil {
		tb.Fatal(err)
	}
	s, _, err := ParseStatement(e.Payload)
	if err != nil {
		tb.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.Predicate))
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func TestKeyStatement(t *testing.T) {
	node := testSigner("node")
	k, err := StateKey(context.Background(), node.Public(), node, KeyOptions{Node: "n1", Owner: "Jürgen & Söhne <gpu>", Now: keyDay.Add(1500 * time.Microsecond)})
	if err != nil {
		t.Fatal(err)
	}
	if k.ID != KeyID(node.Public()) || !k.SelfSigned() || !k.Has(RoleRun) || k.Has(RoleAuthority) || k.Node != "n1" || k.Owner != "Jürgen & Söhne <gpu>" {
		t.Errorf("key = %+v", k)
	}
	if want := keyDay.Add(-5 * time.Minute); !k.NotBefore.Equal(want) {
		t.Errorf("not before %v, want %v", k.NotBefore, want)
	}
	if want := keyDay.AddDate(1, 0, 0); !k.NotAfter.Equal(want) {
		t.Errorf("not after %v, want %v", k.NotAfter, want)
	}
	again, err := ParseKey(k.Envelope)
	if err != nil || again.String() != k.String() || again.Stamp != k.Stamp || !bytes.Equal(again.Envelope, k.Envelope) {
		t.Errorf("read again: %+v, %v", again, err)
	}
	if err := keySchema(t, "key").Validate(keyPredicateOf(t, k.Envelope)); err != nil {
		t.Error(err)
	}
	v, err := StateRevocation(context.Background(), k, node, keyDay.Add(1500*time.Millisecond), "stolen", RevocationOptions{Now: keyDay})
	if err != nil {
		t.Fatal(err)
	}
	if v.KeyID != k.ID || !v.From.Equal(keyDay.Add(time.Second)) || v.Node != "n1" || v.SignedBy != k.ID {
		t.Errorf("revocation = %+v", v)
	}
	if err := keySchema(t, "key-revocation").Validate(keyPredicateOf(t, v.Envelope)); err != nil {
		t.Error(err)
	}
	if _, err := ParseKey(v.Envelope); !errors.Is(err, ErrKeyStatement) {
		t.Errorf("a revocation as a key: %v", err)
	}
	if _, err := ParseRevocation(k.Envelope); !errors.Is(err, ErrKeyStatement) {
		t.Errorf("a key as a revocation: %v", err)
	}
}

// With its id and time given, a statement is the same bytes each time.
func TestKeyStatementIsReproducible(t *testing.T) {
	node := testSigner("node")
	o := KeyOptions{Node: "n1", Owner: "o", Now: keyDay, ID: ulid.MustParse("01JCQ00000000000000000000A")}
	a, err1 := StateKey(context.Background(), node.Public(), node, o)
	b, err2 := StateKey(context.Background(), node.Public(), node, o)
	if err1 != nil || err2 != nil || !bytes.Equal(a.Envelope, b.Envelope) {
		t.Errorf("%v, %v\n%s%s", err1, err2, a.Envelope, b.Envelope)
	}
}

func TestStateKeyRefuses(t *testing.T) {
	node := testSigner("node")
	good := KeyOptions{Node: "n1", Owner: "o", Now: keyDay}
	for name, change := range map[string]func(*KeyOptions){
		"no owner":              func(o *KeyOptions) { o.Owner = "" },
		"owner of spaces":       func(o *KeyOptions) { o.Owner = "  " },
		"long owner":            func(o *KeyOptions) { o.Owner = strings.Repeat("x", 201) },
		"owner with an escape":  func(o *KeyOptions) { o.Owner = "a\x1b[2Jb" },
		"owner that turns text": func(o *KeyOptions) { o.Owner = "a\u202eb" },
		"no node":               func(o *KeyOptions) { o.Node = "" },
		"node with a newline":   func(o *KeyOptions) { o.Node = "a\nb" },
		"unknown role":          func(o *KeyOptions) { o.Roles = []Role{"root"} },
		"a role twice":          func(o *KeyOptions) { o.Roles = []Role{RoleRun, RoleRun} },
		"ends as it begins":     func(o *KeyOptions) { o.NotBefore, o.NotAfter = keyDay, keyDay },
		"ends before it begins": func(o *KeyOptions) { o.NotBefore, o.NotAfter = keyDay, keyDay.Add(-time.Hour) },
	} {
		o := good
		change(&o)
		if k, err := StateKey(context.Background(), node.Public(), node, o); err == nil {
			t.Errorf("%s: made %+v", name, k)
		}
	}
	if _, err := StateKey(context.Background(), node.Public()[:31], node, good); err == nil {
		t.Error("a public key of 31 bytes was taken")
	}
	k := stateTestKey(t, node, node, "n1")
	for name, reason := range map[string]string{"none": "", "long": strings.Repeat("x", 501), "bell": "\a"} {
		if _, err := StateRevocation(context.Background(), k, node, keyDay, reason, RevocationOptions{}); err == nil {
			t.Errorf("%s: the reason was taken", name)
		}
	}
	if _, err := StateRevocation(context.Background(), k, node, time.Time{}, "stolen", RevocationOptions{}); err == nil {
		t.Error("a revocation since no time was made")
	}
}

// resign makes an envelope of a changed payload with a good signature.
func resign(tb testing.TB, envelope []byte, by Signer, change func(string) string) []byte {
	tb.Helper()
	e, err := ReadEnvelope(envelope)
	if err != nil {
		tb.Fatal(err)
	}
	changed := change(string(e.Payload))
	if changed == string(e.Payload) {
		tb.Fatal("nothing was changed")
	}
	if e, err = Sign(context.Background(), by, []byte(changed)); err != nil {
		tb.Fatal(err)
	}
	return e.Encode()
}

func TestParseKeyRefuses(t *testing.T) {
	node, other := testSigner("node"), testSigner("other")
	k := stateTestKey(t, node, node, "n1")
	swap := func(old, new string) func(string) string {
		return func(s string) string { return strings.ReplaceAll(s, old, new) }
	}
	for name, change := range map[string]func(string) string{
		"member unknown":      swap(`"owner":`, `"admin":true,"owner":`),
		"member in capitals":  swap(`"owner":`, `"OWNER":`),
		"member twice":        swap(`"owner":`, `"owner":"Somebody","owner":`),
		"member missing":      swap(`,"not_after":"2026-11-25T12:00:00Z"`, ``),
		"nonce":               swap(`"nonce":""`, `"nonce":"00"`),
		"subject of another":  swap(k.ID, KeyID(other.Public())),
		"subject's name":      swap(`"ed25519:`, `"rsa:`),
		"second subject":      swap(`"}}],`, `"}},{"name":"x","digest":{"sha256":"`+k.ID+`"}}],`),
		"second digest":       swap(`"digest":{`, `"digest":{"md5":"00",`),
		"short public key":    swap(`"public_key":"`, `"public_key":"AAAA`),
		"public key, newline": swap(`=","owner"`, `\n=","owner"`),
		"roles not a list":    swap(`["run"]`, `"run"`),
		"no roles":            swap(`["run"]`, `[]`),
		"time not a time":     swap(`2026-11-25T12:00:00Z`, `for ever`),
		"predicate of a run":  swap(`assay/key/v1`, `assay/gpu-benchmark/v1`),
		"predicate a list":    func(s string) string { return s[:strings.Index(s, `"predicate":`)] + `"predicate":[]}` },
	} {
		if got, err := ParseKey(resign(t, k.Envelope, node, change)); err == nil {
			t.Errorf("%s: taken: %+v", name, got)
		}
	}
	// The same words, signed by a key that is not the one they name.
	e, _ := ReadEnvelope(k.Envelope)
	sig, _ := other.Sign(t.Context(), PAE(PayloadType, e.Payload))
	e.Signatures[0].Sig = sig
	if _, err := ParseKey(e.Encode()); !errors.Is(err, ErrSignature) {
		t.Errorf("another's signature: %v", err)
	}
	if _, err := ParseKey(append(bytes.Clone(k.Envelope), '\n')); !errors.Is(err, ErrNotCanonical) {
		t.Errorf("a byte behind it: %v", err)
	}
	if _, err := ParseKey(make([]byte, MaxValue+1)); !errors.Is(err, ErrEnvelope) {
		t.Errorf("too long: %v", err)
	}
}

// A self-signed statement in which any byte was changed is found out.
func TestKeyStatementEachByteCounts(t *testing.T) {
	node := testSigner("node")
	k := stateTestKey(t, node, node, "n1")
	for i := range k.Envelope {
		for _, x := range []byte{1, 0x20, 0x80} {
			b := bytes.Clone(k.Envelope)
			b[i] ^= x
			got, err := ParseKey(b)
			if err == nil && got.SelfSigned() {
				t.Fatalf("byte %d xor %#x: taken", i, x)
			}
			// With another signer's id nobody can say here; a keyring can.
			if err == nil && NewKeyring(k).Add(b, time.Time{}) == nil {
				t.Fatalf("byte %d xor %#x: added", i, x)
			}
		}
	}
}

func TestKeySchemasRefuse(t *testing.T) {
	node := testSigner("node")
	k := stateTestKey(t, node, node, "n1")
	v, err := StateRevocation(context.Background(), k, node, keyDay, "stolen", RevocationOptions{Now: keyDay})
	if err != nil {
		t.Fatal(err)
	}
	for name, envelope := range map[string][]byte{"key": k.Envelope, "key-revocation": v.Envelope} {
		s := keySchema(t, name)
		members := keyPredicateOf(t, envelope).(map[string]any)
		for m := range members {
			for what, value := range map[string]any{"missing": nil, "a number": json.Number("7"), "other words": "\x00"} {
				doc := map[string]any{}
				for n, x := range members {
					doc[n] = x
				}
				if doc[m] = value; value == nil {
					delete(doc, m)
				}
				if what == "other words" && (m == "owner" || m == "node" || m == "reason") {
					continue // words are for the reader to judge
				}
				if s.Validate(doc) == nil {
					t.Errorf("%s: %s %s keeps the schema", name, m, what)
				}
			}
		}
		members["more"] = true
		if s.Validate(members) == nil {
			t.Errorf("%s: one member more keeps the schema", name)
		}
	}
}

func FuzzParseKey(f *testing.F) {
	node := testSigner("node")
	k := stateTestKey(f, node, node, "n1")
	v, err := StateRevocation(context.Background(), k, node, keyDay, "stolen", RevocationOptions{Now: keyDay})
	if err != nil {
		f.Fatal(err)
	}
	ke, _ := ReadEnvelope(k.Envelope)
	ve, _ := ReadEnvelope(v.Envelope)
	f.Add(ke.Payload)
	f.Add(ve.Payload)
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		_, _ = ParseKey(payload) // as an envelope
		// Behind the signature, which a fuzzer does not come past.
		s, st, err := ParseStatement(payload)
		if err != nil {
			return
		}
		e := Envelope{payload, PayloadType, []Signature{{k.ID, nil}}}
		if k, err := keyOf(e, s, st); err == nil {
			if k.ID != KeyID(k.Public) || k.Owner == "" || k.Node == "" || len(k.Roles) == 0 || !k.NotBefore.Before(k.NotAfter) || len(k.Owner) > MaxOwner {
				t.Errorf("taken: %+v", k)
			}
			if strings.ContainsAny(k.String(), "\x1b\n\r") {
				t.Errorf("a name for a terminal to stumble on: %q", k)
			}
		}
		if v, err := revocationOf(e, s, st); err == nil && (!isSHA256(v.KeyID) || v.Reason == "" || v.From.IsZero()) {
			t.Errorf("taken: %+v", v)
		}
	})
}
