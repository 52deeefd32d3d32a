package ledger

import (
	"crypto/ed25519"
	"errors"
	"testing"
)

func TestProofs(t *testing.T) {
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := LoginProof{"https://server.example", "01JCXY0000000000000000TEST", "n"}
	b, err := SignProof(t.Context(), HeldKey(priv), LoginType, want)
	if err != nil {
		t.Fatal(err)
	}
	var got LoginProof
	if err := OpenProof(b, LoginType, pub, &got); err != nil || got != want {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := OpenProof(b, LoginType, other, &got); !errors.Is(err, ErrSignature) {
		t.Errorf("another key: %v", err)
	}
	if err := OpenProof(b, RotationType, pub, &got); !errors.Is(err, ErrEnvelope) {
		t.Errorf("as another type: %v", err)
	}
	if e, err := ReadEnvelope(b); err != nil || e.Verify(pub) == nil {
		t.Errorf("a log-in passes for a statement (%v)", err)
	}
	st, err := Sign(t.Context(), HeldKey(priv), e(t, b).Payload)
	if err != nil {
		t.Fatal(err)
	}
	if err := OpenProof(st.Encode(), LoginType, pub, &got); !errors.Is(err, ErrEnvelope) {
		t.Errorf("a statement passes for a log-in: %v", err)
	}
	more, err := SignProof(t.Context(), HeldKey(priv), LoginType, map[string]string{"origin": "o", "node": "n", "nonce": "x", "role": "admin"})
	if err != nil {
		t.Fatal(err)
	}
	if err := OpenProof(more, LoginType, pub, &got); !errors.Is(err, ErrEnvelope) {
		t.Errorf("a member that no log-in has: %v", err)
	}

	own, err := SignProof(t.Context(), HeldKey(priv), EnrolType, EnrolProof{Origin: "o", PublicKey: pub, TokenSHA256: "t"})
	if err != nil {
		t.Fatal(err)
	}
	var enrol EnrolProof
	if err := OpenOwnProof(own, EnrolType, &enrol, func() ed25519.PublicKey { return enrol.PublicKey }); err != nil {
		t.Error(err)
	}
	forged, err := SignProof(t.Context(), HeldKey(priv), EnrolType, EnrolProof{Origin: "o", PublicKey: other, TokenSHA256: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if err := OpenOwnProof(forged, EnrolType, &enrol, func() ed25519.PublicKey { return enrol.PublicKey }); !errors.Is(err, ErrSignature) {
		t.Errorf("somebody else's key: %v", err)
	}
}

func e(t *testing.T, b []byte) Envelope {
	t.Helper()
	e, err := ReadEnvelope(b)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
