package load

import (
	"math"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
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
	// MaxStages bounds the search. Zero: 60.
	MaxStages int
}

// findWidth is how near the two ends of the answer come to each other.
const findWidth = 0.05

// lowestShare of Start is where a search for a rate gives up: after ten
// halvings, rounding aside.
const lowestShare = 1.0 / 1025

// FindMax looks for the highest load at which the objectives are kept: by
// doubling (or halving) from the start, then by bisection to 5 %.
//
// A level is tested by as many stages as it takes (see [stat.Levels]); a level
// on the way up needs one stage only while that one speaks for it. The level
// that is the answer, and the one above it that breaks, are always tested. A
// level that is neither after all its stages ends the search: an edge is the
// answer, and where there are too few requests to tell no other level nearby
// has more.
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
		o.MaxStages = 60
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
	if s.Kind == assay.LoadOpen {
		s.Rate = v
	} else {
		s.Concurrency = int(v)
	}
	return step(s, done), true
}

// fit gives a load that a stage can have.
func (o findMax) fit(v float64) float64 {
	if o.Like.Kind == assay.LoadClosed {
		return max(1, math.Floor(v))
	}
	return round(v, 4)
}

func (o findMax) next(done []Outcome) (float64, bool) {
	if len(done) == 0 {
		return o.fit(o.Start), true
	}
	levels := stat.Levels(probes(done))
	b := stat.BoundaryOf(levels)
	last := loadOf(done[len(done)-1].Stage)
	var lo stat.Level // the highest below what is broken that nothing speaks against
	for _, l := range levels {
		rising := l.Load == last && math.IsInf(b.Broken.Load, 1) && onTheWay(l) && l.Load < o.fit(o.Max)
		switch {
		case l.Verdict == stat.LevelUndecided:
			return 0, false
		case l.Verdict == stat.LevelOpen && l.Load == last && !rising:
			return last, true
		case l.Load < b.Broken.Load && (l.Verdict == stat.LevelKept || onTheWay(l)):
			lo = l
		}
	}
	if b.Edge.Load > 0 {
		return 0, false
	}
	return o.between(lo, b.Broken.Load)
}

// onTheWay reports whether a level that is not decided has had its one stage,
// and that speaks for it.
func onTheWay(l stat.Level) bool {
	return l.Verdict == stat.LevelOpen && len(l.Stages) == 1 && !l.Leans
}

// between is the next level to try when the answer is at lo or above, and below
// broken.
func (o findMax) between(lo stat.Level, broken float64) (float64, bool) {
	whole := o.Like.Kind == assay.LoadClosed
	switch {
	case math.IsInf(broken, 1):
		return o.fit(min(o.Max, 2*lo.Load)), lo.Load < o.fit(o.Max)
	case lo.Load == 0 && whole:
		return o.fit(broken / 2), broken > 1
	case lo.Load == 0:
		return o.fit(broken / 2), broken/2 >= o.Start*lowestShare
	case broken-lo.Load <= findWidth*lo.Load || whole && broken-lo.Load <= 1:
		return lo.Load, lo.Verdict != stat.LevelKept
	}
	return o.fit((lo.Load + broken) / 2), true
}
