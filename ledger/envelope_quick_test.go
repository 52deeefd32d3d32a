package ledger

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"reflect"
	"testing"
)

func someEnvelope(tb testing.TB) []byte {
	tb.Helper()
	e, err := Sign(context.Background(), HeldKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))), []byte(`{"_type":"something to be signed"}`))
	if err != nil {
		tb.Fatal(err)
	}
	return e.Encode()
}

// What the quick way takes, the strict reader takes too, and to the same effect.
func FuzzQuickEnvelope(f *testing.F) {
	r := someEnvelope(f)
	f.Add(r)
	f.Add(bytes.Replace(r, []byte("payload\":\""), []byte("payload\":\"\n"), 1))
	f.Add(bytes.Replace(r, []byte(`"sig":"`), []byte(`"sig":"\n`), 1))
	f.Add(append(bytes.TrimSuffix(r, []byte("\n")), ' '))
	f.Add([]byte(`{"payloadType":"application/vnd.in-toto+json","payload":"","signatures":[{"keyid":"`))
	f.Fuzz(func(t *testing.T, b []byte) {
		quick, ok := quickEnvelope(b)
		if !ok {
			return
		}
		slow, err := canonicalEnvelope(b)
		if err != nil || !reflect.DeepEqual(quick, slow) {
			t.Errorf("quick %+v, strict %+v, %v", quick, slow, err)
		}
	})
}

// Each byte of an envelope changed: taken by both or by none, and the good one by
// the quick way.
func TestQuickEnvelope(t *testing.T) {
	good := someEnvelope(t)
	if _, ok := quickEnvelope(good); !ok {
		t.Fatal("the quick way is not taken")
	}
	for i := range good {
		for _, x := range []byte{1, 0x80, good[i] ^ '\n'} {
			b := bytes.Clone(good)
			b[i] ^= x
			quick, ok := quickEnvelope(b)
			slow, err := canonicalEnvelope(b)
			if ok && (err != nil || !reflect.DeepEqual(quick, slow)) {
				t.Fatalf("byte %d ^ %#x: quick %v, strict %v", i, x, ok, err)
			}
		}
	}
}
