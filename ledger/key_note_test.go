package ledger

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	fnote "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
)

const testCheckpoint = "log.example.org/gpu\n7\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"

// What we sign as a log and as a witness, implementations that are not ours
// verify; and they and we agree on names and hashes.
func TestNoteSignersForeign(t *testing.T) {
	s := testSigner("log")
	logSigner, err := NoteSigner(context.Background(), "log.example.org/gpu", s)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_800_000_000, 5)
	witness, err := CosignatureSigner(context.Background(), "witness.example.org/w", s, func() time.Time { return at })
	if err != nil {
		t.Fatal(err)
	}
	msg, err := note.Sign(&note.Note{Text: testCheckpoint}, logSigner, witness)
	if err != nil {
		t.Fatal(err)
	}
	vkey := NoteVerifierKey("log.example.org/gpu", s.Public())
	if want, err := note.NewEd25519VerifierKey("log.example.org/gpu", s.Public()); err != nil || vkey != want {
		t.Errorf("vkey %s, want %s (%v)", vkey, want, err)
	}
	v, err := note.NewVerifier(vkey)
	if err != nil {
		t.Fatal(err)
	}
	wkey := CosignatureVerifierKey("witness.example.org/w", s.Public())
	plain := NoteVerifierKey("witness.example.org/w", s.Public())
	if want, err := fnote.VKeyToCosignatureV1(plain); err != nil || wkey != want {
		t.Errorf("witness's vkey %s, want %s (%v)", wkey, want, err)
	}
	w, err := fnote.NewVerifierForCosignatureV1(wkey)
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(msg, note.VerifierList(v, w))
	if err != nil || len(n.Sigs) != 2 || len(n.UnverifiedSigs) != 0 {
		t.Fatalf("%+v, %v\n%s", n, err, msg)
	}
	if got, err := fnote.CoSigV1Timestamp(n.Sigs[1]); err != nil || got.Unix() != at.Unix() {
		t.Errorf("cosigned at %v, %v", got, err)
	}
	// Another text does not go with these signatures.
	altered := strings.Replace(string(msg), "\n7\n", "\n8\n", 1)
	if _, err := note.Open([]byte(altered), note.VerifierList(v, w)); err == nil {
		t.Error("an altered note was taken")
	}
	// An independent signer gives the same bytes from the same key and time.
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, "log")
	sig, err := logSigner.Sign([]byte(testCheckpoint))
	if want := ed25519.Sign(ed25519.NewKeyFromSeed(seed), []byte(testCheckpoint)); err != nil || string(sig) != string(want) {
		t.Errorf("%x, want %x (%v)", sig, want, err)
	}
}

func TestNoteSignersRefuse(t *testing.T) {
	s := testSigner("log")
	for _, name := range []string{"", "a b", "a+b", "a\nb", "a\x1bb", "\xff", strings.Repeat("x", MaxNode+1)} {
		if _, err := NoteSigner(context.Background(), name, s); !errors.Is(err, ErrNoteName) {
			t.Errorf("log %q: %v", name, err)
		}
		if _, err := CosignatureSigner(context.Background(), name, s, time.Now); !errors.Is(err, ErrNoteName) {
			t.Errorf("witness %q: %v", name, err)
		}
	}
	w, err := CosignatureSigner(context.Background(), "w", s, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "a\nb\n", "a\nb\nc"} {
		if _, err := w.Sign([]byte(text)); err == nil {
			t.Errorf("cosigned %q", text)
		}
	}
	old, err := CosignatureSigner(context.Background(), "w", s, func() time.Time { return time.Unix(0, 0) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Sign([]byte(testCheckpoint)); err == nil || !strings.Contains(err.Error(), "clock") {
		t.Errorf("a clock that was never set: %v", err)
	}
	broken, err := NoteSigner(context.Background(), "l", brokenSigner{s})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := broken.Sign([]byte(testCheckpoint)); err == nil {
		t.Error("a signature that does not fit was given on")
	}
}

// brokenSigner signs something else.
type brokenSigner struct{ Signer }

func (b brokenSigner) Sign(ctx context.Context, m []byte) ([]byte, error) {
	return b.Signer.Sign(ctx, fmt.Appendf(nil, "%s!", m))
}
