package ledger

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/assay-bench/assay/internal/foreign"
)

// Algorithms of note keys (C2SP signed-note): what the first byte of a verifier
// key says.
const (
	noteEd25519     = 1
	noteCosignature = 4 // cosignature/v1
)

// ErrNoteName marks a name that no note can be signed with.
var ErrNoteName = errors.New("not a name for a log or a witness")

// checkNoteName holds what signed-note asks of a key's name.
func checkNoteName(name string) error {
	if name == "" || len(name) > MaxNode || !foreign.Plain(name) || strings.ContainsAny(name, "+ ") {
		return fmt.Errorf("%w: %.60q: 1 to %d bytes without spaces and plus signs are allowed; best is a host and path that you own, as log.example.org/gpu", ErrNoteName, name, MaxNode)
	}
	return nil
}

// NoteVerifierKey is a log's verifier key: NAME+HASH+KEY, ed25519.
func NoteVerifierKey(name string, pub ed25519.PublicKey) string {
	return noteVerifierKey(noteEd25519, name, pub)
}

// CosignatureVerifierKey is a witness's verifier key, cosignature/v1.
func CosignatureVerifierKey(name string, pub ed25519.PublicKey) string {
	return noteVerifierKey(noteCosignature, name, pub)
}

func noteVerifierKey(alg byte, name string, pub ed25519.PublicKey) string {
	return fmt.Sprintf("%s+%08x+%s", name, noteKeyHash(alg, name, pub), base64.StdEncoding.EncodeToString(append([]byte{alg}, pub...)))
}

func noteKeyHash(alg byte, name string, pub ed25519.PublicKey) uint32 {
	sum := sha256.Sum256(append(append([]byte(name+"\n"), alg), pub...))
	return binary.BigEndian.Uint32(sum[:])
}

// NoteSigner signs a log's checkpoints under its name (its origin), until the
// context ends: a note's signer gets none with each signature.
func NoteSigner(ctx context.Context, name string, s Signer) (note.Signer, error) {
	return newNoteSigner(ctx, noteEd25519, name, s, func(msg []byte) ([]byte, []byte, error) { return nil, msg, nil })
}

// CosignatureSigner signs checkpoints as a witness: with the time, which is
// signed too. now gives the time; a witness that must not go back in time sees
// to it there. The context is as for NoteSigner.
func CosignatureSigner(ctx context.Context, name string, s Signer, now func() time.Time) (note.Signer, error) {
	return newNoteSigner(ctx, noteCosignature, name, s, func(msg []byte) ([]byte, []byte, error) {
		if bytes.Count(msg, []byte("\n")) < 3 || !bytes.HasSuffix(msg, []byte("\n")) {
			return nil, nil, errors.New("what is to be cosigned is no checkpoint: it has not three lines")
		}
		at := now()
		t := uint64(at.Unix())
		if at.Unix() <= 0 {
			return nil, nil, fmt.Errorf("the clock says %s: set it first", clockTime(at))
		}
		return binary.BigEndian.AppendUint64(nil, t), cosignedMessage(t, msg), nil
	})
}

// cosignedMessage is what a witness signs of a checkpoint's text.
func cosignedMessage(unix uint64, text []byte) []byte {
	return fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", unix, text)
}

// noteSigner signs what wrap makes of a note's text, and puts a head before it.
type noteSigner struct {
	ctx  context.Context
	name string
	hash uint32
	s    Signer
	wrap func(text []byte) (head, message []byte, err error)
}

func newNoteSigner(ctx context.Context, alg byte, name string, s Signer, wrap func([]byte) ([]byte, []byte, error)) (note.Signer, error) {
	if err := checkNoteName(name); err != nil {
		return nil, err
	}
	if len(s.Public()) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("signer of %s: its public key has %d bytes", name, len(s.Public()))
	}
	return noteSigner{ctx, name, noteKeyHash(alg, name, s.Public()), s, wrap}, nil
}

func (n noteSigner) Name() string    { return n.name }
func (n noteSigner) KeyHash() uint32 { return n.hash }

func (n noteSigner) Sign(text []byte) ([]byte, error) {
	head, message, err := n.wrap(text)
	if err != nil {
		return nil, fmt.Errorf("sign a checkpoint as %s: %w", n.name, err)
	}
	sig, err := n.s.Sign(n.ctx, message)
	if err != nil {
		return nil, fmt.Errorf("sign a checkpoint as %s: %w", n.name, err)
	}
	if !ed25519.Verify(n.s.Public(), message, sig) {
		return nil, fmt.Errorf("sign a checkpoint as %s: the signer gave a signature that does not fit its own public key", n.name)
	}
	return append(head, sig...), nil
}
