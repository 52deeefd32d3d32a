package stat

import (
	"math"
	"slices"
)

// Slope is a straight line through points, and what its slope may be.
// All numbers are NaN when N is 0.
type Slope struct {
	N                int // points that were used
	Slope, Intercept float64
	Lo, Hi           float64 // the slope's interval
}

func noSlope() Slope {
	nan := math.NaN()
	return Slope{Slope: nan, Intercept: nan, Lo: nan, Hi: nan}
}

// finite gives the points of which both numbers are finite; ok is false when
// the lengths differ.
func finite(x, y []float64) (fx, fy []float64, ok bool) {
	if len(x) != len(y) {
		return nil, nil, false
	}
	fx, fy = make([]float64, 0, len(x)), make([]float64, 0, len(y))
	for i := range x {
		if isFinite(x[i]) && isFinite(y[i]) {
			fx, fy = append(fx, x[i]), append(fy, y[i])
		}
	}
	return fx, fy, true
}

// isFinite counts as infinite what is beyond ±1e150: its square is, and no
// measurement is there.
func isFinite(v float64) bool { return math.Abs(v) <= 1e150 }

// pairSlopes are the slopes between all pairs of different x, in no order.
func pairSlopes(x, y []float64) []float64 {
	slopes := make([]float64, 0, len(x)*(len(x)-1)/2)
	for i := range x {
		for j := range i {
			if d := x[i] - x[j]; d != 0 {
				// Two points may be too near in x for their slope to be a
				// number: an overflow is not data.
				if s := (y[i] - y[j]) / d; isFinite(s) {
					slopes = append(slopes, s)
				}
			}
		}
	}
	return slopes
}

// senInterval are the slopes at the ranks that lie spread (a quantile times
// the standard deviation of Kendall's S) around the middle. It is NaN when the
// ranks lie outside: then no slope at all can be excluded. It reorders slopes.
func senInterval(slopes []float64, spread float64) (lo, hi float64) {
	n := float64(len(slopes))
	l, h := math.RoundToEven((n-spread)/2)-1, math.RoundToEven((n+spread)/2)
	if !(l >= 0 && h <= n-1) {
		return math.NaN(), math.NaN()
	}
	return nth(slopes, int(l)), nth(slopes, int(h))
}

// kendallVariance is the variance of Kendall's S between independent x and y
// with their ties.
func kendallVariance(x, y []float64) float64 {
	n := float64(len(x))
	return max(0, n*(n-1)*(2*n+5)-tieTerm(x)-tieTerm(y)) / 18
}

// tieTerm is Σ k(k−1)(2k+5) over groups of k equal values.
func tieTerm(v []float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	sum, k := 0.0, 1.0
	for i := 1; i <= len(s); i++ {
		if i < len(s) && s[i] == s[i-1] {
			k++
			continue
		}
		sum += k * (k - 1) * (2*k + 5)
		k = 1
	}
	return sum
}

// thin gives at most maxPoints points, each the mean of as many neighbours, in the
// order given; a last group that is not full is left out, as its mean would be
// noisier than the others. With maxPoints or fewer it gives them as they are.
func thin(x, y []float64, maxPoints int) (tx, ty []float64) {
	if len(x) <= maxPoints {
		return x, y
	}
	k := (len(x) + maxPoints - 1) / maxPoints
	for i := 0; i+k <= len(x); i += k {
		var mx, my Moments
		for j := i; j < i+k; j++ {
			mx.Add(x[j])
			my.Add(y[j])
		}
		tx, ty = append(tx, mx.Mean()), append(ty, my.Mean())
	}
	return tx, ty
}
