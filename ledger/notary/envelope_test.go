package notary

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/assay-bench/assay/ledger"
)

// What the quick way takes, the strict reader takes too, and to the same effect.
func FuzzQuickEnvelope(f *testing.F) {
	r := runRecord("node-0", 1).Value
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
		slow, err := ledger.ReadEnvelope(b)
		if err != nil || !reflect.DeepEqual(quick, slow) {
			t.Errorf("quick %+v, strict %+v, %v", quick, slow, err)
		}
	})
}

// Each byte of an envelope changed: taken by both or by none, and the good one by
// the quick way.
func TestQuickEnvelope(t *testing.T) {
	good := runRecord("node-0", 0).Value
	if _, ok := quickEnvelope(good); !ok {
		t.Fatal("the quick way is not taken")
	}
	for i := range good {
		for _, x := range []byte{1, 0x80, good[i] ^ '\n'} {
			b := bytes.Clone(good)
			b[i] ^= x
			quick, ok := quickEnvelope(b)
			slow, err := ledger.ReadEnvelope(b)
			if ok && (err != nil || !reflect.DeepEqual(quick, slow)) {
				t.Fatalf("byte %d ^ %#x: quick %v, strict %v", i, x, ok, err)
			}
		}
	}
}
