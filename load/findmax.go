package load

import (
	"fmt"
	"math"

	"github.com/assay-bench/assay"
)

// FindMaxOptions say what to look for.
type FindMaxOptions struct {
	// Like is what the stages are like. Its kind says what is varied: the streams
	// of a closed loop, or the rate of an open one.
	Like assay.Stage
	// Start is the first load to try. Zero: 1.
	Start float64
	// Max is the highest load to try. Zero: 1024 streams, or 10,000 requests a second.
	Max float64
	// MaxStages bounds the search. Zero: 30.
	MaxStages int
}

// findWidth is how near the two ends of the answer come to each other.
const findWidth = 0.05

// lowestShare of Start is where a search for a rate gives up: after ten
// halvings, rounding aside.
const lowestShare = 1.0 / 1025

// FindMax looks for the highest load at which a stage's objectives are kept:
// by doubling (or halving) from the start, then by bisection to 5 %. A stage
// that could not be judged counts as not kept.
func FindMax(o FindMaxOptions) Plan {
	if o.Like.Kind != assay.LoadOpen {
		o.Like.Kind = assay.LoadClosed
	}
	if !(o.Start > 0) {
		o.Start = 1
	}
	if !(o.Max > 0) {
		o.Max = 1024
		if o.Like.Kind == assay.LoadOpen {
			o.Max = 10000
		}
	}
	if o.MaxStages <= 0 {
		o.MaxStages = 30
	}
	o.Start = min(o.Start, o.Max)
	return findMax(o)
}

type findMax FindMaxOptions

func (o findMax) Next(done []Outcome) (assay.Stage, bool) {
	if len(done) >= o.MaxStages {
		return assay.Stage{}, false
	}
	v, ok := o.next(done)
	if !ok {
		return assay.Stage{}, false
	}
	s := o.Like
	s.Probe = true
	if s.Kind == assay.LoadOpen {
		s.Rate = v
	} else {
		s.Concurrency = int(v)
	}
	s.Name = Name(s)
	return s, true
}

func (o findMax) next(done []Outcome) (float64, bool) {
	whole := o.Like.Kind == assay.LoadClosed
	fit := func(v float64) float64 {
		if whole {
			return max(1, math.Floor(v))
		}
		return round(v, 4)
	}
	if len(done) == 0 {
		return fit(o.Start), true
	}
	a := Found(done)
	switch {
	case math.IsInf(a.Broken, 1):
		return fit(min(o.Max, 2*a.Kept)), a.Kept < fit(o.Max)
	case a.Kept == 0:
		if whole {
			return fit(a.Broken / 2), a.Broken > 1
		}
		return fit(a.Broken / 2), a.Broken/2 >= o.Start*lowestShare
	case a.Broken-a.Kept <= findWidth*a.Kept || whole && a.Broken-a.Kept <= 1:
		return 0, false
	}
	return fit((a.Kept + a.Broken) / 2), true
}

// Answer is what a search for the highest load has found.
type Answer struct {
	// Kept is the highest load that kept the objectives, below the lowest that
	// did not; zero when none did.
	Kept float64
	// Broken is the lowest load that did not keep them; +Inf when all did.
	Broken float64
	// Unknown is the number of stages that could not be judged, and so counted
	// as not kept.
	Unknown int
	Why     string // in words, what is wanting; empty when both ends are known
}

// Found reduces the outcomes of a search.
func Found(done []Outcome) Answer {
	a := Answer{Broken: math.Inf(1)}
	for _, d := range done {
		if d.Kept == assay.Unknown {
			a.Unknown++
		}
		if d.Kept != assay.Pass {
			a.Broken = min(a.Broken, loadOf(d.Stage))
		}
	}
	for _, d := range done {
		if v := loadOf(d.Stage); d.Kept == assay.Pass && v < a.Broken {
			a.Kept = max(a.Kept, v)
		}
	}
	switch {
	case len(done) == 0:
		a.Why = "nothing was measured"
	case a.Kept == 0:
		a.Why = fmt.Sprintf("the objectives were not kept at the lowest load tried, %g", a.Broken)
	case math.IsInf(a.Broken, 1):
		a.Why = fmt.Sprintf("the objectives were still kept at the highest load tried, %g", a.Kept)
	}
	if a.Unknown > 0 {
		if a.Why != "" {
			a.Why += "; "
		}
		a.Why += fmt.Sprintf("%d of %d stages could not be judged and count as not kept", a.Unknown, len(done))
	}
	return a
}

func loadOf(s assay.Stage) float64 {
	if s.Kind == assay.LoadOpen {
		return s.Rate
	}
	return float64(s.Concurrency)
}
