package tlog

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/assay-bench/assay/ledger"
)

// What a log says about keys is collected in full, and only from entries that make
// its root.
func TestKeysOfALog(t *testing.T) {
	authority, node := keyOf("authority"), keyOf("node")
	at := testEntry("s", 0).Time
	o := ledger.KeyOptions{Node: "node", Owner: "somebody", NotBefore: at.Add(-time.Hour), NotAfter: at.Add(time.Hour), Now: at, ID: testEntry("s", 1).ID}
	key, err := ledger.StateKey(context.Background(), node.Public(), authority, o)
	if err != nil {
		t.Fatal(err)
	}
	gone, err := ledger.StateRevocation(context.Background(), key, authority, at, "stolen", ledger.RevocationOptions{ID: testEntry("s", 3).ID, Now: at})
	if err != nil {
		t.Fatal(err)
	}
	entries := []ledger.Entry{signedEntry(t, 0, "node", node), testEntry("s", 1), signedEntry(t, 2, "node", node), testEntry("s", 3), testEntry("s", 4)}
	entries[1].Envelope, entries[3].Envelope = key.Envelope, gone.Envelope
	dir := filepath.Join(t.TempDir(), "log")
	a := startLog(t, dir, logOptions{})
	a.append(t, entries...)
	a.end(t)

	got, cp, err := Keys(t.Context(), open(t, dir), testPolicy(t), at, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := got.Statements; cp.Size != 5 || len(s) != 2 || !bytes.Equal(s[0].Envelope, key.Envelope) || !bytes.Equal(s[1].Envelope, gone.Envelope) || !s[0].Time.Equal(entries[1].Time) {
		t.Errorf("size %d, %d statements", cp.Size, len(s))
	}

	// A log that hides the revocation behind another entry does not make its root.
	bundle := filepath.Join(dir, "tile", "entries", "000.p", "5")
	b, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.Index(b, gone.Envelope[:200])
	b[i+150] ^= 1
	if err := os.WriteFile(bundle, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Keys(t.Context(), open(t, dir), testPolicy(t), at, nil); !errors.Is(err, ErrAltered) {
		t.Errorf("with an altered entry: %v", err)
	}
}
