package stat

import (
	"math"
	"slices"
)

// MostPoints is the longest series that the functions over all pairs of points
// take ([TheilSen], [MannKendall]): two million pairs, a fraction of a second
// and 16 MB. A caller with more thins first; [Thin] does it.
const MostPoints = 2000

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

// TheilSen is the median of the slopes between all pairs of points, with Sen's
// interval at the given confidence (0.95), for independent noise of any
// distribution: an outlier moves it little, and nothing has to be removed.
// For noise that is not independent see [Drift].
//
// Pairs with the same x have no slope and are passed over; ties in x and in y
// narrow the interval as Sen (1968, eq. 2.6) says. The intercept is that of
// Conover, median(y) − slope·median(x). These medians are the usual ones, the
// mean of the middle two when there are two.
//
// A point with a NaN or an infinity is passed over. There is no slope with
// fewer than two distinct x or with more than [MostPoints] points, and no
// interval when the points are too few for the confidence.
func TheilSen(x, y []float64, confidence float64) Slope {
	x, y, ok := finite(x, y)
	if !ok || len(x) > MostPoints {
		return noSlope()
	}
	slopes := pairSlopes(x, y)
	if len(slopes) == 0 {
		return noSlope()
	}
	s := Slope{N: len(x), Slope: middle(slopes)}
	s.Intercept = middleOf(y) - s.Slope*middleOf(x)
	z := math.NaN()
	if confidence > 0 && confidence < 1 {
		z = NormalQuantile(0.5 + confidence/2)
	}
	s.Lo, s.Hi = senInterval(slopes, z*math.Sqrt(kendallVariance(x, y)))
	return s
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

// Thin gives at most most points, each the mean of as many neighbours, in the
// order given; a last group that is not full is left out, as its mean would be
// noisier than the others. With most or fewer points it gives them as they
// are; with most < 1 or different lengths it gives none.
func Thin(x, y []float64, most int) (tx, ty []float64) {
	if most < 1 || len(x) != len(y) {
		return nil, nil
	}
	if len(x) <= most {
		return x, y
	}
	k := (len(x) + most - 1) / most
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
