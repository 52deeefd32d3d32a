package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay/ledger"
)

// A notary must take what is made here, and it must be as large as what real runs
// make.
func TestStatementsAreGood(t *testing.T) {
	dir := t.TempDir()
	keys, err := openKeys(t.Context(), dir, 2)
	if err != nil {
		t.Fatal(err)
	}
	again, err := openKeys(t.Context(), dir, 2)
	if err != nil {
		t.Fatal(err)
	}
	pub, err := os.ReadFile(filepath.Join(dir, "authority.pub"))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := ledger.ParseKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	ring := ledger.NewKeyring(authority)
	for i, k := range keys {
		if !bytes.Equal(k.key.Envelope, again[i].key.Envelope) || !bytes.Equal(k.signer.Public(), again[i].signer.Public()) {
			t.Errorf("%s has another key after a restart", k.key.Node)
		}
		if err := ring.Add(k.key.Envelope, time.Time{}); err != nil {
			t.Fatal(err)
		}
		r, err := k.statement(t.Context(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(r.Value); n < 2200 || n > 2800 {
			t.Errorf("an envelope has %d bytes; about 2500 are wanted", n)
		}
		same, err := ledger.RecordOf(r.Value)
		if err != nil || same.ID != r.ID || same.Node != r.Node {
			t.Errorf("%v, %v", same, err)
		}
		e, err := ledger.ReadEnvelope(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		s, st, err := ledger.ParseStatement(e.Payload)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ring.Check(e, s, st, time.Now()); err != nil {
			t.Error(err)
		}
	}
}

func TestAcceptedSurvivesATornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "accepted")
	a, err := openAccepted(path)
	if err != nil {
		t.Fatal(err)
	}
	one, two := ulid.Make(), ulid.Make()
	if err := a.note(one); err != nil {
		t.Fatal(err)
	}
	if _, err := a.f.WriteString(two.String()[:9]); err != nil {
		t.Fatal(err)
	}
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	if a, err = openAccepted(path); err != nil {
		t.Fatal(err)
	}
	if a.before != 1 || a.total() != 1 {
		t.Errorf("%d before, %d in total; want 1, 1", a.before, a.total())
	}
	if err := a.note(two); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := one.String() + "\n" + two.String() + "\n"; string(b) != want {
		t.Errorf("%q, want %q", b, want)
	}
}
