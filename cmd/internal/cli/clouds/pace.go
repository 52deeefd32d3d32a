package clouds

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
)

// paced keeps one process to a provider's limits: for commands that only look.
// Whatever rents keeps them in SQL, where all processes see them.
func paced(t provider.Traits) provider.Wait {
	var mu sync.Mutex
	last := map[provider.Call]time.Time{}
	var any time.Time
	return func(ctx context.Context, c provider.Call) error {
		mu.Lock()
		now := time.Now()
		at := now
		if d := t.MinInterval[c]; d > 0 && !last[c].IsZero() {
			at = later(at, last[c].Add(d))
		}
		if t.MinAny > 0 && !any.IsZero() {
			at = later(at, any.Add(t.MinAny))
		}
		last[c], any = at, at
		mu.Unlock()
		timer := time.NewTimer(at.Sub(now))
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("wait for the next request to %s: %w", t.Name, ctx.Err())
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
