package load

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-bench/assay"
)

// Generator sends requests when a schedule says so.
//
// All times are Unix nanoseconds on the run's time-line.
type Generator struct {
	// Do sends one request and fills r; it returns when the request is over, and
	// soon after ctx is cancelled (then with the error cancelled). It is called
	// from many goroutines at once.
	Do func(ctx context.Context, r *assay.Request)
	// Record takes a request that is over. It is called from many goroutines at
	// once; in a closed loop the stream's next request waits for it.
	Record func(r *assay.Request)

	// New makes the request with number n of the stage (from 0); a is the line
	// of the trace in a replay, else nil. The generator fills in the stage, the
	// warm-up mark and the times. Nil: an id of the stage's name and n.
	New func(n int, a *Arrival) *assay.Request
	// Now is the run's clock, and Sleep sleeps until it shows a time or ctx is
	// done. Nil: the wall clock, and a timer.
	Now   func() int64
	Sleep func(ctx context.Context, until int64)
	// OnSteady is told when the first judged request was wanted, and OnLoadEnd
	// when the last request had been sent. Both may be nil, and neither delays
	// requests. OnLoadEnd is also called for a stage that is interrupted.
	OnSteady  func(at int64)
	OnLoadEnd func(at int64)

	gauge   gauge
	current atomic.Pointer[loop]
}

// Result is what came of a stage. The requests themselves went to Record.
type Result struct {
	Started int64
	Steady  int64 // zero: no judged request was ever wanted
	LoadEnd int64
	Ended   int64

	Issued    int // wanted by the schedule
	Sent      int // given to Do
	NeverSent int // wanted, and held by the cap until the load ended
	Censored  int // still under way when the grace was over
	// Interrupted: ctx was cancelled. Requests that the cap held at that moment
	// are then not recorded, but counted in Held: whoever resumes the run sends
	// them.
	Interrupted bool
	Held        int
}

// Progress is where the stage under way is.
type Progress struct {
	Issued, Sent, Done, InFlight int
	Waiting                      int // wanted, held by the cap; counted up to 65536
}

// Progress tells where the stage under way is, or where the last one ended.
func (g *Generator) Progress() Progress {
	l := g.current.Load()
	if l == nil {
		return Progress{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return Progress{Issued: l.issued, Sent: l.sent, Done: l.done, InFlight: l.active, Waiting: l.held.n}
}

// TakeInFlight gives the mean number of requests under way since it was called
// last, weighted by time. The first call counts from the first request.
func (g *Generator) TakeInFlight() float64 { return g.gauge.take(g.now()) }

// Busy is the time that requests were under way so far, in seconds, added up
// over them.
func (g *Generator) Busy() float64 { return g.gauge.busy(g.now()) / 1e9 }

// Run follows the schedule until it stops, then waits for the requests under
// way: for the stage's grace, after which they are cancelled and recorded as
// censored. A grace of zero waits as long as the requests take; a negative one
// does not wait.
//
// The stage's concurrency is a cap for every kind of load but closed, where it
// is the schedule's own. Requests over the cap wait in the order in which they
// were wanted. When Run returns, every call of Do and Record has returned.
func (g *Generator) Run(ctx context.Context, stage assay.Stage, s Schedule) Result {
	l := newLoop(ctx, g, stage, s)
	g.current.Store(l)
	l.follow()
	l.drain()
	l.workers.Wait()
	l.cancel()
	l.result.Ended = g.now()
	l.result.Issued, l.result.Sent = l.issued, l.sent
	l.result.Censored = int(l.censored.Load())
	return l.result
}

func (g *Generator) now() int64 {
	if g.Now != nil {
		return g.Now()
	}
	return time.Now().UnixNano()
}

func (g *Generator) sleep(ctx context.Context, until int64) {
	if g.Sleep != nil {
		g.Sleep(ctx, until)
		return
	}
	t := time.NewTimer(time.Duration(until - g.now()))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (g *Generator) make(stage string, u unit) *assay.Request {
	var r *assay.Request
	if g.New != nil {
		r = g.New(u.n, u.arrival)
	} else {
		r = &assay.Request{ID: fmt.Sprintf("%s-%d", stage, u.n), Prompt: u.n}
	}
	r.Stage, r.Warmup, r.Stream = stage, u.warmup, u.stream
	r.Scheduled, r.Eligible = u.scheduled, u.eligible
	return r
}

// gauge integrates the number of requests under way over time.
type gauge struct {
	mu    sync.Mutex
	level int
	area  float64 // request·ns since the last take
	total float64 // request·ns since the beginning
	from  int64   // when it was last taken
	last  int64   // up to where area reaches
}

func (g *gauge) add(now int64, delta int) {
	g.mu.Lock()
	g.advance(now)
	g.level += delta
	g.mu.Unlock()
}

func (g *gauge) advance(now int64) {
	if g.last == 0 {
		g.from, g.last = now, now
	}
	// Ends come a little out of order: the correction for one that lies before
	// last is as large as what was counted too much.
	more := float64(g.level) * float64(now-g.last)
	g.area += more
	g.total += more
	g.last = now
}

func (g *gauge) take(now int64) float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.advance(now)
	mean := 0.0
	if now > g.from {
		mean = g.area / float64(now-g.from)
	}
	g.area, g.from = 0, now
	return mean
}

func (g *gauge) busy(now int64) float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last != 0 { // else no request was sent yet
		g.advance(now)
	}
	return g.total
}
