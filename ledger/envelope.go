package ledger

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// PayloadType is that of an in-toto statement.
const PayloadType = "application/vnd.in-toto+json"

// Envelope is a DSSE envelope. Its payload is signed; the rest is not, and says
// only where to look.
type Envelope struct {
	Payload     []byte
	PayloadType string
	Signatures  []Signature
}

// Signature is one signature of an envelope.
type Signature struct {
	KeyID string
	Sig   []byte
}

// Errors of an envelope. Each is a different thing to tell a person.
var (
	ErrEnvelope     = errors.New("not a signed envelope")
	ErrNotCanonical = errors.New("the envelope has bytes that its writer did not put there, outside of what is signed")
	ErrSignature    = errors.New("the signature does not fit what is signed: one of them was altered")
)

type envelopeJSON struct {
	PayloadType string          `json:"payloadType"`
	Payload     string          `json:"payload"`
	Signatures  []signatureJSON `json:"signatures"`
}

type signatureJSON struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// KeyID names a public key: the SHA-256 of its 32 bytes, in hexadecimal.
func KeyID(pub ed25519.PublicKey) string {
	sum := sha256.Sum256(pub)
	return hex.EncodeToString(sum[:])
}

// Encode writes the envelope in the one spelling that is ours: one line, no
// space, members in this order, padded standard base64, a newline.
func (e Envelope) Encode() []byte {
	out := envelopeJSON{PayloadType: e.PayloadType, Payload: base64.StdEncoding.EncodeToString(e.Payload)}
	for _, s := range e.Signatures {
		out.Signatures = append(out.Signatures, signatureJSON{s.KeyID, base64.StdEncoding.EncodeToString(s.Sig)})
	}
	b, err := json.Marshal(out)
	if err != nil {
		panic(err) // strings only
	}
	return append(b, '\n')
}

// ParseEnvelope reads an envelope in any spelling that DSSE allows: members in
// any order, standard or URL base64. What comes from other tools is read so.
func ParseEnvelope(b []byte) (Envelope, error) {
	if len(b) > MaxValue {
		return Envelope{}, fmt.Errorf("%w: it has %d bytes; at most %d are allowed", ErrEnvelope, len(b), MaxValue)
	}
	var in envelopeJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return Envelope{}, fmt.Errorf("%w: %w", ErrEnvelope, err)
	}
	e := Envelope{PayloadType: in.PayloadType}
	var err error
	if e.Payload, err = fromBase64(in.Payload); err != nil {
		return Envelope{}, fmt.Errorf("%w: payload: %w", ErrEnvelope, err)
	}
	if len(in.Signatures) == 0 {
		return Envelope{}, fmt.Errorf("%w: it has no signature", ErrEnvelope)
	}
	for _, s := range in.Signatures {
		sig, err := fromBase64(s.Sig)
		if err != nil {
			return Envelope{}, fmt.Errorf("%w: signature: %w", ErrEnvelope, err)
		}
		e.Signatures = append(e.Signatures, Signature{s.KeyID, sig})
	}
	return e, nil
}

// ReadEnvelope reads an envelope in our own spelling and refuses any other, so
// that a byte flipped outside of what is signed is found too.
func ReadEnvelope(b []byte) (Envelope, error) {
	if e, ok := quickEnvelope(b); ok {
		return e, nil
	}
	return canonicalEnvelope(b)
}

// canonicalEnvelope is how the one spelling is defined: it is what Encode writes.
func canonicalEnvelope(b []byte) (Envelope, error) {
	e, err := ParseEnvelope(b)
	if err != nil {
		return Envelope{}, err
	}
	if !bytes.Equal(e.Encode(), b) {
		return Envelope{}, ErrNotCanonical
	}
	return e, nil
}

func fromBase64(s string) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		if u, uerr := base64.URLEncoding.Strict().DecodeString(s); uerr == nil {
			return u, nil
		}
	}
	return b, err
}

// PAE is what DSSE signs: the payload and its type, with their lengths, so that
// one cannot be taken for the other.
func PAE(payloadType string, payload []byte) []byte {
	b := make([]byte, 0, len(payload)+len(payloadType)+32)
	b = append(b, "DSSEv1 "...)
	b = strconv.AppendInt(b, int64(len(payloadType)), 10)
	b = append(b, ' ')
	b = append(b, payloadType...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(len(payload)), 10)
	b = append(b, ' ')
	return append(b, payload...)
}

// Signer signs bytes with one ed25519 key: a key file, or a command that holds
// the key outside and may take its time.
type Signer interface {
	Public() ed25519.PublicKey
	Sign(ctx context.Context, message []byte) ([]byte, error)
}

// Sign puts a payload into an envelope.
func Sign(ctx context.Context, s Signer, payload []byte) (Envelope, error) {
	return signAs(ctx, s, PayloadType, payload)
}

func signAs(ctx context.Context, s Signer, payloadType string, payload []byte) (Envelope, error) {
	message := PAE(payloadType, payload)
	sig, err := s.Sign(ctx, message)
	if err != nil {
		return Envelope{}, fmt.Errorf("sign: %w", err)
	}
	if !ed25519.Verify(s.Public(), message, sig) {
		return Envelope{}, errors.New("sign: the signer gave a signature that does not fit its own public key")
	}
	return Envelope{payload, payloadType, []Signature{{KeyID(s.Public()), sig}}}, nil
}

// Verify checks the envelope's only signature with a key, which must be the one
// that the envelope names.
func (e Envelope) Verify(pub ed25519.PublicKey) error { return e.verifyAs(PayloadType, pub) }

func (e Envelope) verifyAs(payloadType string, pub ed25519.PublicKey) error {
	if len(e.Signatures) != 1 {
		return fmt.Errorf("%w: it has %d signatures; one is allowed", ErrEnvelope, len(e.Signatures))
	}
	if e.PayloadType != payloadType {
		return fmt.Errorf("%w: its payload is %q, not %q", ErrEnvelope, e.PayloadType, payloadType)
	}
	if len(pub) != ed25519.PublicKeySize || !ed25519.Verify(pub, PAE(e.PayloadType, e.Payload), e.Signatures[0].Sig) {
		return ErrSignature
	}
	return nil
}
