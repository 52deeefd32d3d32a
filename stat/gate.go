package stat

// Gate is what an interval says about a limit. Zero is undecided: what is not
// known never passes.
type Gate uint8

const (
	Undecided Gate = iota // the interval includes the limit; exit code 2 of a gate
	Kept                  // the whole interval keeps the limit; 0
	Broken                // the whole interval lies beyond it; 3
)

func (g Gate) String() string {
	switch g {
	case Kept:
		return "kept"
	case Broken:
		return "broken"
	}
	return "undecided"
}

// NonInferiority compares the interval of a ratio (new ÷ old, of a metric of which
// less is better) with the most that it may be: 1.05 for "<=+5%". It is
// Kept when the upper end is at most the limit, Broken when the lower end is
// above it, and Undecided otherwise and whenever an end is NaN or the ends are
// the wrong way round.
//
// With an interval of confidence 1−α, a limit that the truth just meets is
// called kept or broken with a chance of at most α/2 each.
func NonInferiority(lo, hi, limit float64) Gate {
	switch {
	case !(lo <= hi):
		return Undecided
	case hi <= limit:
		return Kept
	case lo > limit:
		return Broken
	}
	return Undecided
}

// NonInferiorityAtLeast is [NonInferiority] where more is better: 0.95 for
// ">=-5%".
func NonInferiorityAtLeast(lo, hi, limit float64) Gate {
	switch {
	case !(lo <= hi):
		return Undecided
	case lo >= limit:
		return Kept
	case hi < limit:
		return Broken
	}
	return Undecided
}
