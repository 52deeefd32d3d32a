package summary

import (
	"math"
	"slices"

	"github.com/assay-bench/assay"
)

// heldMost is how long a reading speaks for: until the next one, and no longer
// than this. Beyond, nobody knows.
const heldMost = int64(2e9)

// gapsMost bounds the gaps that are kept of a series to tell its interval.
const gapsMost = 64

// series is one reading of one device over the run.
type series struct {
	source string
	seen   bool // at and value are the last reading
	at     int64
	value  float64
	gaps   []int64

	// Of readings under load.
	n                     int
	first, last, min, max float64
	plain                 float64 // sum of the values
	area, held            float64 // value × ns, ns

	// Of a counter, from reading to reading.
	rise  float64 // under load
	over  float64 // ns under load that rise is of
	falls int
	rises int // of a moment that something began, by more than a second

	trend *slots[average] // in the stage that is looked at for trends
	gpu   *gpu
}

// add takes a reading and reports whether it follows the one before: from and
// was are that one. A series is one source's; another one takes over when the
// first has fallen silent.
func (s *series) add(p *periods, r *assay.Reading, v float64) (from int64, was float64, follows bool) {
	from, was = s.at, s.value
	switch {
	case !s.seen:
		s.source = r.Source
	case r.At <= s.at:
		return 0, 0, false // out of order, or said twice
	case r.Source != s.source:
		if r.At-s.at <= heldMost {
			return 0, 0, false
		}
		s.source = r.Source
		s.hold(p, r.At)
	default:
		s.hold(p, r.At)
		follows = !p.broken(s.at, r.At)
		if len(s.gaps) < gapsMost {
			s.gaps = append(s.gaps, r.At-s.at)
		}
	}
	s.seen, s.at, s.value = true, r.At, v
	if follows {
		s.climb(p, from, was)
	}
	if p.loaded.in(r.At) {
		if s.n == 0 {
			s.first, s.min, s.max = v, v, v
		}
		s.n++
		s.last, s.min, s.max = v, min(s.min, v), max(s.max, v)
		s.plain += v
	}
	if s.trend != nil && p.watched.in(r.At) {
		a := s.trend.at(r.At)
		a.sum += v
		a.n++
	}
	return from, was, follows
}

// hold lets the last value stand until t.
func (s *series) hold(p *periods, t int64) {
	if ns := float64(p.loaded.overlap(s.at, min(t, s.at+heldMost))); ns > 0 {
		s.area += s.value * ns
		s.held += ns
	}
}

// climb takes the reading as one of a counter. One that falls is a new process
// or a driver that was loaded again, which counts from there.
func (s *series) climb(p *periods, from int64, was float64) {
	if s.value < was {
		s.falls++
		return
	}
	if s.value > was+1 {
		s.rises++
	}
	ns := float64(p.loaded.overlap(from, s.at))
	s.rise += (s.value - was) * ns / float64(s.at-from)
	s.over += ns
}

// mean is over time, each value held until the next; of a series with one
// reading, that one.
func (s *series) mean() float64 {
	if s.held > 0 {
		return s.area / s.held
	}
	return s.plain / float64(s.n)
}

// stats is the course under load; ok is false when it was not read then.
func (s *series) stats() (assay.ReadingStats, bool) {
	if s.n == 0 {
		return assay.ReadingStats{}, false
	}
	// Rounding must not put the mean outside what was read.
	mean := min(s.max, max(s.min, s.mean()))
	return assay.ReadingStats{N: s.n, First: s.first, Last: s.last, Min: s.min, Max: s.max, Mean: mean}, true
}

// interval is the median gap between readings, 0 when they are too few to tell.
func (s *series) interval() int64 {
	if len(s.gaps) < 3 {
		return 0
	}
	g := slices.Clone(s.gaps)
	slices.Sort(g)
	return g[len(g)/2]
}

// periods are the times of a run that readings are compared with.
type periods struct {
	loaded  spans // some stage was under way
	steady  []steadySpan
	watched steadySpan // looked at for trends; empty: nothing is
	width   int64      // of windows
	resumed []int64    // a later process went on
}

// steadySpan is a stage's steady window, and the time from which the edges of
// its windows are counted.
type steadySpan struct {
	span
	anchor int64
	stage  int
}

// broken reports whether the run was interrupted between two moments: what
// happened meanwhile is nobody's.
func (p *periods) broken(from, to int64) bool {
	for _, t := range p.resumed {
		if from < t && t <= to {
			return true
		}
	}
	return false
}

// value gives a reading's value if it is one that can be worked with: finite,
// and small enough that sums of squares stay so.
func value(r *assay.Reading) (float64, bool) {
	if r.Value == nil || !sane(r.At) || !(math.Abs(*r.Value) <= 1e18) {
		return 0, false
	}
	return *r.Value, true
}
