package load

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-bench/assay"
)

// ending is how a request ended.
type ending struct {
	n       int // its number; negative: none did
	stream  int // of a closed loop, from 1
	at      int64
	refused bool
}

// loop is one stage under way.
//
// One goroutine, the pacer, waits for the schedule's next time. A request that
// ends moves the schedule on by itself, in its own goroutine and under the same
// lock, so that a freed slot waits for nobody.
//
// Invariant while the load lasts: requests are held only while the cap is full.
type loop struct {
	g     *Generator
	stage assay.Stage
	s     Schedule
	cap   int // math.MaxInt: none
	start int64

	outer  context.Context // the caller's
	ctx    context.Context // the requests'
	cancel context.CancelFunc

	workers   sync.WaitGroup
	censoring atomic.Bool
	censored  atomic.Int64

	mu        sync.Mutex
	step      Step // what the schedule said last
	now       int64
	issued    int
	sent      int
	done      int
	active    int
	held      queue
	streams   labels // of a closed loop
	fullUntil int64  // when the cap was last full
	steady    int64
	over      bool // no request goes out any more, but for what the pacer closes
	loadEnd   int64
	target    int64 // what the pacer sleeps for
	idle      func()
	napping   context.Context
	wake      context.CancelFunc

	result Result // the pacer's
}

// never is a time that does not come.
const never = math.MaxInt64

// most is how many steps are taken under one lock, so that a burst does not
// keep finished requests from handing over their slots.
const most = 128

func newLoop(ctx context.Context, g *Generator, stage assay.Stage, s Schedule) *loop {
	l := &loop{g: g, stage: stage, s: s, cap: math.MaxInt, outer: ctx, target: never}
	if stage.Kind != assay.LoadClosed && stage.Concurrency > 0 {
		l.cap = stage.Concurrency
	}
	l.ctx, l.cancel = context.WithCancel(ctx)
	l.napping, l.wake = context.WithCancel(ctx)
	l.start = g.now()
	l.now = l.start
	l.result.Started = l.start
	return l
}

// ask asks the schedule. The lock is held.
func (l *loop) ask(end ending) {
	st := State{Now: time.Duration(l.now - l.start), Issued: l.issued, Done: l.done, Ended: end.n}
	if end.n >= 0 {
		st.Freed, st.Refused = time.Duration(end.at-l.start), end.refused
	}
	l.step = l.s.Next(st)
	if l.steady == 0 && l.step.sends() && !l.step.Warmup {
		l.steady = min(l.now, l.start+int64(l.step.At))
	}
}

// take makes a unit of the step and asks for the next one. The lock is held.
func (l *loop) take() unit {
	u := unit{
		n: l.issued, scheduled: l.start + int64(l.step.At),
		arrival: l.step.Arrival, warmup: l.step.Warmup,
	}
	l.issued++
	l.ask(ending{n: -1})
	return u
}

// launch counts a unit as sent. The lock is held.
func (l *loop) launch(u unit) unit {
	u.eligible = max(u.scheduled, l.fullUntil)
	l.active++
	l.sent++
	if l.stage.Kind == assay.LoadClosed {
		u.stream = l.streams.take()
	}
	return u
}

// end is when the load ends at the latest.
func (l *loop) end() int64 {
	if l.step.End > 0 {
		return l.start + int64(l.step.End)
	}
	return never
}

// advance does what is due, and gives the requests to send now. more says that
// it was not all. The lock is held.
func (l *loop) advance(out []unit) (ready []unit, more bool) {
	for range most {
		switch {
		case l.over:
			return out, false
		case l.ctx.Err() != nil || l.now >= l.end():
			l.over = true
			return out, false
		case l.held.n > 0 && l.active < l.cap:
			out = append(out, l.launch(l.held.pop()))
		case l.step.Stop && l.held.n == 0:
			l.over, l.loadEnd = true, l.now
			return out, false
		case !l.step.sends() || l.held.full() || l.start+int64(l.step.At) > l.now:
			return out, false
		default:
			u := l.take()
			if l.active < l.cap {
				out = append(out, l.launch(u))
			} else {
				l.held.push(u)
			}
		}
	}
	return out, true
}

// aim is when the pacer is needed next. The lock is held.
func (l *loop) aim() int64 {
	t := l.end()
	if l.step.sends() && !l.held.full() {
		t = min(t, l.start+int64(l.step.At))
	}
	return t
}

// follow is the pacer: it returns when the load has ended.
func (l *loop) follow() {
	var ready []unit
	l.mu.Lock()
	l.ask(ending{n: -1})
	told := false
	for {
		l.now = max(l.now, l.g.now())
		var more bool
		ready, more = l.advance(ready[:0])
		steady, over := l.steady, l.over
		l.target = l.aim()
		if l.napping.Err() != nil {
			l.napping, l.wake = context.WithCancel(l.outer)
		}
		nap, target := l.napping, l.target
		l.mu.Unlock()

		l.send(ready)
		if steady != 0 && !told {
			told = true
			l.result.Steady = steady
			if l.g.OnSteady != nil {
				l.g.OnSteady(steady)
			}
		}
		if over {
			break
		}
		if !more {
			if target == never {
				<-nap.Done()
			} else {
				l.g.sleep(nap, target)
			}
		}
		l.mu.Lock()
	}
	l.wake()
	l.close()
}

func (l *loop) send(units []unit) {
	for _, u := range units {
		l.workers.Go(func() { l.work(u) })
	}
}

// work sends a request, and then each that the end of the last one allows.
func (l *loop) work(u unit) {
	for more := true; more; {
		r := l.g.make(l.stage.Name, u)
		l.g.gauge.add(l.g.now(), 1)
		l.g.Do(l.ctx, r)
		now := l.g.now()
		if r.End == 0 || r.End > now {
			r.End = now
		}
		l.g.gauge.add(r.End, -1)
		if r.Error == assay.FailCancelled && l.censoring.Load() {
			r.Error = assay.FailCensored
			l.censored.Add(1)
		}
		u, more = l.ended(ending{n: u.n, stream: u.stream, at: r.End, refused: r.Error == assay.FailRefused || r.Error == assay.FailNeverSent}, now)
		l.g.Record(r)
	}
}

// ended moves the schedule on after a request ended. The caller does the request
// that it gives back.
func (l *loop) ended(end ending, now int64) (unit, bool) {
	var room [4]unit
	l.mu.Lock()
	l.now = max(l.now, now)
	if l.active >= l.cap {
		l.fullUntil = max(l.fullUntil, end.at)
	}
	l.active--
	l.done++
	if end.stream > 0 {
		l.streams.put(end.stream)
	}
	if l.over {
		if l.active == 0 && l.idle != nil {
			l.idle()
		}
		l.mu.Unlock()
		return unit{}, false
	}
	waits := l.steady == 0
	l.ask(end)
	ready, more := l.advance(room[:0])
	if more || l.over || l.aim() < l.target || waits && l.steady != 0 {
		l.wake()
	}
	l.mu.Unlock()
	if len(ready) == 0 {
		return unit{}, false
	}
	l.send(ready[1:])
	return ready[0], true
}

// close ends the load. Requests that the cap still holds are never sent, and
// recorded as such; steps from before the end that nothing held back but our
// own lateness are sent.
func (l *loop) close() {
	l.mu.Lock()
	end := l.end()
	switch {
	case l.ctx.Err() != nil:
		l.result.Interrupted, l.result.Held = true, l.held.n
		l.loadEnd = l.now
	case l.loadEnd == 0:
		l.loadEnd = end
	}
	l.result.LoadEnd = l.loadEnd
	interrupted := l.result.Interrupted
	l.mu.Unlock()
	if l.g.OnLoadEnd != nil {
		l.g.OnLoadEnd(l.result.LoadEnd)
	}
	full := false
	for more := !interrupted; more; {
		var late, lost []unit
		l.mu.Lock()
		for range most {
			switch {
			case l.held.n > 0:
				full = true
				lost = append(lost, l.held.pop())
				continue
			case !l.step.sends() || l.start+int64(l.step.At) >= end:
				more = false
			default:
				// A slot that becomes free from here on is too late.
				full = full || l.active >= l.cap
				if u := l.take(); full {
					lost = append(lost, u)
				} else {
					late = append(late, l.launch(u))
				}
				continue
			}
			break
		}
		l.mu.Unlock()
		l.send(late)
		for _, u := range lost {
			l.lose(u)
		}
		more = more && l.ctx.Err() == nil
	}
}

// lose records a request that was never sent.
func (l *loop) lose(u unit) {
	r := l.g.make(l.stage.Name, u)
	r.Error = assay.FailNeverSent
	r.Detail = fmt.Sprintf("held by the concurrency cap of %d until the load ended", l.cap)
	l.result.NeverSent++
	l.g.Record(r)
}

// drain waits for the requests under way, for as long as the stage's grace
// allows, and cancels the rest.
func (l *loop) drain() {
	quiet, stop := context.WithCancel(l.ctx)
	defer stop()
	l.mu.Lock()
	l.idle = stop
	if l.active == 0 {
		stop()
	}
	l.mu.Unlock()
	switch grace := l.stage.GraceNS; {
	case grace == 0:
		<-quiet.Done()
	case grace > 0:
		l.g.sleep(quiet, l.result.LoadEnd+grace)
	}
	if l.outer.Err() != nil {
		l.result.Interrupted = true
		return
	}
	l.mu.Lock()
	censor := l.active > 0
	l.mu.Unlock()
	if censor {
		l.censoring.Store(true)
		l.cancel()
	}
}
