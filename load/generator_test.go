package load

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-bench/assay"
)

// engine is a fake engine in virtual time: every request takes what latency
// says, and is cancelled by its context.
type engine struct {
	latency func(n int) time.Duration

	mu       sync.Mutex
	inFlight int
	most     int
	requests []*assay.Request // in the order of Record
	begin    time.Time
	steady   []time.Duration
	loadEnd  []time.Duration
	told     []time.Duration // when a hook was called
}

func (e *engine) do(ctx context.Context, r *assay.Request) {
	e.mu.Lock()
	e.inFlight++
	e.most = max(e.most, e.inFlight)
	e.mu.Unlock()
	r.Sent = time.Now().UnixNano()
	select {
	case <-time.After(e.latency(r.Prompt)):
		r.First = time.Now().UnixNano()
		r.Last = r.First
	case <-ctx.Done():
		r.Error = assay.FailCancelled
	}
	e.mu.Lock()
	e.inFlight--
	e.mu.Unlock()
}

func (e *engine) generator() *Generator {
	e.begin = time.Now()
	since := func(to *[]time.Duration) func(int64) {
		return func(at int64) {
			*to = append(*to, time.Duration(at-e.begin.UnixNano()))
			e.told = append(e.told, time.Since(e.begin))
		}
	}
	return &Generator{
		Do: e.do,
		Record: func(r *assay.Request) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.requests = append(e.requests, r)
		},
		OnSteady:  since(&e.steady),
		OnLoadEnd: since(&e.loadEnd),
	}
}

// at is a mark of a request in milliseconds since the stage began.
func (e *engine) at(ns int64) float64 {
	return float64(ns-e.begin.UnixNano()) / 1e6
}

// byNumber gives the requests in the order in which they were wanted.
func (e *engine) byNumber() []*assay.Request {
	out := slices.Clone(e.requests)
	slices.SortFunc(out, func(a, b *assay.Request) int { return a.Prompt - b.Prompt })
	return out
}

func (e *engine) count(f assay.Failure) int {
	n := 0
	for _, r := range e.requests {
		if r.Error == f {
			n++
		}
	}
	return n
}

func always(d time.Duration) func(int) time.Duration {
	return func(int) time.Duration { return d }
}

// run runs a stage in virtual time.
func run(t *testing.T, ctx context.Context, e *engine, stage assay.Stage, o Options) Result {
	t.Helper()
	stage.Name = "s"
	s, err := Of(stage, o)
	if err != nil {
		t.Fatal(err)
	}
	return e.generator().Run(ctx, stage, s)
}

func TestClosedKeepsExactlyN(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{latency: func(n int) time.Duration { return time.Duration(50+n%7*10) * time.Millisecond }}
		res := run(t, t.Context(), e, assay.Stage{
			Kind: assay.LoadClosed, Concurrency: 8, DurationNS: int64(10 * time.Second), GraceNS: int64(time.Second),
		}, Options{})
		if e.most != 8 {
			t.Errorf("%d in flight at most, want 8", e.most)
		}
		// Mean latency is 80 ms: 8 streams for 10 s make about 1000 requests.
		if n := len(e.requests); n < 980 || n > 1020 {
			t.Errorf("%d requests, want about 1000", n)
		}
		ends := map[int64]int{e.begin.UnixNano(): 8}
		for _, r := range e.requests {
			ends[r.End]++
		}
		for _, r := range e.requests {
			if r.Scheduled != r.Sent || r.Eligible != r.Sent {
				t.Fatalf("request %d: scheduled %d eligible %d sent %d: a free slot waited", r.Prompt, r.Scheduled, r.Eligible, r.Sent)
			}
			if ends[r.Scheduled]--; ends[r.Scheduled] < 0 {
				t.Fatalf("request %d was scheduled when no slot became free", r.Prompt)
			}
		}
		if res.LoadEnd-res.Started != int64(10*time.Second) || e.loadEnd[0] != 10*time.Second {
			t.Errorf("load ended after %v, hook says %v; want 10s", time.Duration(res.LoadEnd-res.Started), e.loadEnd)
		}
		if res.Sent != len(e.requests) || res.NeverSent+res.Censored != 0 || res.Steady != res.Started || len(e.steady) != 1 {
			t.Errorf("result %+v for %d requests, steady told %d times", res, len(e.requests), len(e.steady))
		}
	})
}

// A dead engine is not asked in a tight loop.
func TestClosedRestsWhenRefused(t *testing.T) {
	for _, stage := range []assay.Stage{
		{Kind: assay.LoadClosed, Concurrency: 4},
		{Kind: assay.LoadBatch, Batch: 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := &engine{}
			stage.Name, stage.DurationNS = "s", int64(time.Second)
			s, err := Of(stage, Options{})
			if err != nil {
				t.Fatal(err)
			}
			g := e.generator()
			g.Do = func(_ context.Context, r *assay.Request) { r.Error = assay.FailRefused }
			g.Run(t.Context(), stage, s)
			if n := len(e.requests); n != 40 {
				t.Errorf("%s: %d refused in a second, want 40: four every 100 ms", stage.Kind, n)
			}
		})
	}
}

func TestClosedByCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{latency: always(100 * time.Millisecond)}
		res := run(t, t.Context(), e, assay.Stage{
			Kind: assay.LoadClosed, Concurrency: 4, Requests: 10, Warmups: 5,
		}, Options{})
		warm := 0
		for _, r := range e.byNumber() {
			if r.Warmup {
				warm++
				if r.Prompt > 4 {
					t.Errorf("request %d is a warm-up", r.Prompt)
				}
			}
		}
		if len(e.requests) != 15 || warm != 5 || e.count("") != 15 {
			t.Errorf("%d requests, %d warm-ups; want 15 and 5", len(e.requests), warm)
		}
		want := []time.Duration{100 * time.Millisecond, 300 * time.Millisecond}
		if got := append(e.steady, e.loadEnd...); !slices.Equal(got, want) || !slices.Equal(e.told, want) {
			t.Errorf("steady and load end at %v, told at %v; want %v", got, e.told, want)
		}
		// 4 at 0, 100, 200 ms and the last 3 at 300 ms, which end at 400 ms.
		if got := time.Duration(res.LoadEnd - res.Started); got != 300*time.Millisecond {
			t.Errorf("load ended after %v, want 300ms: with the last sent", got)
		}
		if got := time.Duration(res.Ended - res.Started); got != 400*time.Millisecond {
			t.Errorf("ended after %v, want 400ms", got)
		}
	})
}

func TestClosedRampUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{latency: always(300 * time.Millisecond)}
		run(t, t.Context(), e, assay.Stage{
			Kind: assay.LoadClosed, Concurrency: 4, RampUpNS: int64(time.Second), DurationNS: int64(3 * time.Second),
		}, Options{})
		var got []float64
		for _, r := range e.byNumber()[:7] {
			got = append(got, e.at(r.Sent))
			if !r.Warmup {
				t.Errorf("request %d within the ramp-up is judged", r.Prompt)
			}
		}
		// Streams start at 0, 250, 500, 750 ms; each sends again 300 ms later.
		if want := []float64{0, 250, 300, 500, 550, 600, 750}; !slices.Equal(got, want) {
			t.Errorf("sent at %v, want %v", got, want)
		}
		if len(e.steady) != 1 || e.steady[0] != 1050*time.Millisecond {
			t.Errorf("steady from %v, want 1.05s: the first slot freed after the ramp-up", e.steady)
		}
		if e.most != 4 {
			t.Errorf("%d in flight at most, want 4", e.most)
		}
	})
}

// The engine answers nothing between 2 s and 5 s; without a cap, the schedule
// goes on as if nothing had happened.
func TestOpenKeepsItsScheduleThroughAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{}
		e.latency = func(int) time.Duration {
			since := time.Since(e.begin)
			if since >= 2*time.Second && since < 5*time.Second {
				return 5*time.Second - since + 10*time.Millisecond
			}
			return 10 * time.Millisecond
		}
		o := Options{Seed: 7}
		stage := assay.Stage{Kind: assay.LoadOpen, Rate: 100, Burstiness: 1, DurationNS: int64(10 * time.Second)}
		run(t, t.Context(), e, stage, o)
		s, _ := Of(stage, o)
		for _, r := range e.byNumber() {
			want := s.Next(State{Issued: r.Prompt, Ended: -1}).At
			if got := time.Duration(r.Sent - e.begin.UnixNano()); got != want || r.Scheduled != r.Sent {
				t.Fatalf("request %d sent at %v, scheduled %v", r.Prompt, got, want)
			}
		}
		if n := len(e.requests); n < 900 || n > 1100 {
			t.Errorf("%d requests, want about 1000", n)
		}
		if e.steady[0] != 0 {
			t.Errorf("steady from %v: without a warm-up it is the start, not the first arrival", e.steady)
		}
		if e.most < 250 {
			t.Errorf("%d in flight at most, want about 300", e.most)
		}
	})
}

func TestCapHoldsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{latency: always(100 * time.Millisecond)}
		run(t, t.Context(), e, assay.Stage{
			Kind: assay.LoadOpen, Rate: 100, Concurrency: 2, Requests: 10,
		}, Options{})
		var sent, scheduled []float64
		for _, r := range e.byNumber() {
			sent = append(sent, e.at(r.Sent))
			scheduled = append(scheduled, e.at(r.Scheduled))
			if r.Eligible != r.Sent {
				t.Errorf("request %d: eligible at %v, sent at %v: no time passes between", r.Prompt, e.at(r.Eligible), e.at(r.Sent))
			}
		}
		if want := []float64{0, 10, 20, 30, 40, 50, 60, 70, 80, 90}; !slices.Equal(scheduled, want) {
			t.Errorf("scheduled %v, want %v", scheduled, want)
		}
		if want := []float64{0, 10, 100, 110, 200, 210, 300, 310, 400, 410}; !slices.Equal(sent, want) {
			t.Errorf("sent %v, want %v", sent, want)
		}
		if e.most != 2 {
			t.Errorf("%d in flight at most, want 2", e.most)
		}
	})
}

func TestNeverSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{latency: always(400 * time.Millisecond)}
		res := run(t, t.Context(), e, assay.Stage{
			Kind: assay.LoadOpen, Rate: 10, Concurrency: 1, DurationNS: int64(time.Second), GraceNS: int64(time.Second),
		}, Options{})
		// Wanted at 0, 100 … 900 ms; sent at 0, 400, 800 ms.
		if len(e.requests) != 10 || e.count("") != 3 || e.count(assay.FailNeverSent) != 7 {
			t.Fatalf("%d requests, %d sent, %d never; want 10, 3, 7", len(e.requests), e.count(""), e.count(assay.FailNeverSent))
		}
		if res.NeverSent != 7 || res.Sent != 3 || res.Issued != 10 {
			t.Errorf("result %+v", res)
		}
		for i, r := range e.byNumber() {
			if e.at(r.Scheduled) != float64(100*i) {
				t.Errorf("request %d scheduled at %v", i, e.at(r.Scheduled))
			}
			if r.Error == assay.FailNeverSent && (r.Sent != 0 || r.Eligible != 0 || r.Detail == "") {
				t.Errorf("never sent, and yet %+v", r)
			}
		}
		if e.loadEnd[0] != time.Second {
			t.Errorf("load ended at %v, want 1s", e.loadEnd)
		}
	})
}

func TestDrainAndCensor(t *testing.T) {
	for _, tc := range []struct {
		grace        time.Duration
		ok, censored int
		ended        time.Duration
	}{
		{grace: 0, ok: 5, ended: 5400 * time.Millisecond},
		{grace: -1, ok: 0, censored: 5, ended: 500 * time.Millisecond},
		{grace: 2500 * time.Millisecond, ok: 2, censored: 3, ended: 3 * time.Second},
		{grace: time.Minute, ok: 5, ended: 5400 * time.Millisecond},
	} {
		t.Run(tc.grace.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Sent at 0, 100 … 400 ms; request n takes n+1 seconds.
				e := &engine{latency: func(n int) time.Duration { return time.Duration(n+1) * time.Second }}
				res := run(t, t.Context(), e, assay.Stage{
					Kind: assay.LoadOpen, Rate: 10, DurationNS: int64(500 * time.Millisecond), GraceNS: int64(tc.grace),
				}, Options{})
				if e.count("") != tc.ok || e.count(assay.FailCensored) != tc.censored || res.Censored != tc.censored {
					t.Errorf("%d ok, %d censored, result %+v; want %d and %d", e.count(""), e.count(assay.FailCensored), res, tc.ok, tc.censored)
				}
				if got := time.Duration(res.Ended - res.Started); got != tc.ended {
					t.Errorf("ended after %v, want %v", got, tc.ended)
				}
			})
		})
	}
}

func TestInterrupt(t *testing.T) {
	for _, tc := range []struct {
		name  string
		stage assay.Stage
		held  int
	}{
		{"closed", assay.Stage{Kind: assay.LoadClosed, Concurrency: 3, DurationNS: int64(time.Minute)}, 0},
		{"open, held", assay.Stage{Kind: assay.LoadOpen, Rate: 10, Concurrency: 3, DurationNS: int64(time.Minute), GraceNS: int64(time.Minute)}, 7},
		{"all at once", assay.Stage{Kind: assay.LoadOpen, Concurrency: 3, Requests: 1000}, 997},
		{"in the drain", assay.Stage{Kind: assay.LoadClosed, Concurrency: 3, DurationNS: int64(time.Second / 2), GraceNS: int64(time.Minute)}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &engine{latency: always(time.Hour)}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second-time.Millisecond)
				defer cancel()
				res := run(t, ctx, e, tc.stage, Options{})
				if got := time.Duration(res.Ended - res.Started); got != 999*time.Millisecond {
					t.Errorf("ended after %v, want at once", got)
				}
				if !res.Interrupted || res.Held != tc.held || res.Sent != 3 {
					t.Errorf("result %+v, want interrupted, 3 sent, %d held", res, tc.held)
				}
				if len(e.requests) != 3 || e.count(assay.FailCancelled) != 3 {
					t.Errorf("%d requests, %d cancelled; want 3 and 3", len(e.requests), e.count(assay.FailCancelled))
				}
			})
		})
	}
}

func TestBatchWaitsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{latency: func(n int) time.Duration { return time.Duration(100+n%4*50) * time.Millisecond }}
		run(t, t.Context(), e, assay.Stage{Kind: assay.LoadBatch, Batch: 4, Requests: 10}, Options{})
		var got []float64
		for _, r := range e.byNumber() {
			got = append(got, e.at(r.Sent))
		}
		if want := []float64{0, 0, 0, 0, 250, 250, 250, 250, 500, 500}; !slices.Equal(got, want) {
			t.Errorf("sent at %v, want %v", got, want)
		}
	})
}

func TestWarmupsComeFirstAndAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{latency: always(100 * time.Millisecond)}
		res := run(t, t.Context(), e, assay.Stage{
			Kind: assay.LoadOpen, Rate: 100, Concurrency: 2, Warmups: 3, DurationNS: int64(30 * time.Millisecond),
		}, Options{})
		var got []float64
		for i, r := range e.byNumber() {
			got = append(got, e.at(r.Scheduled))
			if r.Warmup != (i < 3) {
				t.Errorf("request %d: warm-up %v", i, r.Warmup)
			}
		}
		if want := []float64{0, 0, 100, 200, 210, 220}; !slices.Equal(got, want) {
			t.Errorf("scheduled at %v, want %v", got, want)
		}
		if len(e.steady) != 1 || e.steady[0] != 200*time.Millisecond || e.loadEnd[0] != 230*time.Millisecond {
			t.Errorf("steady from %v to %v, want 200ms to 230ms", e.steady, e.loadEnd)
		}
		if res.NeverSent != 1 {
			t.Errorf("%d never sent, want the one at 220 ms", res.NeverSent)
		}
	})
}

func TestOpenRampUpIsWarmup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{latency: always(time.Millisecond)}
		run(t, t.Context(), e, assay.Stage{
			Kind: assay.LoadOpen, Rate: 100, RampUpNS: int64(2 * time.Second), DurationNS: int64(4 * time.Second),
		}, Options{})
		warm := 0
		for _, r := range e.requests {
			if r.Warmup {
				warm++
			}
			if r.Warmup != (e.at(r.Scheduled) < 2000) {
				t.Errorf("request at %v ms: warm-up %v", e.at(r.Scheduled), r.Warmup)
			}
		}
		if warm != 100 || len(e.requests) != 300 {
			t.Errorf("%d of %d are warm-ups, want 100 of 300", warm, len(e.requests))
		}
	})
}

func TestReplayConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trace := []Arrival{
			{At: 0, Conversation: "a"},
			{At: 50 * time.Millisecond},
			{Conversation: "a", Think: 30 * time.Millisecond},
			{At: time.Second, Conversation: "a", Think: 30 * time.Millisecond},
			{At: 60 * time.Millisecond},
		}
		e := &engine{latency: always(100 * time.Millisecond)}
		run(t, t.Context(), e, assay.Stage{Kind: assay.LoadReplay}, Options{Trace: trace})
		var got []float64
		for _, r := range e.byNumber() {
			got = append(got, e.at(r.Scheduled))
		}
		if want := []float64{0, 50, 60, 130, 1000}; !slices.Equal(got, want) {
			t.Errorf("scheduled at %v, want %v", got, want)
		}
	})
}

// Little's law holds for the gauge: mean in flight = rate × time in system.
func TestInFlightGauge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{latency: func(n int) time.Duration { return time.Duration(20+n%5*10) * time.Millisecond }}
		g := e.generator()
		stage := assay.Stage{Name: "s", Kind: assay.LoadOpen, Rate: 200, DurationNS: int64(10 * time.Second)}
		s, _ := Of(stage, Options{})
		done := make(chan Result)
		go func() { done <- g.Run(t.Context(), stage, s) }()
		time.Sleep(time.Second)
		g.TakeInFlight()
		busy := g.Busy()
		for range 5 {
			time.Sleep(time.Second)
			if got := g.TakeInFlight(); !(math.Abs(got-8) <= 0.1) {
				t.Errorf("%.3f in flight, want 8 = 200/s × 40 ms", got)
			}
			// Looking at one does not take from the other.
			if more := g.Busy() - busy; !(math.Abs(more-8) <= 0.1) {
				t.Errorf("%.3f request-seconds in a second, want 8", more)
			}
			busy = g.Busy()
		}
		if p := g.Progress(); p.InFlight < 6 || p.InFlight > 10 || p.Issued < 1200 || p.Sent != p.Done+p.InFlight {
			t.Errorf("progress %+v", p)
		}
		<-done
		time.Sleep(time.Second)
		g.TakeInFlight()
		time.Sleep(time.Second)
		if got := g.TakeInFlight(); got != 0 {
			t.Errorf("%v in flight after the end", got)
		}
	})
}

// A queue longer than what is kept of it: nothing is lost or reordered.
func TestAllAtOnceBeyondTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = maxHeld + 5000
		e := &engine{latency: always(time.Millisecond)}
		res := run(t, t.Context(), e, assay.Stage{Kind: assay.LoadOpen, Concurrency: 500, Requests: n}, Options{})
		if res.Sent != n || len(e.requests) != n || e.most != 500 {
			t.Fatalf("%d sent, %d recorded, %d at once; want %d, %d, 500", res.Sent, len(e.requests), e.most, n, n)
		}
		last := int64(0)
		for i, r := range e.byNumber() {
			if r.Prompt != i || r.Sent < last || r.Scheduled != e.begin.UnixNano() {
				t.Fatalf("request %d at place %d: sent %v, scheduled %v", r.Prompt, i, e.at(r.Sent), e.at(r.Scheduled))
			}
			last = r.Sent
		}
	})
}

// A pacer that wakes late sends late, and the record shows it; what was due
// before the end is sent even so.
func TestLatePacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{latency: always(time.Millisecond)}
		g := e.generator()
		g.Sleep = func(ctx context.Context, until int64) {
			time.Sleep(time.Duration(until-time.Now().UnixNano()) + 15*time.Millisecond)
		}
		stage := assay.Stage{Name: "s", Kind: assay.LoadOpen, Rate: 100, DurationNS: int64(100 * time.Millisecond)}
		s, _ := Of(stage, Options{})
		res := g.Run(t.Context(), stage, s)
		if res.Sent != 10 || res.NeverSent != 0 {
			t.Fatalf("result %+v, want 10 sent", res)
		}
		late := 0
		for _, r := range e.byNumber() {
			if e.at(r.Scheduled) != float64(10*r.Prompt) || r.Eligible != r.Scheduled {
				t.Errorf("request %d: scheduled %v, eligible %v", r.Prompt, e.at(r.Scheduled), e.at(r.Eligible))
			}
			if r.SendLag() > 0 {
				late++
			}
		}
		if late < 8 {
			t.Errorf("%d of 10 are shown as late", late)
		}
	})
}

// The same under a cap: what the cap would not have let go is never sent.
func TestLatePacerUnderACap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{latency: always(time.Second)}
		g := e.generator()
		g.Sleep = func(ctx context.Context, until int64) { time.Sleep(200 * time.Millisecond) }
		stage := assay.Stage{Name: "s", Kind: assay.LoadOpen, Rate: 100, Concurrency: 4, DurationNS: int64(100 * time.Millisecond)}
		s, _ := Of(stage, Options{})
		res := g.Run(t.Context(), stage, s)
		if res.Sent != 4 || res.NeverSent != 6 || e.most != 4 {
			t.Errorf("result %+v with %d at once, want 4 sent and 6 never", res, e.most)
		}
	})
}

func TestQueueGrowsInOrder(t *testing.T) {
	var q queue
	in, out := 0, 0
	for range 500 {
		for range 3 {
			q.push(unit{n: in})
			in++
		}
		if u := q.pop(); u.n != out {
			t.Fatalf("popped %d, want %d", u.n, out)
		}
		out++
	}
	for ; q.n > 0; out++ {
		if u := q.pop(); u.n != out {
			t.Fatalf("popped %d, want %d", u.n, out)
		}
	}
	if in != out {
		t.Errorf("%d in, %d out", in, out)
	}
}

func BenchmarkGenerator(b *testing.B) {
	for _, tc := range []struct {
		name  string
		stage assay.Stage
	}{
		{"closed", assay.Stage{Kind: assay.LoadClosed, Concurrency: 64}},
		{"open", assay.Stage{Kind: assay.LoadOpen}},
		{"open-cap", assay.Stage{Kind: assay.LoadOpen, Concurrency: 64}},
	} {
		b.Run(tc.name, func(b *testing.B) {
			b.ReportAllocs()
			g := &Generator{
				Do:     func(context.Context, *assay.Request) {},
				Record: func(*assay.Request) {},
				New:    func(n int, _ *Arrival) *assay.Request { return &assay.Request{Prompt: n} },
			}
			tc.stage.Name, tc.stage.Requests = "b", b.N
			s, err := Of(tc.stage, Options{})
			if err != nil {
				b.Fatal(err)
			}
			if res := g.Run(b.Context(), tc.stage, s); res.Sent != b.N {
				b.Fatalf("%+v", res)
			}
		})
	}
}
