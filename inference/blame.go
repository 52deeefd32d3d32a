package inference

import (
	"context"
	"sync/atomic"
	"time"
)

// A read that holds several token chunks is either the engine's burst or the
// client's fault, and the read's own lag does not tell: the kernel's stamp is
// that of the newest segment, so a read that is 0.9 ms late may hold segments
// that waited for 300 ms. It is a burst when the chunks came in one segment, or
// when nothing in this process could have held it up: a sentinel, a timer of a
// millisecond that waits in the same poller as the connections, was not late
// since the connection's previous arrival.

// sentinelEvery is the sentinel's period.
const sentinelEvery = int64(1e6)

// lateTicks is how many late ticks of the sentinel are remembered. They are
// written in order of time, and one in a millisecond at the most.
const lateTicks = 1024

// sentinel remembers when this process was late to wake.
type sentinel struct {
	last atomic.Int64 // when it last woke; 0: it does not run
	n    atomic.Uint64
	late [lateTicks]struct{ at, by atomic.Int64 }
}

// woke notes that the sentinel woke now, by so much later than it was due.
func (t *sentinel) woke(now, by int64) {
	if by > sentinelEvery/2 {
		n := t.n.Load()
		slot := &t.late[n%lateTicks]
		slot.at.Store(now)
		slot.by.Store(by)
		t.n.Store(n + 1)
	}
	t.last.Store(now)
}

// worst is the most that the sentinel was late since a moment, up to now; a
// tick that is overdue and has not come counts.
func (t *sentinel) worst(since, now int64) int64 {
	last := t.last.Load()
	if last == 0 {
		return now - since // nobody watches: the client is not cleared
	}
	worst := now - last - sentinelEvery
	n := t.n.Load()
	for i := range min(n, lateTicks) {
		slot := &t.late[(n-1-i)%lateTicks]
		if slot.at.Load() < since {
			break
		}
		worst = max(worst, slot.by.Load())
	}
	return worst
}

// clearedBy is how late the sentinel may have been for a read whose connection
// last had data so long ago.
func clearedBy(sincePrevious int64) int64 { return max(int64(1e6), sincePrevious/2) }

// segments follows the number of data segments of a connection, to tell whether
// a read held only one. It asks the kernel only where it matters.
type segments struct {
	known bool
	seen  uint32 // by the kernel's count, when it was last asked
	reads uint32 // since then
}

// read counts a read. One that filled its buffer may have left a part of a
// segment behind, after which reads and segments are not to be compared.
func (g *segments) read(full bool) {
	g.reads++
	if full {
		g.known = false
	}
}

// single takes the kernel's count after a read, and reports whether each read
// since the last time, and so this one, held a single segment.
func (g *segments) single(count uint32, ok bool) bool {
	one := ok && g.known && count-g.seen <= g.reads
	g.known, g.seen, g.reads = ok, count, 0
	return one
}

// tickSelf runs the sentinel by a timer of the runtime.
func (c *Client) tickSelf(ctx context.Context) {
	timer := time.NewTimer(time.Duration(sentinelEvery))
	defer timer.Stop()
	for {
		due := c.clock.Now() + sentinelEvery
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		now := c.clock.Now()
		c.sentinel.woke(now, now-due)
		timer.Reset(time.Duration(sentinelEvery))
	}
}
