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

// sentinel remembers when this process was late to wake. It rests while no
// request is under way.
type sentinel struct {
	busy atomic.Int32  // requests under way
	wake chan struct{} // there is one again
	last atomic.Int64  // when it last woke; 0: it never ran
	n    atomic.Uint64
	late [lateTicks]struct{ at, by atomic.Int64 }
}

// begin has the sentinel watch over a request, and end no longer.
func (t *sentinel) begin(now int64) {
	if t.busy.Add(1) > 1 {
		return
	}
	t.last.Store(now) // until it runs, it is late from here
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *sentinel) end() { t.busy.Add(-1) }

// rest waits for a request, if there is none; false: ctx has ended.
func (t *sentinel) rest(ctx context.Context) (rested, ok bool) {
	for t.busy.Load() == 0 {
		rested = true
		select {
		case <-ctx.Done():
			return rested, false
		case <-t.wake:
		}
	}
	return rested, ctx.Err() == nil
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
	full  bool   // the last read filled its buffer
}

// read counts a read. One that filled its buffer may have left segments behind,
// which the kernel's count has already: until the socket was emptied, reads and
// segments are not to be compared.
func (g *segments) read(full bool) {
	g.reads++
	if full || g.full {
		g.known = false
	}
	g.full = full
}

// single takes the kernel's count after a read, and reports whether each read
// since the last time, and so this one, held a single segment.
func (g *segments) single(count uint32, ok bool) bool {
	one := ok && g.known && count-g.seen <= g.reads
	g.known, g.seen, g.reads = ok && !g.full, count, 0
	return one
}

// tickSelf runs the sentinel by a timer of the runtime.
func (c *Client) tickSelf(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if _, ok := c.sentinel.rest(ctx); !ok {
			return
		}
		due := c.clock.Now() + sentinelEvery
		timer.Reset(time.Duration(sentinelEvery))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		now := c.clock.Now()
		c.sentinel.woke(now, now-due)
	}
}
