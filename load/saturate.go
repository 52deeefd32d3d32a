package load

import (
	"maps"
	"math"
	"slices"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// The figures that saturation goes by.
const (
	plateauRise = 0.03 // a rise of goodput below this is none…
	plateauRuns = 2    // …when it is seen so often in a row
	cliffShare  = 0.90 // the cliff is where goodput is at most this share of its maximum
	peakWidth   = 0.10 // the peak is looked for to this share of its place
	cliffWidth  = 0.05 // and the cliff to this one
)

// SaturateOptions say how to look for saturation.
type SaturateOptions struct {
	// Like is what the stages are like: durations, grace, warm-up. Kind,
	// concurrency and name are the search's.
	Like assay.Stage
	// MaxConcurrency is the highest number of streams to try. Zero: 1024.
	MaxConcurrency int
	// MaxStages bounds the search. Zero: 80.
	MaxStages int
	// CapacityOnly: stop when the maximum is known, and do not look for the cliff.
	CapacityOnly bool
}

// Saturate doubles the streams of a closed loop until goodput stops rising, and
// on until it is a tenth below its maximum or there are no more streams to try.
// Then it looks for the peak to a tenth of its place, and for the cliff to a
// twentieth.
//
// A load that decides something (that goodput no longer rises, the lowest load,
// the peak and its neighbours, both sides of the cliff) is measured until two
// stages agree, or three give a median: a stall in one stage is no plateau.
func Saturate(o SaturateOptions) Plan {
	if o.MaxConcurrency <= 0 {
		o.MaxConcurrency = 1024
	}
	if o.MaxStages <= 0 {
		o.MaxStages = 80
	}
	return saturate(o)
}

type saturate SaturateOptions

func (o saturate) Next(done []Outcome) (assay.Stage, bool) {
	n, ok := o.next(done)
	if !ok || len(done) >= o.MaxStages {
		return assay.Stage{}, false
	}
	s := o.Like
	s.Kind, s.Concurrency = assay.LoadClosed, n
	return step(s, done), true
}

func (o saturate) next(done []Outcome) (int, bool) {
	n, ok := o.choose(done)
	// A step that says nothing is repeated, longer; when that does not help, the
	// search ends with what it has.
	return n, ok && voids(done, n) < voidSteps
}

func (o saturate) choose(done []Outcome) (int, bool) {
	points := scale(done)
	if n, ok := o.double(points); ok && (voids(done, n) < voidSteps || len(points) == 0) {
		return n, true
	}
	peak := peakOf(points)
	if n, ok := refine(points, peak); ok {
		return n, true
	}
	if n, ok := unconfirmed(points, 0, peak, peak-1, peak+1); ok {
		return n, true
	}
	if o.CapacityOnly {
		return 0, false
	}
	i, ok := cliffOf(points, peak)
	if !ok {
		return 0, false
	}
	lo, hi := points[i-1].streams, points[i].streams
	if hi-lo > max(1, int(cliffWidth*float64(lo))) {
		return (lo + hi) / 2, true
	}
	return unconfirmed(points, i-1, i)
}

// voidSteps is how often a load is tried whose steps say nothing.
const voidSteps = 3

func voids(done []Outcome, streams int) (n int) {
	for _, d := range done {
		if d.Stage.Concurrency == streams && d.void() {
			n++
		}
	}
	return n
}

func (o Outcome) void() bool { return o.Short != "" || o.NoWindow != "" }

// double gives the next of the doublings; ok is false when they are over. Where
// they end is a function of the points themselves.
func (o saturate) double(points []point) (n int, ok bool) {
	best, flat := 0.0, 0
	for n := 1; ; n = min(2*n, o.MaxConcurrency) {
		i := slices.IndexFunc(points, at(n))
		if i < 0 {
			return n, true
		}
		x := points[i].goodput
		rises := x >= best*(1+plateauRise)
		if !rises && !points[i].confirmed {
			return n, true
		}
		if flat++; rises {
			flat = 0
		}
		best = max(best, x)
		fallen := x <= cliffShare*best && n > 1
		if n >= o.MaxConcurrency || fallen || flat >= plateauRuns && o.CapacityOnly {
			return 0, false
		}
	}
}

// unconfirmed gives the first of these points that should be measured again.
func unconfirmed(points []point, which ...int) (n int, ok bool) {
	for _, i := range which {
		if i >= 0 && i < len(points) && !points[i].confirmed {
			return points[i].streams, true
		}
	}
	return 0, false
}

// Saturation is what a saturating plan, or a sweep, has found. Loads are
// numbers of streams.
type Saturation struct {
	Capacity float64 // the highest goodput, requests a second
	Peak     int     // where it was measured
	// Knee is Capacity times the mean time in the system at the lowest load.
	Knee float64
	// The cliff lies above CliffLo and at CliffHi or below. Both are zero when
	// there was none.
	CliffLo, CliffHi int
}

// Saturated reduces outcomes of closed loops.
func Saturated(done []Outcome) (Saturation, bool) {
	points := scale(done)
	if len(points) == 0 {
		return Saturation{}, false
	}
	p := peakOf(points)
	s := Saturation{Capacity: points[p].goodput, Peak: points[p].streams}
	s.Knee = s.Capacity * points[0].e2e
	if i, ok := cliffOf(points, p); ok {
		s.CliffLo, s.CliffHi = points[i-1].streams, points[i].streams
	}
	return s, s.Capacity > 0
}

// point is what the stages at one load show together.
type point struct {
	streams      int
	goodput, e2e float64
	confirmed    bool
}

func at(streams int) func(point) bool {
	return func(p point) bool { return p.streams == streams }
}

// scale gives the closed outcomes by load. Those that say nothing are left out.
func scale(done []Outcome) []point {
	type values struct{ goodput, e2e []float64 }
	by := map[int]*values{}
	for _, d := range done {
		if d.Stage.Kind != assay.LoadClosed || d.void() {
			continue
		}
		v := by[d.Stage.Concurrency]
		if v == nil {
			v = &values{}
			by[d.Stage.Concurrency] = v
		}
		v.goodput = append(v.goodput, d.goodput())
		v.e2e = append(v.e2e, d.E2E)
	}
	var points []point
	for _, n := range slices.Sorted(maps.Keys(by)) {
		p := point{streams: n}
		p.goodput, p.confirmed = stat.Typical(by[n].goodput)
		p.e2e, _ = stat.Typical(by[n].e2e)
		points = append(points, p)
	}
	return points
}

func peakOf(points []point) int {
	best := 0
	for i, p := range points {
		if p.goodput > points[best].goodput {
			best = i
		}
	}
	return best
}

// refine gives a load between the peak and its wider neighbouring gap, while
// that gap is wider than wanted.
func refine(points []point, peak int) (int, bool) {
	at := points[peak].streams
	lo, hi := at, at
	if peak > 0 {
		lo = points[peak-1].streams
	}
	if peak < len(points)-1 {
		hi = points[peak+1].streams
	}
	left, right := at-lo, hi-at
	if max(left, right) <= max(1, int(math.Ceil(peakWidth*float64(at)))) {
		return 0, false
	}
	if right >= left {
		return at + right/2, true
	}
	return lo + left/2, true
}

// cliffOf gives the first point beyond the cliff; the one before it lies before.
func cliffOf(points []point, peak int) (int, bool) {
	for i := peak + 1; i < len(points) && points[peak].goodput > 0; i++ {
		if points[i].goodput <= cliffShare*points[peak].goodput {
			return i, true
		}
	}
	return 0, false
}

// SustainOptions say what to hold, and how to measure what it is a share of.
type SustainOptions struct {
	Utilization float64         // share of the measured capacity
	Capacity    SaturateOptions // how capacity is measured; CapacityOnly is implied
	Hold        assay.Stage     // what the held stage is like; kind, rate and name are the plan's
}

// Sustain measures the capacity, the highest goodput in requests a second, and
// then sends at a share of it for the held stage's duration. Without any
// capacity there is nothing to hold, and the plan ends.
func Sustain(o SustainOptions) Plan {
	o.Capacity.CapacityOnly = true
	return sustain{o: o, capacity: Saturate(o.Capacity)}
}

type sustain struct {
	o        SustainOptions
	capacity Plan
}

func (s sustain) Next(done []Outcome) (assay.Stage, bool) {
	if n := len(done); n > 0 && done[n-1].Stage.Utilization > 0 {
		return assay.Stage{}, false
	}
	if stage, ok := s.capacity.Next(done); ok {
		return stage, true
	}
	found, ok := Saturated(done)
	if !ok {
		return assay.Stage{}, false
	}
	hold := s.o.Hold
	hold.Kind, hold.Utilization = assay.LoadOpen, s.o.Utilization
	hold.Rate = round(s.o.Utilization*found.Capacity, 6)
	hold.Name = Name(hold)
	return hold, true
}
