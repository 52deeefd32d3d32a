// Package stat turns numbers into numbers.
//
// It promises exactness where exactness is possible: percentiles are nearest
// ranks of raw samples, never interpolated; the interval of a percentile comes
// from the binomial distribution, not from a normal approximation, and does not
// exist when there are too few samples for it. It refuses to answer rather than
// to guess: what cannot be computed is NaN (or ok == false), never zero.
//
// Memory is flat: [Counts], [Moments] and [Blocking] take samples one at a time
// and keep no list of them. What looks at a series in its order ([TheilSen],
// [MannKendall], [Drift], [ChangePoints]) takes a list of windows, not of
// samples, and bounds its length.
//
// A comparison's sample is a run, not a request: [SignedRank] and
// [HodgesLehmann] take paired log-ratios, a round each, [MannWhitney] and
// [CliffDelta] runs that are not paired; both tests are exact for as many runs
// as anyone makes. [RoundsFor] says how many rounds are needed before the first
// is made, [Looks] and [QuantileSequence] how often one may look, [Holm] what
// several tests at once cost. In all of these a NaN is an absent value and is
// not counted, an infinity is a value and has a rank.
//
// The files testdata/*.json hold values computed by scipy, statsmodels, emcee,
// pymannkendall and ruptures, and the scripts beside them made them.
package stat

import (
	"math"
	"slices"
)

// Rank is the nearest rank, from 1, of the level-th percentile of n samples:
// the smallest rank with at least that share of the samples at or below it. It
// is 0 when n is 0. The level is held to [0,100].
func Rank(n int64, level float64) int64 {
	if n <= 0 || math.IsNaN(level) {
		return 0
	}
	level = min(100, max(0, level))
	// 99.9/100*1000 is 999.0000000000001 in floating point; the nearest rank
	// is 999. A tolerance far below one sample undoes that.
	r := int64(math.Ceil(level*float64(n)/100 - 1e-12*float64(n) - 1e-9))
	return min(n, max(1, r))
}

// Quantile is the level-th percentile by nearest rank of sorted samples; NaN
// when there are none.
func Quantile(sorted []float64, level float64) float64 {
	r := Rank(int64(len(sorted)), level)
	if r == 0 {
		return math.NaN()
	}
	return sorted[r-1]
}

// Median is the 50th percentile by nearest rank of samples in any order, which
// it leaves as they are; NaN when there are none.
func Median(samples []float64) float64 {
	s := slices.Clone(samples)
	slices.Sort(s)
	return Quantile(s, 50)
}
