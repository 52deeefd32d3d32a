package load

import (
	"slices"
	"time"
)

// Closed keeps n streams busy: each sends its next request when its last one
// ended. The streams start spread evenly over rampUp, and what is sent before
// rampUp has passed is warm-up. n = 1 is one request after the other.
//
// A stream whose connection was refused rests for a tenth of a second: there is
// no engine to be measured, and without the rest a dead one would fill the
// record with hundreds of thousands of lines a second.
func Closed(n int, rampUp time.Duration) Schedule {
	n = max(1, n)
	return &marked{inner: &closed{n: n, rampUp: max(0, rampUp)}, before: rampUp}
}

type closed struct {
	n       int
	rampUp  time.Duration
	issued  int             // seen in the last state
	started int             // streams that have begun
	free    []time.Duration // when each idle stream may send again, earliest first
	reuse   bool            // the step on offer is for an idle stream, not for a new one
}

func (c *closed) Next(st State) Step {
	if st.Issued > c.issued {
		c.issued = st.Issued
		if c.reuse {
			c.free = slices.Delete(c.free, 0, 1) // short: a slot is used as soon as it is free
		} else {
			c.started++
		}
	}
	if st.Ended >= 0 {
		at := st.free()
		i, _ := slices.BinarySearch(c.free, at)
		c.free = slices.Insert(c.free, i, at)
	}
	start := time.Duration(float64(c.rampUp) * float64(c.started) / float64(c.n))
	c.reuse = len(c.free) > 0 && (c.started == c.n || c.free[0] <= start)
	switch {
	case c.reuse:
		return Step{At: c.free[0]}
	case c.started < c.n:
		return Step{At: start}
	}
	return Step{Wait: true}
}

// rest is how long a stream rests after a refused connection.
const rest = 100 * time.Millisecond

// free is when the stream of the request that ended may send again.
func (s State) free() time.Duration {
	if s.Refused {
		return s.Freed + rest
	}
	return s.Freed
}

// Batch releases b requests together, and the next b when all of them have
// ended. It rests after refused connections as Closed does.
func Batch(b int) Schedule { return &batch{b: max(1, b)} }

type batch struct {
	b        int
	released time.Duration
}

func (b *batch) Next(st State) Step {
	if st.Ended >= 0 {
		b.released = max(b.released, st.free())
	}
	if st.Issued%b.b == 0 && st.InFlight() > 0 {
		return Step{Wait: true}
	}
	return Step{At: b.released}
}
