package ledger

import (
	"context"
	"errors"
	"testing"
)

// Files of any length are hashed: who interrupts does not wait for their end.
func TestVerifyEndsWhenInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	defer close(release)
	_, err := unlessInterrupted(ctx, func() (int, error) {
		cancel()
		<-release
		return 1, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if v, err := unlessInterrupted(t.Context(), func() (int, error) { return 1, nil }); v != 1 || err != nil {
		t.Error(v, err)
	}
}
