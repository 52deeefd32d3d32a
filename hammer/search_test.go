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

// job is a request that runs: it is over when the engine's progress reaches end.
type job struct {
	request  assay.Request
	n        int
	work     float64
	end      float64
	admitted int64
}

type running []*job

func (r running) Len() int           { return len(r) }
func (r running) Less(i, j int) bool { return r[i].end < r[j].end }
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
			departure = e.stall.across(e.now, int64(math.Ceil(max(0, active[0].end-progress)*pace())))
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
			state.Issued++
		} else {
			j := heap.Pop(&active).(*job)
			record(e.answered(j))
			state.Done++
			state.Ended, state.Freed = j.n, state.Now
		}
		for len(waiting) > 0 && len(active) < e.law.Slots {
			j := waiting[0]
			waiting = waiting[1:]
			j.end, j.admitted = progress+j.work, e.now
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

// answered is a request with the marks of an answer in four chunks.
func (e *lawEngine) answered(j *job) assay.Request {
	r := j.request
	r.First = j.admitted + (e.now-j.admitted)/5
	r.Last, r.End = e.now, e.now
	gap := int32((r.Last - r.First) / 3000)
	r.Gaps = []int32{gap, gap, gap}
	each := int32(e.out / 4)
	r.ChunkTokens = []int32{each, each, each, int32(e.out) - 3*each}
	r.InputTokens, r.OutputTokens, r.TokensFrom = e.in, e.out, "usage"
	return r
}

const searchStart = 1_760_000_000 * int64(time.Second)

// search runs a plan to its end and gives the run's summary and its length.
func (e *lawEngine) search(t *testing.T, p load.Plan) (assay.Summary, []load.Outcome) {
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
	sum, err := summary.Of(e)
	if err != nil {
		t.Fatal(err)
	}
	return sum, done
}

// stalled gives the engine a stall at a random moment of a search that takes so
// long without one.
func (e *lawEngine) stalled(seed uint64, sum assay.Summary, took int64) {
	rng := rand.New(rand.NewPCG(seed, 77))
	from := sum.Stages[0].Started + rng.Int64N(took)
	e.stall = period{from, from + int64((0.5+2.5*rng.Float64())*1e9)}
	e.rng = rand.New(rand.NewPCG(seed, 7))
}

func took(s assay.Summary) int64 { return s.Stages[len(s.Stages)-1].Ended - s.Stages[0].Started }

var errUnknown = errors.New("unknown")
