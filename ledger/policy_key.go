package ledger

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// vkey is a verifier key of a note. It is a note.Verifier.
type vkey struct {
	name string
	hash uint32
	alg  byte // noteEd25519 of a log, noteCosignature of a witness
	pub  ed25519.PublicKey
}

func (k vkey) Name() string    { return k.name }
func (k vkey) KeyHash() uint32 { return k.hash }

// Verify checks what follows the key's hash in a signature line.
func (k vkey) Verify(text, sig []byte) bool {
	if k.alg == noteCosignature {
		return len(sig) == 8+ed25519.SignatureSize &&
			ed25519.Verify(k.pub, cosignedMessage(binary.BigEndian.Uint64(sig), text), sig[8:])
	}
	return len(sig) == ed25519.SignatureSize && ed25519.Verify(k.pub, text, sig)
}

// cosignedAt is the time that a good cosignature holds.
func cosignedAt(sig []byte) time.Time {
	return time.Unix(int64(binary.BigEndian.Uint64(sig)), 0).UTC()
}

// parseVKey reads NAME+HASH+BASE64 of one kind.
func parseVKey(s string, alg byte) (vkey, error) {
	name, rest, _ := strings.Cut(s, "+")
	hash, b64, ok := strings.Cut(rest, "+")
	raw, err := base64.StdEncoding.Strict().DecodeString(b64)
	if !ok || err != nil || len(raw) == 0 || checkNoteName(name) != nil {
		return vkey{}, fmt.Errorf("%.80q is not a verifier key, NAME+HASH+KEY, as assay ledger keygen prints it", s)
	}
	if raw[0] != alg {
		want := "a log's"
		if alg == noteCosignature {
			want = "a witness's"
		}
		return vkey{}, fmt.Errorf("the key %q is of kind %d; %s must be of kind %d", name, raw[0], want, alg)
	}
	k := vkey{name, noteKeyHash(alg, name, raw[1:]), alg, raw[1:]}
	if len(k.pub) != ed25519.PublicKeySize || fmt.Sprintf("%08x", k.hash) != hash {
		return vkey{}, fmt.Errorf("the verifier key %q was altered: its hash does not fit", name)
	}
	return k, nil
}
