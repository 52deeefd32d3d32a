package ledger

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/proc"
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
	errSignerFlood     = errors.New("too much output")
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
	ctx, flood := context.WithCancelCause(ctx)
	defer flood(nil)

	out := &capped{most: maxSignerOutput, full: func() { flood(errSignerFlood) }}
	said := &capped{most: maxSignerErrors}
	c := exec.CommandContext(ctx, o.argv[0], o.argv[1:]...)
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(message), out, said
	proc.Group(c)
	c.Cancel = func() error { proc.KillGroup(c); return nil }
	// What the command left behind may hold its output open.
	c.WaitDelay = time.Second
	err := c.Run()
	switch {
	case errors.Is(context.Cause(ctx), errSignerFlood):
		return nil, o.failed(ErrSignerOutput, said, fmt.Errorf("more than %d bytes", maxSignerOutput))
	case asked.Err() != nil:
		return nil, o.failed(ErrSignerCommand, said, context.Cause(asked))
	case ctx.Err() != nil:
		return nil, o.failed(ErrSignerTimeout, said, fmt.Errorf("after %v", o.timeout))
	case err != nil && !errors.Is(err, exec.ErrWaitDelay): // a helper that it left running is not our business
		return nil, o.failed(ErrSignerCommand, said, err)
	}
	sig, err := base64.StdEncoding.Strict().DecodeString(string(bytes.TrimSpace(out.b)))
	if err != nil || len(sig) != ed25519.SignatureSize {
		return nil, o.failed(ErrSignerOutput, said, fmt.Errorf("%d bytes as base64 were expected, and %.100q came", ed25519.SignatureSize, out.b))
	}
	if len(o.pub) != ed25519.PublicKeySize || !ed25519.Verify(o.pub, message, sig) {
		return nil, o.failed(ErrSignerOtherKey, said, nil)
	}
	return sig, nil
}

// failed says which command it was and what it said.
func (o outside) failed(what error, said *capped, why error) error {
	err := fmt.Errorf("%q: %w", strings.Join(o.argv, " "), what)
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	if text := bytes.TrimSpace(said.b); len(text) > 0 {
		err = fmt.Errorf("%w; it said %q", err, text)
	}
	return err
}

// capped keeps the first bytes of what is written to it. The writer is not held
// up by the rest.
type capped struct {
	b    []byte
	most int
	full func() // called when there is more than most; may be nil
}

func (c *capped) Write(p []byte) (int, error) {
	room := c.most - len(c.b)
	c.b = append(c.b, p[:min(room, len(p))]...)
	if len(p) > room && c.full != nil {
		c.full()
	}
	return len(p), nil
}
