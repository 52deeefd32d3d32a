package load

import (
	"math"
	"time"
)

// Schedule says when requests go out. It answers from its own seed and the
// states that it was shown, and from nothing else: no clock, no randomness from
// elsewhere.
//
// Next gives the next step. The step was taken when the next State shows one
// more request issued; otherwise Next is being asked again, because a request
// ended meanwhile, and may change its mind. Next may be asked later than the
// time that it will answer: a step in the past is one that the cap held back.
type Schedule interface{ Next(State) Step }

// State is what a schedule may know. Times are since the stage began.
type State struct {
	Now    time.Duration
	Issued int // requests that the schedule has given out
	Done   int // of these, those that have ended
	// Ended is the number (from 0, in the order of issue) of the request whose
	// end is the reason for this call, and Freed is when it ended. Each end is
	// told exactly once; in other calls Ended is negative.
	Ended int
	Freed time.Duration
	// Refused: it ended because no connection could be made.
	Refused bool
}

// InFlight is the number of requests given out and not ended, held ones
// included.
func (s State) InFlight() int { return s.Issued - s.Done }

// Step is what to do next: send a request at At, or Wait, or Stop.
type Step struct {
	At time.Duration // since the stage began; in the past: at once
	// Wait: there is nothing to send before a request has ended.
	Wait bool
	// Stop: there is nothing to send any more. The load ends as soon as the cap
	// has let every request go.
	Stop bool
	// Warmup requests are recorded and not judged.
	Warmup bool
	// End is when the load ends, whatever is still held by the cap: that is
	// never sent. Zero: it has no end of its own.
	End time.Duration
	// Arrival is the line of the trace that is being replayed, else nil.
	Arrival *Arrival
}

func (s Step) sends() bool { return !s.Wait && !s.Stop }

// Limit ends a schedule after a number of requests, or when it has lasted for
// a time, whichever comes first. A limit of zero does not limit.
func Limit(s Schedule, requests int, duration time.Duration) Schedule {
	if requests <= 0 && duration <= 0 {
		return s
	}
	return &limit{inner: s, requests: requests, duration: duration}
}

type limit struct {
	inner    Schedule
	requests int
	duration time.Duration
}

func (l *limit) Next(st State) Step {
	if l.requests > 0 && st.Issued >= l.requests {
		return Step{Stop: true, End: l.duration}
	}
	step := l.inner.Next(st)
	if l.duration <= 0 {
		return step
	}
	if step.End == 0 || step.End > l.duration {
		step.End = l.duration
	}
	if step.Wait || step.sends() && step.At >= l.duration {
		// The load lasts until the duration is over, even when the last request
		// of it went out before.
		step = Step{Wait: true, End: step.End}
		if st.Now >= l.duration {
			step = Step{Stop: true, End: step.End}
		}
	}
	return step
}

// Warmup sends n requests first, by so many streams, and begins the schedule
// when all of them have ended: the schedule's time starts there.
func Warmup(s Schedule, n, streams int) Schedule {
	if n <= 0 {
		return s
	}
	return &warmup{inner: s, n: n, streams: max(1, streams)}
}

type warmup struct {
	inner      Schedule
	n, streams int
	freed      time.Duration
	began      bool
	base       time.Duration
}

func (w *warmup) Next(st State) Step {
	if st.Ended >= 0 {
		w.freed = max(w.freed, st.Freed)
	}
	if st.Done < w.n {
		if st.Issued < w.n && st.InFlight() < w.streams {
			return Step{At: w.freed, Warmup: true}
		}
		return Step{Wait: true}
	}
	if !w.began {
		w.began, w.base = true, w.freed
		st.Ended = -1
	}
	st.Now -= w.base
	st.Freed -= w.base
	st.Issued -= w.n
	st.Done -= w.n
	st.Ended = max(-1, st.Ended-w.n)
	step := w.inner.Next(st)
	step.At += w.base
	if step.End > 0 {
		step.End += w.base
	}
	return step
}

// marked marks the first n requests, and those before a time, as warm-ups
// without holding anything back.
type marked struct {
	inner  Schedule
	n      int
	before time.Duration
}

func (m *marked) Next(st State) Step {
	step := m.inner.Next(st)
	if step.sends() && (st.Issued < m.n || step.At < m.before) {
		step.Warmup = true
	}
	return step
}

// farthest is later than any stage lasts, and far enough from the largest
// number that a time can be added to it.
const farthest = time.Duration(math.MaxInt64 / 4)

// seconds turns a number of seconds into a duration and never overflows.
func seconds(s float64) time.Duration {
	if !(s > 0) {
		return 0
	}
	if ns := s * float64(time.Second); ns < float64(farthest) {
		return time.Duration(math.Round(ns))
	}
	return farthest
}
