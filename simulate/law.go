package simulate

import (
	"math"
	"sync/atomic"
	"time"
)

// never is the due time of nothing. All times of a law are nanoseconds since
// the engine's start.
const never = math.MaxInt64

// sequence is one answer being generated: the unit that a law schedules. A
// reply has one, or one for each prompt of an array.
type sequence struct {
	reply   *reply
	index   int   // of its choice in the reply
	input   int   // prompt tokens
	cached  int   // of them found in the prefix cache
	output  int   // tokens it will have
	given   int   // tokens it has had
	arrived int64 // when its request had been read
	reserve int   // tokens of KV cache it holds, set on admission
	extra   int64 // further wait for its first token (cold start)

	shown   int   // tokens whose text it has shown, or which have none
	covered int   // tokens that an event carried or counted
	own     int   // tokens up to which the last one had an event of its own
	first   int64 // when its first token was given
	opened  bool  // it has had an event
	called  bool  // its tool call has had its name

	due int64 // law fixed: of its next token
	pos int   // law fixed: place in the heap, −1 outside
}

func (q *sequence) left() int { return q.output - q.given }

// law says when tokens are due. It is a state machine without a clock: the
// pacer tells it the time, tests tell it any time they like. It is used by
// one goroutine.
type law interface {
	// admit takes a sequence in at its arrival time, which may lie in the past.
	admit(*sequence)
	// drop forgets a sequence, whatever became of it.
	drop(*sequence)
	// next is the earliest time at which advance has something to do.
	next() int64
	// advance gives, in order of time, all tokens due at or before now.
	advance(now int64, give give)
}

// give hands over n tokens of q, already counted in q.given. It returns false
// when the sequence's reply is over and no more tokens are wanted.
type give func(q *sequence, n int, due int64) bool

// gauges are what a law tells the metrics page, and what it is told meanwhile.
type gauges struct {
	running, waiting, reserved, preempted atomic.Int64

	slow atomic.Uint64 // gaps are this many times as long: the bits of a float64; 0: as they were
}

// wear is how an engine gets slower with time.
type wear struct {
	drift  float64 // ratio a minute
	slowAt int64
	slowBy float64 // 0: never
	g      *gauges
}

func (f Faults) wear(g *gauges) wear { return wear{f.Drift, int64(f.SlowAt), f.SlowBy, g} }

// none reports whether gaps are what they always were.
func (w wear) none() bool { return w.drift == 0 && w.slowBy == 0 && w.g.slow.Load() == 0 }

// stretch is a gap that starts at the given time, made longer.
func (w wear) stretch(gap float64, at int64) float64 {
	gap *= 1 + w.drift*float64(at)/float64(time.Minute)
	if w.slowBy != 0 && at >= w.slowAt {
		gap *= w.slowBy
	}
	if by := math.Float64frombits(w.g.slow.Load()); by > 0 {
		gap *= by
	}
	return gap
}
