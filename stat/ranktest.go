package stat

import "math"

// Side says which difference a test looks for.
type Side uint8

const (
	TwoSided Side = iota // any
	Less                 // the first is smaller, or the differences lie below zero
	Greater              // the first is greater, or the differences lie above zero
)

func (s Side) String() string {
	switch s {
	case TwoSided:
		return "two-sided"
	case Less:
		return "less"
	case Greater:
		return "greater"
	}
	return "unknown"
}

// TestOptions choose how a rank test is made. The zero value is a two-sided
// test, exact as far as that costs little.
type TestOptions struct {
	Side Side
	// Normal takes the normal approximation also where the exact distribution
	// is available: for comparison with tools that do.
	Normal bool
}

// RankTest is the outcome of [SignedRank] or [MannWhitney].
type RankTest struct {
	N, M      int     // samples that were used; M is 0 for paired differences
	Zeros     int     // of N, differences that were exactly zero
	Statistic float64 // T⁺ of the signed ranks, or U of the first sample
	P         float64 // NaN when nothing was there to test
	Z         float64 // NaN when P is exact
	Exact     bool
}

// present are the values that are numbers. An absent value is NaN; an infinity
// is there, and has a rank like any other.
func present(v []float64) []float64 {
	kept := make([]float64, 0, len(v))
	for _, x := range v {
		if !math.IsNaN(x) {
			kept = append(kept, x)
		}
	}
	return kept
}

// doubledRanks are twice the ranks, which ties make halves: whole numbers.
// whole says that no rank was a half, so that every one is even.
func doubledRanks(v []float64) (doubled []int, whole bool) {
	doubled, whole = make([]int, len(v)), true
	for i, r := range ranks(v) {
		doubled[i] = int(2 * r)
		whole = whole && doubled[i]%2 == 0
	}
	return doubled, whole
}

// normalUpper is P(Z ≥ z), with its digits also far out.
func normalUpper(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }

// normalCDF is P(Z ≤ z).
func normalCDF(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// byNormal fills Z and P from how far the statistic lies above its mean, half
// a unit nearer for continuity, and never on the other side of it when the
// test is two-sided.
func (r *RankTest) byNormal(above, deviation float64, side Side) {
	switch {
	case !(deviation > 0): // every value tied: nothing speaks for a difference
		r.Z, r.P = 0, 1
		return
	case side == Greater:
		r.Z = (above - 0.5) / deviation
		r.P = normalUpper(r.Z)
	case side == Less:
		r.Z = (above + 0.5) / deviation
		r.P = normalCDF(r.Z)
	default:
		r.Z = math.Copysign(max(0, math.Abs(above)-0.5), above) / deviation
		r.P = min(1, 2*normalUpper(math.Abs(r.Z)))
	}
}
