package simulate

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// quantum is the shortest sleep. Waking costs about as much as writing a
// token; at high rates several tokens share one wake-up and are at most this
// much later for it.
const quantum = 50 * time.Microsecond

// pacer is the one goroutine that runs the law and writes tokens. Handlers
// put replies into its inbox and go back to reading their connection.
type pacer struct {
	start time.Time
	law   law
	give  func(q *sequence, n int, due int64) bool
	gone  func(*reply)
	flush func(*reply, int64)
	bell  bell

	// asleep is the time until which the pacer sleeps, 0 when it is awake.
	// Only an order that is due before it must ring the bell.
	asleep atomic.Int64

	mu     sync.Mutex
	inbox  []order
	stalls []window // planned and under way
	closed bool

	orders []order // swapped with inbox
	held   int64   // end of the last stall that held tokens back
	later  []alarm // writes that are held back, the earliest first
}

// order is a reply to be started, or to be forgotten.
type order struct {
	r    *reply
	gone bool
}

// alarm is when a reply's outlet has something to write.
type alarm struct {
	at int64
	r  *reply
}

// window is a stall: tokens due at from or later wait until to.
type window struct{ from, to int64 }

func (p *pacer) now() int64 { return int64(time.Since(p.start)) }

// submit passes an order; due is when it first needs attention.
func (p *pacer) submit(o order, due int64) {
	p.mu.Lock()
	p.inbox = append(p.inbox, o)
	p.mu.Unlock()
	if due < p.asleep.Load() {
		p.bell.ring()
	}
}

// stall holds all tokens back from now on for d.
func (p *pacer) stall(d time.Duration) {
	now := p.now()
	p.plan(window{now, now + int64(d)})
	p.bell.ring()
}

func (p *pacer) plan(w window) {
	p.mu.Lock()
	p.stalls = append(p.stalls, w)
	p.mu.Unlock()
}

func (p *pacer) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.bell.ring()
}

// run is the pacer's goroutine.
func (p *pacer) run() {
	// A thread of its own: the sleep below is a system call whose timer
	// slack is a property of the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	restore := tightenTimer()
	defer restore()
	for p.take() {
		now := p.now()
		until, w := p.limit(now)
		p.law.advance(until, p.give)
		wake := p.law.next()
		if until < now || (wake >= w.from && wake < w.to) {
			wake = max(wake, w.to)
			if until < now {
				wake = w.to
			}
		}
		if len(p.later) > 0 {
			p.release()
			if len(p.later) > 0 {
				wake = min(wake, p.later[0].at)
			}
		}
		wait := wake - p.now()
		if wait <= 0 {
			continue
		}
		p.asleep.Store(wake)
		if p.empty() {
			p.bell.wait(time.Duration(max(wait, int64(quantum))))
		}
		p.asleep.Store(0)
	}
}

// remind asks for a flush of r's outlet at the given time.
func (p *pacer) remind(r *reply, at int64) {
	i := len(p.later)
	for i > 0 && p.later[i-1].at > at {
		i--
	}
	p.later = slices.Insert(p.later, i, alarm{at, r})
}

// release flushes what is due. A flush may ask for another one.
func (p *pacer) release() {
	for now := p.now(); len(p.later) > 0 && p.later[0].at <= now; {
		a := p.later[0]
		p.later = slices.Delete(p.later, 0, 1)
		p.flush(a.r, now)
	}
}

// take carries out the inbox and says whether to go on.
func (p *pacer) take() bool {
	p.mu.Lock()
	p.orders, p.inbox = p.inbox, p.orders[:0]
	closed := p.closed
	p.mu.Unlock()
	for i, o := range p.orders {
		switch {
		case !o.gone:
			for _, q := range o.r.sequences {
				p.law.admit(q)
			}
		case !o.r.over:
			o.r.over = true
			for _, q := range o.r.sequences {
				p.law.drop(q)
			}
			p.gone(o.r)
		}
		p.orders[i] = order{}
	}
	return !closed
}

// newcomers counts the replies in the inbox. They wait there until the law
// next has something to do.
func (p *pacer) newcomers() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.inbox {
		if !o.gone {
			n += int64(len(o.r.sequences))
		}
	}
	return n
}

func (p *pacer) empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.inbox) == 0 && !p.closed
}

// limit is the time up to which tokens may be given: now, or the start of a
// stall that is under way. The window is that stall, or the next one.
func (p *pacer) limit(now int64) (int64, window) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.stalls) == 0 {
		return now, window{}
	}
	kept := p.stalls[:0]
	until, current := now, window{}
	for _, w := range p.stalls {
		if w.to <= now {
			p.held = max(p.held, w.to)
			continue
		}
		kept = append(kept, w)
		if w.from <= now {
			until = min(until, w.from-1)
			current = window{min(w.from, now), max(current.to, w.to)}
		}
	}
	p.stalls = kept
	if until == now {
		for _, w := range kept {
			if current.to == 0 || w.from < current.from {
				current = w
			}
		}
	}
	return until, current
}

// effective is when a token could be written at the earliest: its due time,
// or the end of the stall that held it back.
func (p *pacer) effective(due int64) int64 { return max(due, p.held) }
