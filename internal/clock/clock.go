// Package clock keeps one time-line a run: the wall clock at the run's start
// plus monotonic time since. A wall clock that is stepped in the middle of a
// run moves nothing on it.
//
// The kernel stamps arriving data by its wall clock. [Clock.FromWall] brings
// such a stamp onto the time-line with an offset that the owner measures anew
// each second ([Clock.Measure]); a change of more than [StepLimit] is a step,
// and is told rather than smoothed.
package clock

import (
	"sync/atomic"
	"time"
)

// StepLimit is the change of the offset between two measurements from which on
// the wall clock counts as stepped. Slewing by a time daemon moves both clocks
// alike, so anything beyond the noise of a measurement is a step.
const StepLimit = time.Millisecond

// Clock is a time-line. Make one with [New]; it is safe for use by many.
type Clock struct {
	base   int64 // wall clock at the start
	mono   func() int64
	wall   func() int64
	offset atomic.Int64 // time-line − wall clock
	steps  atomic.Int64
}

// New starts a time-line now.
func New() *Clock {
	start := time.Now()
	return NewFrom(
		func() int64 { return time.Now().UnixNano() },
		func() int64 { return int64(time.Since(start)) },
	)
}

// NewFrom starts a time-line on other clocks, for tests: wall in nanoseconds
// since 1970, mono in nanoseconds since any moment.
func NewFrom(wall, mono func() int64) *Clock {
	c := &Clock{wall: wall, mono: mono}
	m, w := c.pair()
	c.base = w - m
	return c
}

// Now is the present on the time-line, in Unix nanoseconds.
func (c *Clock) Now() int64 { return c.base + c.mono() }

// FromWall brings a reading of the wall clock onto the time-line.
func (c *Clock) FromWall(ns int64) int64 { return ns + c.offset.Load() }

// Measure takes the offset between wall clock and time-line anew. When the wall
// clock was stepped since the last call, it gives by how much and true; the
// step is then accounted for, and later stamps are right again. One goroutine
// at a time may call it.
func (c *Clock) Measure() (step time.Duration, stepped bool) {
	m, w := c.pair()
	fresh := c.base + m - w
	old := c.offset.Swap(fresh)
	step = time.Duration(old - fresh)
	if step.Abs() <= StepLimit {
		return step, false
	}
	c.steps.Add(1)
	return step, true
}

// Steps counts the steps seen so far. A request during which it changed has
// marks on both sides of a step.
func (c *Clock) Steps() int64 { return c.steps.Load() }

// pair reads both clocks at nearly the same moment: of several tries, the one
// that took least.
func (c *Clock) pair() (mono, wall int64) {
	best := int64(-1)
	for range 8 {
		before := c.mono()
		w := c.wall()
		after := c.mono()
		if took := after - before; best < 0 || took < best {
			best = took
			mono, wall = before+took/2, w
		}
	}
	return mono, wall
}
