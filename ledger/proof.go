package ledger

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Payload types of what a node signs for a server (docs/api/openapi.yaml). Each has
// its own, so that none can be passed off as another or as a statement.
const (
	LoginType    = "application/vnd.assay.login+json"
	EnrolType    = "application/vnd.assay.enrol+json"
	RotationType = "application/vnd.assay.key-rotation+json"
)

// LoginProof is what a node signs to log in: for one server, once.
type LoginProof struct {
	Origin string `json:"origin"`
	Node   string `json:"node"`
	Nonce  string `json:"nonce"`
}

// EnrolProof shows that who holds the token holds the key, too.
type EnrolProof struct {
	Origin      string `json:"origin"`
	PublicKey   []byte `json:"public_key"` // base64
	TokenSHA256 string `json:"token_sha256"`
	Hostname    string `json:"hostname"`
}

// RotationProof shows that a node holds the key that it wants to have certified.
type RotationProof struct {
	Origin    string `json:"origin"`
	Node      string `json:"node"`
	PublicKey []byte `json:"public_key"` // base64
}

// SignProof signs one of the proofs as an envelope of its type.
func SignProof(ctx context.Context, s Signer, payloadType string, proof any) ([]byte, error) {
	payload, err := json.Marshal(proof)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	e, err := signAs(ctx, s, payloadType, payload)
	if err != nil {
		return nil, err
	}
	return e.Encode(), nil
}

// OpenProof checks an envelope of a type with a key and reads what was signed,
// strictly: a proof has the members that it has and no other.
func OpenProof(envelope []byte, payloadType string, pub ed25519.PublicKey, proof any) error {
	e, err := ReadEnvelope(envelope)
	if err != nil {
		return err
	}
	if err := e.verifyAs(payloadType, pub); err != nil {
		return err
	}
	return e.proof(proof)
}

// OpenOwnProof is OpenProof of a proof that carries the key that it is signed
// with: key gives that key once the proof is read.
func OpenOwnProof(envelope []byte, payloadType string, proof any, key func() ed25519.PublicKey) error {
	e, err := ReadEnvelope(envelope)
	if err != nil {
		return err
	}
	if err := e.proof(proof); err != nil {
		return err
	}
	return e.verifyAs(payloadType, key())
}

// proof reads the payload.
func (e Envelope) proof(into any) error {
	d := json.NewDecoder(strings.NewReader(string(e.Payload)))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%w: its payload: %w", ErrEnvelope, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows its payload", ErrEnvelope)
	}
	return nil
}
