package ledger

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/child"
)

// SignerTimeout is how long a signer command may take unless told otherwise.
const SignerTimeout = 30 * time.Second

// Limits of what a signer command may write: a signature has 88 characters, and
// the rest is for a person to read.
const (
	maxSignerOutput = 1024
	maxSignerErrors = 2048
)

// Errors of a signer command.
var (
	ErrSignerCommand   = errors.New("the signer command failed")
	ErrSignerTimeout   = errors.New("the signer command took too long and was ended")
	ErrSignerOutput    = errors.New("the signer command wrote something that is no signature")
	ErrSignerOtherKey  = errors.New("the signer command's signature does not fit the public key: it holds another key, or signed other bytes")
	errSignerNoCommand = errors.New("no command was given")
)

// held signs with a key in memory. The key is behind a function, so that no
// printing of a struct with a signer in it can show it.
type held struct {
	pub  ed25519.PublicKey
	sign func([]byte) []byte
}

// HeldKey is a signer with a private key in memory.
func HeldKey(priv ed25519.PrivateKey) Signer {
	return held{priv.Public().(ed25519.PublicKey), func(m []byte) []byte { return ed25519.Sign(priv, m) }}
}

func (h held) Public() ed25519.PublicKey { return h.pub }

// Sign asks no context: it takes no time.
func (h held) Sign(_ context.Context, message []byte) ([]byte, error) { return h.sign(message), nil }

// outside signs by a command.
type outside struct {
	argv    []string
	pub     ed25519.PublicKey
	timeout time.Duration
}

// Command is a signer whose key stays outside: argv is run once a signature,
// gets the bytes on its standard input, and writes the signature as base64 to
// its standard output. At the timeout (zero: SignerTimeout) it is ended with all
// of its process group. What it gives is checked before it is used.
func Command(argv []string, pub ed25519.PublicKey, timeout time.Duration) Signer {
	if timeout <= 0 {
		timeout = SignerTimeout
	}
	return outside{argv, pub, timeout}
}

func (o outside) Public() ed25519.PublicKey { return o.pub }

func (o outside) Sign(asked context.Context, message []byte) ([]byte, error) {
	if len(o.argv) == 0 {
		return nil, fmt.Errorf("%w: %w", ErrSignerCommand, errSignerNoCommand)
	}
	ctx, cancel := context.WithTimeout(asked, o.timeout)
	defer cancel()
	// A helper that the command leaves running, as an agent that keeps a card
	// open, is not our business.
	spec := child.Spec{Command: o.argv, MaxAnswer: maxSignerOutput, MaxStderr: maxSignerErrors, LeaveGroup: true}
	out, err := child.Output(ctx, spec, message)
	var ended *child.EndedError
	switch {
	case err != nil && asked.Err() != nil:
		return nil, o.failed(ErrSignerCommand, out.Stderr, context.Cause(asked))
	case errors.Is(err, context.DeadlineExceeded):
		return nil, o.failed(ErrSignerTimeout, out.Stderr, fmt.Errorf("after %v", o.timeout))
	case errors.Is(err, child.ErrFlood):
		return nil, o.failed(ErrSignerOutput, out.Stderr, fmt.Errorf("more than %d bytes", maxSignerOutput))
	case errors.As(err, &ended):
		return nil, o.failed(ErrSignerCommand, out.Stderr, errors.New(ended.Exit))
	case err != nil:
		return nil, o.failed(ErrSignerCommand, out.Stderr, err)
	}
	sig, err := base64.StdEncoding.Strict().DecodeString(string(bytes.TrimSpace(out.Stdout)))
	if err != nil || len(sig) != ed25519.SignatureSize {
		return nil, o.failed(ErrSignerOutput, out.Stderr, fmt.Errorf("%d bytes as base64 were expected, and %.100q came", ed25519.SignatureSize, out.Stdout))
	}
	if len(o.pub) != ed25519.PublicKeySize || !ed25519.Verify(o.pub, message, sig) {
		return nil, o.failed(ErrSignerOtherKey, out.Stderr, nil)
	}
	return sig, nil
}

// failed says which command it was and what it wrote to its standard error.
func (o outside) failed(what error, stderr string, why error) error {
	err := fmt.Errorf("%q: %w", strings.Join(o.argv, " "), what)
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	if stderr != "" {
		err = fmt.Errorf("%w; it said %q", err, stderr)
	}
	return err
}
