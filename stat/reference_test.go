package stat

import "math"

// What other programs call Theil and Sen's line and Mann and Kendall's test, made of
// the pieces that [Drift] is made of: their golden figures check those pieces.

// theilSen is the median of the slopes between all pairs of points, with Sen's
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
// fewer than two distinct x, and no interval when the points are too few for
// the confidence.
func theilSen(x, y []float64, confidence float64) Slope {
	x, y, ok := finite(x, y)
	if !ok {
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

// trend says whether a series rises or falls, by Mann and Kendall's test.
type trend struct {
	N   int     // samples that were used
	S   float64 // pairs that rise minus pairs that fall
	Tau float64 // S ÷ number of pairs, in [−1,1]
	Var float64 // variance of S without a trend, corrected for autocorrelation
	// Ratio is that correction: how many times larger the variance is than
	// that of an independent series. Below 1 the series alternates.
	Ratio float64
	Z     float64 // S, less one towards zero, ÷ √Var
	P     float64 // two-sided
}

// mannKendall tests whether a series has a monotone trend, with the variance
// corrected for autocorrelation as Hamed and Rao (1998) do it: from the
// autocorrelation of the ranks of the series less its Theil–Sen slope, over
// all lags 1…n−1 whose correlation lies outside ±1.96/√n. (All lags is what
// pymannkendall does by default; the paper itself speaks of the significant
// ones of all lags, others take the first three.)
//
// The correction is too small for a short and strongly correlated series: with
// 60 to 180 samples, p < 0.02 comes 5 times in 100 by chance when they are
// independent, 12 at ρ = 0.5 and 20 at ρ = 0.8. [Drift] corrects further.
//
// NaN and infinities are passed over. Fewer than three samples, or a
// correction that is not positive, leave Z and P NaN. A
// series of equal samples has S = 0 and P = 1.
func mannKendall(y []float64) trend {
	nan := math.NaN()
	at := make([]float64, len(y))
	for i := range at {
		at[i] = float64(i)
	}
	_, y, _ = finite(at, y)
	n := len(y)
	if n < 3 {
		return trend{N: n, S: nan, Tau: nan, Var: nan, Ratio: nan, Z: nan, P: nan}
	}
	at = at[:n] // what is passed over leaves no gap, as in the golden source
	t := trend{N: n, S: kendallS(y)}
	t.Tau = t.S / (float64(n) * float64(n-1) / 2)
	slope := middle(pairSlopes(at, y))
	t.Ratio = lagRatio(n, significant(autocorrelation(ranks(residuals(at, y, slope)))))
	t.finish(kendallVariance(at, y) * t.Ratio)
	return t
}

// finish sets what follows from S and its variance.
func (t *trend) finish(variance float64) {
	t.Var = variance
	switch {
	case t.S == 0:
		t.Z = 0
	case variance > 0:
		t.Z = math.Copysign(max(0, math.Abs(t.S)-1), t.S) / math.Sqrt(variance)
	default:
		t.Z = math.NaN()
	}
	t.P = math.Erfc(math.Abs(t.Z) / math.Sqrt2)
}

func kendallS(y []float64) float64 {
	s := 0
	for i := range y {
		for j := range i {
			switch {
			case y[i] > y[j]:
				s++
			case y[i] < y[j]:
				s--
			}
		}
	}
	return float64(s)
}
