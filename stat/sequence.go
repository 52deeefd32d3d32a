package stat

import "math"

// A confidence sequence is an interval that may be looked at after every
// sample: the chance that it ever misses the truth, at any of the looks, is at
// most alpha. The ones here rest on one argument. For Bernoulli trials of true
// chance p, the likelihood of the trials averaged over all chances (by Jeffreys'
// Beta(½,½)) divided by their likelihood under p is a martingale that starts at
// 1, so that it ever reaches 1/alpha with a chance of at most alpha (Ville).
// The chances that it has not ruled out now are the interval now. No
// approximation is in it, and no plan of looks is needed.

// QuantileSequence gives the ranks, from 1, of the order statistics that
// enclose the level-th percentile at every n at once: [QuantileRanks] for one
// who looks again and again. Level 50 of paired log-ratios is the sequence of
// their median: it has ranks from 7 samples on at alpha 0.05, where the sign
// test would be content with 6 and would be allowed only one look. ok is false
// when n samples are too few.
//
// Ties do no harm: a sample at or below the percentile is at least as likely
// as p and one strictly below at most so, and both errors only widen.
func QuantileSequence(n int64, level, alpha float64) (lo, hi int64, ok bool) {
	p := level / 100
	if n < 1 || !(p > 0 && p < 1) || !(alpha > 0 && alpha < 1) {
		return 0, 0, false
	}
	limit := -math.Log(alpha)
	out := func(k int64) bool { return logJeffreys(k, n)-logLikelihood(k, n, p) >= limit }
	// The counts that p has not ruled out lie around the likeliest; the ratio
	// rises on both sides of it.
	at := min(n, int64(math.Round(p*float64(n))))
	first := search(0, at, func(k int64) bool { return !out(k) })
	last := search(at, n, out) - 1
	lo, hi = first, last+1
	return lo, hi, lo >= 1 && hi <= n
}

// logJeffreys is the logarithm of the likelihood of one order of k successes
// in n trials, averaged over Beta(½,½).
func logJeffreys(k, n int64) float64 {
	a, _ := math.Lgamma(float64(k) + 0.5)
	b, _ := math.Lgamma(float64(n-k) + 0.5)
	c, _ := math.Lgamma(float64(n) + 1)
	return a + b - c - math.Log(math.Pi)
}

func logLikelihood(k, n int64, p float64) float64 {
	sum := 0.0
	if k > 0 {
		sum += float64(k) * math.Log(p)
	}
	if k < n {
		sum += float64(n-k) * math.Log1p(-p)
	}
	return sum
}
