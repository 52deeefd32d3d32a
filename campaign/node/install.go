package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
)

// sendWithin is for the binary's twenty megabytes over a slow line.
const sendWithin = 5 * time.Minute

// Install sends the node binary, unless it is there. What arrived is moved to its
// place only when it hashes to what was sent.
func (n *Node) Install(ctx context.Context, binary []byte) error {
	sum := sha256.Sum256(binary)
	want := hex.EncodeToString(sum[:])
	if there, err := n.hash(ctx, call{command: "node-hash"}); err == nil && there == want {
		return nil
	} else if err != nil && !isExit(err) {
		return err
	}
	if _, err := n.ask(ctx, call{command: "node-send", stdin: bytes.NewReader(binary), within: sendWithin}); err != nil {
		return fmt.Errorf("send the node binary: %w", err)
	}
	got, err := n.hash(ctx, call{command: "node-sent"})
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%w: the node binary hashes to %s there, and %s was sent", ErrHostile, got, want)
	}
	_, err = n.ask(ctx, call{command: "node-keep"})
	return err
}

// hash runs a command that prints a SHA-256 as sha256sum does.
func (n *Node) hash(ctx context.Context, c call) (string, error) {
	out, err := n.ask(ctx, c)
	if err != nil {
		return "", err
	}
	word, _, _ := bytes.Cut(out, []byte(" "))
	if _, err := hex.DecodeString(string(word)); err != nil || len(word) != 2*sha256.Size {
		return "", fmt.Errorf("%w: %s answers %q, which is no SHA-256", ErrHostile, c.command, foreign.Line(out, 100))
	}
	return string(word), nil
}
