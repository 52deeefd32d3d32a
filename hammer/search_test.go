package hammer

import (
	"container/heap"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/load"
	"github.com/assay-bench/assay/simulate"
	"github.com/assay-bench/assay/summary"
)

// lawEngine is an engine in virtual time. Every request that runs moves on at
// the pace of the batching law for so many, the work of a request has a spread,
// and in one stall nothing moves. Whoever finds no slot waits in order.
type lawEngine struct {
	law     simulate.Batching
	in, out int
	sigma   float64
	stall   period
	now     int64
	rng     *rand.Rand

	made // the run as it would be on record
}

type period struct{ from, to int64 }

// across is when what takes so long from a moment on is over.
func (s period) across(at, need int64) int64 {
	if end := at + need; at >= s.to || end <= s.from {
		return end
	}
	return at + need + s.to - max(at, s.from)
}

// moving is how much of the time between two moments is outside the stall.
func (s period) moving(from, to int64) int64 {
	return to - from - max(0, min(to, s.to)-max(from, s.from))
}

// made is a run in memory.
type made struct {
	judge    assay.Judge
	requests []assay.Request
	events   []assay.Event
}

func each[T any](s []T) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for i := range s {
			if !yield(&s[i], nil) {
				return
			}
		}
	}
}

func (m *made) Manifest() assay.Manifest {
	return assay.Manifest{ID: "made", Clock: assay.ClockKernel, Judge: m.judge}
}
func (m *made) Requests() iter.Seq2[*assay.Request, error] { return each(m.requests) }
func (m *made) Readings() iter.Seq2[*assay.Reading, error] { return each[assay.Reading](nil) }
func (m *made) Events() iter.Seq2[*assay.Event, error]     { return each(m.events) }

// chunks is how many an answer has; the first comes after a share of the work.
const (
	chunks     = 4
	firstShare = 0.2
)

// job is a request that runs: its next chunk comes when the engine's progress
// reaches next.
type job struct {
	request  assay.Request
	n        int
	work     float64
	next     float64
	answered int // chunks
	stream   int
}

type running []*job

func (r running) Len() int           { return len(r) }
func (r running) Less(i, j int) bool { return r[i].next < r[j].next }
func (r running) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *running) Push(x any)        { *r = append(*r, x.(*job)) }
func (r *running) Pop() any {
	old := *r
	j := old[len(old)-1]
	*r = old[:len(old)-1]
	return j
}

// stage runs a stage by its real schedule and gives what the plan learns of it.
func (e *lawEngine) stage(t *testing.T, s assay.Stage) load.Outcome {
	schedule, err := load.Of(s, load.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := summary.NewCollector(s, e.judge)
	start := e.now
	event := func(kind assay.EventKind, at int64) {
		e.events = append(e.events, assay.Event{At: at, Kind: kind, Stage: s.Name, Plan: &s})
	}
	event(assay.EventStageStarted, start)
	c.Started(start)
	record := func(r assay.Request) {
		e.requests = append(e.requests, r)
		c.Add(&r)
	}
	var active running
	var waiting []*job
	var streams []int // that are free
	for i := s.Concurrency; i > 0; i-- {
		streams = append(streams, i)
	}
	progress, steady := 0.0, false
	pace := func() float64 { return e.law.Latency(float64(len(active)), e.in, e.out) * 1e9 } // ns a unit of work
	state := load.State{Ended: -1}
	step := schedule.Next(state)
	loadEnd := start + s.DurationNS
	limit := loadEnd + s.GraceNS
	over := false
	for {
		arrival, departure := int64(math.MaxInt64), int64(math.MaxInt64)
		if at := start + int64(step.At); !step.Wait && !step.Stop && at < loadEnd {
			arrival = max(at, e.now)
		}
		if len(active) > 0 {
			departure = e.stall.across(e.now, int64(math.Ceil(max(0, active[0].next-progress)*pace())))
		}
		next := min(arrival, departure)
		if !over && next >= loadEnd {
			over = true
			c.LoadEnd(loadEnd)
			event(assay.EventStageLoadEnd, loadEnd)
		}
		if next >= limit { // also when there is nothing left
			break
		}
		if len(active) > 0 {
			progress += float64(e.stall.moving(e.now, next)) / pace()
		}
		e.now = next
		state.Now = time.Duration(next - start)
		state.Ended = -1
		if arrival <= departure {
			if !steady && !step.Warmup {
				steady = true
				event(assay.EventStageSteady, next)
			}
			at := start + int64(step.At)
			waiting = append(waiting, &job{n: state.Issued, work: math.Exp(e.sigma * e.rng.NormFloat64()), request: assay.Request{
				ID: fmt.Sprint(s.Name, "/", state.Issued), Stage: s.Name, Warmup: step.Warmup, Scheduled: at, Eligible: at, Sent: at,
			}})
			if n := len(streams); n > 0 && s.Kind == assay.LoadClosed {
				waiting[len(waiting)-1].stream = streams[n-1]
				streams = streams[:n-1]
			}
			state.Issued++
		} else {
			j := active[0]
			if e.chunk(j); j.answered < chunks {
				heap.Fix(&active, 0)
				continue
			}
			heap.Pop(&active)
			record(j.request)
			streams = append(streams, j.stream)
			state.Done++
			state.Ended, state.Freed = j.n, state.Now
		}
		for len(waiting) > 0 && len(active) < e.law.Slots {
			j := waiting[0]
			waiting = waiting[1:]
			j.next = progress + firstShare*j.work
			heap.Push(&active, j)
		}
		step = schedule.Next(state)
	}
	e.now = max(e.now, loadEnd)
	if len(active) > 0 {
		e.now = limit
	}
	for _, j := range append(active, waiting...) {
		j.request.End, j.request.Error = limit, assay.FailCensored
		record(j.request)
	}
	c.Ended(e.now)
	event(assay.EventStageEnded, e.now)
	e.now += int64(50 * time.Millisecond)
	sum := c.Summary()
	return outcome(s, &sum)
}

// chunk lets the next chunk of an answer arrive.
func (e *lawEngine) chunk(j *job) {
	r := &j.request
	if j.answered == 0 {
		r.First, r.Last = e.now, e.now
		r.Stream = j.stream
		r.InputTokens, r.OutputTokens, r.TokensFrom = e.in, e.out, "usage"
	} else {
		gap := (e.now - r.Last) / 1000
		r.Gaps = append(r.Gaps, int32(gap))
		r.Last += gap * 1000
	}
	each := e.out / chunks
	if j.answered++; j.answered == chunks {
		each = e.out - (chunks-1)*each
		r.End = r.Last
	}
	r.ChunkTokens = append(r.ChunkTokens, int32(each))
	j.next += (1 - firstShare) / (chunks - 1) * j.work
}

const searchStart = 1_760_000_000 * int64(time.Second)

// search runs a plan to its end and gives the run's summary.
func (e *lawEngine) search(t *testing.T, p load.Plan) (assay.Summary, []load.Outcome) {
	done := e.follow(t, p)
	sum, err := summary.Of(e)
	if err != nil {
		t.Fatal(err)
	}
	return sum, done
}

func (e *lawEngine) follow(t *testing.T, p load.Plan) []load.Outcome {
	e.now = searchStart
	e.requests, e.events = e.requests[:0], e.events[:0]
	var done []load.Outcome
	for {
		s, ok := p.Next(done)
		if !ok {
			break
		}
		if len(done) > 100 {
			t.Fatalf("no end after %d stages", len(done))
		}
		done = append(done, e.stage(t, s))
	}
	return done
}

// stalled is the search once more, with a stall at a random moment of it.
func (e *lawEngine) stalled(t *testing.T, p load.Plan, seed uint64) assay.Summary {
	e.follow(t, p)
	rng := rand.New(rand.NewPCG(seed, 77))
	from := searchStart + rng.Int64N(e.now-searchStart)
	e.stall = period{from, from + int64((0.5+2.5*rng.Float64())*1e9)}
	e.rng = rand.New(rand.NewPCG(seed, 7))
	sum, _ := e.search(t, p)
	return sum
}

var errUnknown = errors.New("unknown")
