package inference

import (
	"context"
	"time"

	"github.com/assay-bench/assay"
)

// Timeouts are the four limits of a request. Zero is the default, a negative
// value is no limit.
type Timeouts struct {
	Connect    time.Duration // to a connection that is ready, TLS included; 10 s
	FirstToken time.Duration // from sent to the first token; 10 minutes
	Gap        time.Duration // from one event of the stream to the next; 2 minutes
	Total      time.Duration // for everything; 6 hours
}

func (t Timeouts) filled() Timeouts {
	fill := func(d *time.Duration, def time.Duration) {
		switch {
		case *d == 0:
			*d = def
		case *d < 0:
			*d = 1 << 60 // 36 years
		}
	}
	fill(&t.Connect, 10*time.Second)
	fill(&t.FirstToken, 10*time.Minute)
	fill(&t.Gap, 2*time.Minute)
	fill(&t.Total, 6*time.Hour)
	return t
}

// Phases of a request: which limit applies.
const (
	phaseFirst int32 = iota
	phaseGap
	phaseLinger // the answer is complete, its framing is not
)

// Why a request was ended by us.
const (
	killedNot int32 = iota
	killedFirst
	killedGap
	killedTotal
	killedLinger
	killedCancel
)

// quietNS is how long a connection is left alone before the watchdog looks
// whether it was closed; see conn.pump.
const quietNS = int64(100 * time.Millisecond)

// watchdog ends requests that are overdue. One goroutine looks after all of a
// client's requests, so that a read costs no timer.
func (c *Client) watchdog(ctx context.Context) {
	shortest := min(c.timeouts.FirstToken, c.timeouts.Gap, c.timeouts.Total)
	tick := time.NewTicker(min(max(shortest/10, 2*time.Millisecond), 50*time.Millisecond))
	defer tick.Stop()
	var second int64
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := c.clock.Now()
		for _, s := range c.streams.all() {
			w := &s.watch
			if now > w.due.Load() {
				w.overdue(now)
			}
			if q := w.quiet.Load(); q != 0 && now-q > quietNS && w.quiet.CompareAndSwap(q, 0) {
				w.lookAfter()
			}
		}
		if now-second > int64(time.Second) {
			second = now
			c.idle.prune(now)
			if c.ownClock {
				c.clock.Measure()
			}
		}
	}
}

// overdue ends the request if it is overdue still.
func (w *watched) overdue(now int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn == nil || now <= w.due.Load() {
		return
	}
	why := killedTotal
	if now <= w.totalDue {
		why = [...]int32{phaseFirst: killedFirst, phaseGap: killedGap, phaseLinger: killedLinger}[w.phase.Load()]
	}
	w.kill(why)
}

// kill makes the request's reads and writes fail. The caller holds mu.
func (w *watched) kill(why int32) {
	if w.killed.CompareAndSwap(killedNot, why) {
		_ = w.conn.tcp.SetDeadline(past) // fails on a closed connection, which is as good
	}
}

// cancel ends request gen, unless it is over.
func (w *watched) cancel(gen uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gen == gen && w.conn != nil {
		w.kill(killedCancel)
	}
}

// lookAfter wakes the reader of a connection that was closed together with its
// last data, of which the poller told only once.
func (w *watched) lookAfter() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil && w.conn.raw != nil && closed(w.conn.raw) {
		w.kicked = true
		_ = w.conn.tcp.SetReadDeadline(past) // likewise
	}
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// attach puts the request under watch.
func (w *watched) attach(cn *conn, phase int32, due, totalDue int64) (gen uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gen++
	w.conn, w.kicked = cn, false
	w.sent, w.totalDue = 0, totalDue
	w.killed.Store(killedNot)
	w.quiet.Store(0)
	w.phase.Store(phase)
	w.due.Store(min(due, totalDue))
	return w.gen
}

// detach takes the request from under watch. It reports whether the connection
// is as it was: nobody has set or will set a deadline on it.
func (w *watched) detach() (clean bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn = nil
	w.quiet.Store(0)
	w.due.Store(1<<63 - 1)
	return !w.kicked && w.killed.Load() == killedNot
}

// killedDetail says in words which limit it was.
func (s *stream) killedDetail(why int32) (assay.Failure, string) {
	t := s.c.timeouts
	switch why {
	case killedFirst:
		return assay.FailTimeout, "first token: none within " + t.FirstToken.String()
	case killedGap:
		return assay.FailTimeout, "gap: nothing for " + t.Gap.String() + " after " + tokensWord(s.tokens())
	case killedTotal:
		return assay.FailTimeout, "total: not done within " + t.Total.String() + ", " + tokensWord(s.tokens()) + " so far"
	}
	return assay.FailCancelled, "after " + tokensWord(s.tokens())
}
