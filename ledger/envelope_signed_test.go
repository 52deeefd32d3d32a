package ledger

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"testing"
)

func TestSignedBy(t *testing.T) {
	key := HeldKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{5}, 32)))
	e, err := Sign(t.Context(), key, []byte(`{"_type":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	raw := e.Encode()
	if got, sig := SignedBy(raw); got != KeyID(key.Public()) || string(sig) != base64.StdEncoding.EncodeToString(e.Signatures[0].Sig) {
		t.Errorf("signed by %q with %q", got, sig)
	}
	spaced := append([]byte(nil), raw...)
	copy(spaced[len(spaced)-len(envelopeTail):], "\" }]}")
	for name, b := range map[string][]byte{
		"nothing": nil, "cut": raw[:len(raw)-1], "text": bytes.Repeat([]byte("x"), 500), "spaced": spaced,
		"a key id in capitals": bytes.Replace(raw, []byte(KeyID(key.Public())), bytes.Repeat([]byte("A"), 64), 1),
	} {
		if got, sig := SignedBy(b); got != "" || sig != nil {
			t.Errorf("%s: signed by %q", name, got)
		}
	}
	for i := range raw { // never beyond the bytes, and never half a name
		if got, _ := SignedBy(raw[i:]); got != "" && got != KeyID(key.Public()) {
			t.Errorf("from %d: %q", i, got)
		}
	}
}
