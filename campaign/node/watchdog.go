package node

import (
	"errors"
	"fmt"
	"time"
)

// ErrStuck says that the engine hardly answers any more: what was measured so far
// is partial.
var ErrStuck = errors.New("the benchmark is stuck")

// Watchdog compares tokens a second with those of the first minute: an engine that
// swaps, or throttles to a crawl, would otherwise be paid for until the end.
type Watchdog struct {
	// First is how long the comparison is learned; 0: one minute.
	First time.Duration
	// Share of the first minute's tokens a second below which the engine counts as
	// stuck; 0: a fifth.
	Share float64
	// For is how long that must last; 0: one minute.
	For time.Duration
	// Baseline is the first minute's tokens a second, when it was learned before.
	Baseline float64

	begin, slow time.Time // zero: not yet; not slow
	sum         float64
	n           int
}

func (w *Watchdog) resolved() (first, long time.Duration, share float64) {
	first, long, share = w.First, w.For, w.Share
	if first <= 0 {
		first = time.Minute
	}
	if long <= 0 {
		long = time.Minute
	}
	if share <= 0 {
		share = 0.2
	}
	return first, long, share
}

// See takes a look at the tokens a second at a time; waiting says whether requests
// wait for an answer, since without them none can come. The error is ErrStuck.
func (w *Watchdog) See(at time.Time, rate float64, waiting bool) error {
	first, long, share := w.resolved()
	if w.begin.IsZero() {
		w.begin = at
	}
	if w.Baseline <= 0 {
		if rate > 0 {
			w.sum, w.n = w.sum+rate, w.n+1
		}
		switch took := at.Sub(w.begin); {
		case took < first:
			return nil
		case w.n > 0:
			w.Baseline = w.sum / float64(w.n)
		case took >= first+long && waiting:
			return fmt.Errorf("%w: not one token came within %s", ErrStuck, took.Round(time.Second))
		}
		return nil
	}
	if !waiting || rate >= share*w.Baseline {
		w.slow = time.Time{}
		return nil
	}
	if w.slow.IsZero() {
		w.slow = at
	}
	if lasted := at.Sub(w.slow); lasted >= long {
		return fmt.Errorf("%w: %.3g tokens/s for %s, after %.3g in the beginning", ErrStuck, rate, lasted.Round(time.Second), w.Baseline)
	}
	return nil
}
