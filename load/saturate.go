package load

import (
	"math"
	"slices"

	"github.com/assay-bench/assay"
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
	// MaxStages bounds the search. Zero: 40.
	MaxStages int
	// CapacityOnly: stop when the maximum is known, and do not look for the cliff.
	CapacityOnly bool
}

// Saturate doubles the streams of a closed loop until goodput stops rising, and
// on until it is a tenth below its maximum or there are no more streams to try.
// Then it looks for the peak to a tenth of its place, and for the cliff to a
// twentieth.
func Saturate(o SaturateOptions) Plan {
	if o.MaxConcurrency <= 0 {
		o.MaxConcurrency = 1024
	}
	if o.MaxStages <= 0 {
		o.MaxStages = 40
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
	s.Kind, s.Concurrency, s.Probe = assay.LoadClosed, n, true
	s.Name = Name(s)
	return s, true
}

func (o saturate) next(done []Outcome) (int, bool) {
	if len(done) == 0 {
		return 1, true
	}
	// The first outcomes are the doublings; where they ended is a function of
	// themselves.
	best, flat := 0.0, 0
	for i, d := range done {
		x := d.goodput()
		if flat++; x >= best*(1+plateauRise) {
			flat = 0
		}
		best = max(best, x)
		plateau := flat >= plateauRuns
		fallen := x <= cliffShare*best && i > 0
		last := d.Stage.Concurrency >= o.MaxConcurrency
		if last || fallen || plateau && o.CapacityOnly {
			break
		}
		if i == len(done)-1 {
			return min(2*d.Stage.Concurrency, o.MaxConcurrency), true
		}
	}
	points := scale(done)
	peak := peakOf(points)
	if n, ok := refine(points, peak); ok {
		return n, true
	}
	if o.CapacityOnly {
		return 0, false
	}
	lo, hi, ok := cliffOf(points, peak)
	if !ok || hi-lo <= max(1, int(cliffWidth*float64(lo))) {
		return 0, false
	}
	return (lo + hi) / 2, true
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
	s := Saturation{Capacity: points[p].goodput(), Peak: points[p].Stage.Concurrency}
	s.Knee = s.Capacity * points[0].E2E
	if lo, hi, ok := cliffOf(points, p); ok {
		s.CliffLo, s.CliffHi = lo, hi
	}
	return s, s.Capacity > 0
}

// scale gives the closed outcomes by load; of several at one load the mean.
func scale(done []Outcome) []Outcome {
	var points []Outcome
	sums := map[int]int{} // load → how many
	for _, d := range done {
		if d.Stage.Kind != assay.LoadClosed {
			continue
		}
		n := d.Stage.Concurrency
		d.Goodput = d.goodput()
		if i := slices.IndexFunc(points, func(p Outcome) bool { return p.Stage.Concurrency == n }); i >= 0 {
			k := float64(sums[n])
			points[i].Goodput = (points[i].Goodput*k + d.Goodput) / (k + 1)
			points[i].E2E = (points[i].E2E*k + d.E2E) / (k + 1)
		} else {
			points = append(points, d)
		}
		sums[n]++
	}
	slices.SortFunc(points, func(a, b Outcome) int { return a.Stage.Concurrency - b.Stage.Concurrency })
	return points
}

func peakOf(points []Outcome) int {
	best := 0
	for i, p := range points {
		if p.Goodput > points[best].Goodput {
			best = i
		}
	}
	return best
}

// refine gives a load between the peak and its wider neighbouring gap, while
// that gap is wider than wanted.
func refine(points []Outcome, peak int) (int, bool) {
	at := func(i int) int { return points[i].Stage.Concurrency }
	lo, hi := at(peak), at(peak)
	if peak > 0 {
		lo = at(peak - 1)
	}
	if peak < len(points)-1 {
		hi = at(peak + 1)
	}
	left, right := at(peak)-lo, hi-at(peak)
	if max(left, right) <= max(1, int(math.Ceil(peakWidth*float64(at(peak))))) {
		return 0, false
	}
	if right >= left {
		return at(peak) + right/2, true
	}
	return lo + left/2, true
}

// cliffOf gives the highest load before the cliff and the lowest beyond it.
func cliffOf(points []Outcome, peak int) (lo, hi int, ok bool) {
	for i := peak + 1; i < len(points) && points[peak].Goodput > 0; i++ {
		if points[i].Goodput <= cliffShare*points[peak].Goodput {
			return points[i-1].Stage.Concurrency, points[i].Stage.Concurrency, true
		}
	}
	return 0, 0, false
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
