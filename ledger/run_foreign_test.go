package ledger

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay/internal/parttest"
)

// securesystemslib, from PyPI, verifies our envelopes, and we verify its.
func TestRealSecuresystemslib(t *testing.T) {
	script, err := filepath.Abs(filepath.Join("..", ".ci", "parts", "securesystemslib"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(script).Output()
	if err != nil {
		parttest.Need(t, "no securesystemslib: "+err.Error())
	}
	dir := signedFixture(t)
	for _, f := range statementFiles {
		raw, err := os.ReadFile(filepath.Join(dir, f.file))
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(strings.TrimSpace(string(out)), filepath.Join("testdata", "dsse.py"), hex.EncodeToString(runSigner(1).Public()))
		cmd.Stdin, cmd.Stderr = bytes.NewReader(raw), os.Stderr
		b, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: theirs on ours: %v", f.file, err)
		}
		var made struct {
			Envelope json.RawMessage
			Public   string
		}
		if err := json.Unmarshal(b, &made); err != nil {
			t.Fatal(err)
		}
		e, err := ParseEnvelope(made.Envelope)
		if err != nil {
			t.Fatal(err)
		}
		pub := foreignPublic(t, made.Public)
		if err := e.Verify(pub); err != nil || string(e.Payload) != `{"made": "elsewhere"}` {
			t.Errorf("ours on theirs: %v, %q", err, e.Payload)
		}
		e.Payload[0] ^= 1
		if err := e.Verify(pub); !errors.Is(err, ErrSignature) {
			t.Errorf("altered: %v", err)
		}
	}
}

// foreignPublic reads a key as hexadecimal or as PEM: versions differ.
func foreignPublic(t *testing.T, s string) ed25519.PublicKey {
	t.Helper()
	if b, err := hex.DecodeString(s); err == nil {
		return b
	}
	block, _ := pem.Decode([]byte(s))
	if block == nil {
		t.Fatalf("not a key: %q", s)
	}
	k, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return k.(ed25519.PublicKey)
}
