package stat

import "math"

// What the Hodges–Lehmann estimators take at most: so many differences, and as many
// pairwise values as these have, two million of 16 MB.
const (
	MaxPoints      = 2000
	MaxDifferences = MaxPoints * (MaxPoints + 1) / 2
)

// Shift is by how much values lie above zero, or one sample above another.
// Every number is NaN when it is not available.
type Shift struct {
	N, M       int // values that were used; M is 0 for paired differences
	Est        float64
	Lo, Hi     float64
	Confidence float64 // what the interval really has, at least what was asked for
}

// HodgesLehmann is the median of the means of all pairs of differences, each
// with itself too (Walsh averages): the shift that [SignedRank] would find
// least against. The interval holds what a two-sided test at 1−confidence does
// not reject; it needs six differences at 0.95, and there is no interval with
// fewer, only the estimate.
//
// Its ranks are exact up to [MaxExactPairs] differences, by the distribution
// without ties; with ties it covers at least as often. The median is the mean
// of the middle two when there are two. NaN differences are absent. Nothing is
// known from none, from more than [MaxPoints], or from infinite values of both
// signs; infinities of one sign may become ends.
func HodgesLehmann(differences []float64, confidence float64) Shift {
	d := present(differences)
	s := Shift{N: len(d), Est: math.NaN(), Lo: math.NaN(), Hi: math.NaN(), Confidence: math.NaN()}
	if len(d) == 0 || len(d) > MaxPoints || !summable(d) {
		return s
	}
	w := walsh(make([]float64, 0, len(d)*(len(d)+1)/2), d)
	if tail := (1 - confidence) / 2; confidence > 0 && confidence < 1 {
		k, chance := signedRankTail(len(d), tail)
		s.interval(w, k, chance)
	}
	s.Est = middle(w)
	return s
}

// HodgesLehmann2 is the median of x−y over all pairs of two independent
// samples, with the interval that [MannWhitney] does not reject. What
// [HodgesLehmann] says holds here, with [MaxExactProduct] for the exact ranks
// and at most [MaxDifferences] pairs; 0.95 needs 4 against 4.
func HodgesLehmann2(x, y []float64, confidence float64) Shift {
	x, y = present(x), present(y)
	s := Shift{N: len(x), M: len(y), Est: math.NaN(), Lo: math.NaN(), Hi: math.NaN(), Confidence: math.NaN()}
	if len(x) == 0 || len(y) == 0 || len(x) > MaxDifferences/len(y) {
		return s
	}
	w := make([]float64, 0, len(x)*len(y))
	for _, a := range x {
		for _, b := range y {
			d := a - b
			if math.IsNaN(d) {
				return s
			}
			w = append(w, d)
		}
	}
	if !summable(w) {
		return s
	}
	if tail := (1 - confidence) / 2; confidence > 0 && confidence < 1 {
		k, chance := rankSumTail(len(x), len(y), tail)
		s.interval(w, k, chance)
	}
	s.Est = middle(w)
	return s
}

// interval takes the k-th of the values from either end.
func (s *Shift) interval(w []float64, k int, chance float64) {
	if k < 1 || 2*k > len(w) {
		return
	}
	s.Lo, s.Hi, s.Confidence = nth(w, k-1), nth(w, len(w)-k), 1-2*chance
}

// walsh appends the means of all pairs.
func walsh(w, d []float64) []float64 {
	for i, a := range d {
		for _, b := range d[:i+1] {
			w = append(w, a/2+b/2)
		}
	}
	return w
}

// summable says that no two of the values are infinities of different signs.
func summable(v []float64) bool {
	up, down := false, false
	for _, x := range v {
		up, down = up || math.IsInf(x, 1), down || math.IsInf(x, -1)
	}
	return !(up && down)
}
