package stat

import "math"

// Looks is a plan to look at a growing experiment several times and to stop at
// the first verdict. Each look has a level of its own; what is tested or
// enclosed there, at that level, errs over all looks together with a chance of
// at most Alpha. A family of tests is adjusted at each look ([Holm]) and its
// adjusted p-values are compared with the look's level. The plan is made before
// the first look. A look that is skipped costs nothing; one that was not
// planned voids the plan, and [QuantileSequence] needs none.
//
// Alpha is shared out in sums: right by Boole's inequality for any test that
// keeps its level and any dependence, and wasteful: of 0.05, ten looks really
// spend about 0.02. Levels that count on the looks' correlation would have more
// power and are right in the limit only. How much is spent by when is O'Brien and
// Fleming's function as Lan and DeMets (1983) have it: next to nothing early, so
// that the last look is nearly as strong as a single one.
type Looks struct {
	At    []int // rounds at each look, rising, the first at least 1
	Alpha float64
}

// spentBy is what of alpha is spent by the share t of the rounds: twice what the
// function says for half of alpha, as each side has its half.
func spentBy(t, alpha float64) float64 {
	return min(alpha, 4*normalUpper(NormalQuantile(1-alpha/4)/math.Sqrt(t)))
}

// Levels are the two-sided levels of the looks. They are none when the plan
// is not one: no looks or more than 100, rounds that do not rise, or an
// Alpha outside (0,1).
func (l Looks) Levels() []float64 {
	if len(l.At) == 0 || len(l.At) > 100 || !(l.Alpha > 0 && l.Alpha < 1) {
		return nil
	}
	last := 0
	for _, n := range l.At {
		if n <= last {
			return nil
		}
		last = n
	}
	levels := make([]float64, len(l.At))
	spent := 0.0
	for i, n := range l.At {
		by := l.Alpha
		if i < len(l.At)-1 {
			by = spentBy(float64(n)/float64(last), l.Alpha)
		}
		levels[i], spent = max(0, by-spent), max(by, spent)
	}
	return levels
}
