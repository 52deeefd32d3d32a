package stat

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// tail is what an equal-tailed 95 % interval leaves out on each side.
const tail = 0.025

// QuantileRanks gives the ranks, from 1, of the order statistics that enclose
// the level-th percentile with at least 95 % confidence, at most 2.5 % on
// either side, whatever the distribution. ok is false when n independent
// samples are too few for such an interval: see [QuantileNeeds].
func QuantileRanks(n int64, level float64) (lo, hi int64, ok bool) {
	p := level / 100
	if n < 1 || !(p > 0 && p < 1) {
		return 0, 0, false
	}
	// lo is the largest rank with P(B < lo) ≤ tail, hi the smallest with
	// P(B ≥ hi) ≤ tail, B being how many samples lie below the percentile.
	lo = search(0, n, func(k int64) bool { return binomialCDF(k, n, p) > tail })
	hi = search(0, n, func(k int64) bool { return binomialSurvival(k, n, p) <= tail }) + 1
	return lo, hi, lo >= 1 && hi <= n
}

// QuantileNeeds is the smallest number of independent samples for which
// [QuantileRanks] has an interval: 6 for the median, 368 for the 99th. It is 0
// for a level outside (0,100), which has none.
func QuantileNeeds(level float64) int64 {
	p := level / 100
	if !(p > 0 && p < 1) {
		return 0
	}
	// Both the smallest and the largest sample must be able to be wrong with a
	// chance of at most tail: p^n ≤ tail and (1−p)^n ≤ tail.
	n := int64(math.Ceil(math.Log(tail) / math.Log(max(p, 1-p))))
	for n > 1 && math.Pow(max(p, 1-p), float64(n-1)) <= tail {
		n--
	}
	for math.Pow(max(p, 1-p), float64(n)) > tail {
		n++
	}
	return n
}

// search is the smallest k in [from,to] that is true, or to+1; f must be
// monotone from false to true.
func search(from, to int64, f func(int64) bool) int64 {
	to++
	for from < to {
		mid := from + (to-from)/2
		if f(mid) {
			to = mid
		} else {
			from = mid + 1
		}
	}
	return from
}

// binomialCDF is P(B ≤ k).
func binomialCDF(k, n int64, p float64) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n:
		return 1
	}
	return mathext.RegIncBeta(float64(n-k), float64(k+1), 1-p)
}

// binomialSurvival is P(B > k).
func binomialSurvival(k, n int64, p float64) float64 {
	switch {
	case k < 0:
		return 1
	case k >= n:
		return 0
	}
	return mathext.RegIncBeta(float64(k+1), float64(n-k), p)
}

// MeanInterval is the two-sided interval of a mean by Student's t at the given
// confidence (0.95), from a sample's mean, standard deviation and effective
// size. Both ends are NaN with fewer than two.
func MeanInterval(mean, stddev, n, confidence float64) (lo, hi float64) {
	if !(n >= 2) || math.IsNaN(mean) || math.IsNaN(stddev) || !(confidence > 0 && confidence < 1) {
		return math.NaN(), math.NaN()
	}
	d := StudentQuantile(0.5+confidence/2, n-1) * stddev / math.Sqrt(n)
	return mean - d, mean + d
}

// StudentQuantile is the inverse of the distribution function of Student's t
// with df degrees of freedom, which need not be whole.
func StudentQuantile(p, df float64) float64 {
	switch {
	case !(p > 0 && p < 1) || !(df > 0):
		return math.NaN()
	case p == 0.5:
		return 0
	case p < 0.5:
		return -StudentQuantile(1-p, df)
	case math.IsInf(df, 1):
		return NormalQuantile(p)
	}
	// P(|T| > t) = I_x(df/2, 1/2) with x = df/(df+t²).
	x := mathext.InvRegIncBeta(df/2, 0.5, 2*(1-p))
	return math.Sqrt(df * (1 - x) / x)
}

// NormalQuantile is the inverse of the standard normal distribution function.
func NormalQuantile(p float64) float64 {
	if !(p > 0 && p < 1) {
		return math.NaN()
	}
	return mathext.NormalQuantile(p)
}

// ProportionInterval is the exact (Clopper–Pearson) interval of a proportion of
// which k of n samples were seen; NaN without samples.
func ProportionInterval(k, n int64, confidence float64) (lo, hi float64) {
	if n < 1 || k < 0 || k > n || !(confidence > 0 && confidence < 1) {
		return math.NaN(), math.NaN()
	}
	t := (1 - confidence) / 2
	lo, hi = 0, 1
	if k > 0 {
		lo = mathext.InvRegIncBeta(float64(k), float64(n-k+1), t)
	}
	if k < n {
		hi = mathext.InvRegIncBeta(float64(k+1), float64(n-k), 1-t)
	}
	return lo, hi
}
