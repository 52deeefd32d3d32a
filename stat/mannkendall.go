package stat

import (
	"math"
	"slices"
)

// Trend says whether a series rises or falls, by Mann and Kendall's test.
type Trend struct {
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

// MannKendall tests whether a series has a monotone trend, with the variance
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
// NaN and infinities are passed over. Fewer than three samples, more than
// [MostPoints], or a correction that is not positive leave Z and P NaN. A
// series of equal samples has S = 0 and P = 1.
func MannKendall(y []float64) Trend {
	nan := math.NaN()
	at := make([]float64, len(y))
	for i := range at {
		at[i] = float64(i)
	}
	_, y, _ = finite(at, y)
	n := len(y)
	if n < 3 || n > MostPoints {
		return Trend{N: n, S: nan, Tau: nan, Var: nan, Ratio: nan, Z: nan, P: nan}
	}
	at = at[:n] // what is passed over leaves no gap, as in the golden source
	t := Trend{N: n, S: kendallS(y)}
	t.Tau = t.S / (float64(n) * float64(n-1) / 2)
	slope := middle(pairSlopes(at, y))
	t.Ratio = lagRatio(n, significant(autocorrelation(ranks(residuals(at, y, slope)))))
	t.finish(kendallVariance(at, y) * t.Ratio)
	return t
}

// finish sets what follows from S and its variance.
func (t *Trend) finish(variance float64) {
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

// residuals are y less slope·x, to eleven digits of the largest y: the residuals
// of tied data are tied, and those of a perfect line are zero. The order of
// rounding errors is not noise.
func residuals(x, y []float64, slope float64) []float64 {
	r := make([]float64, len(y))
	grid := 1e-11 * max(math.Abs(slices.Min(y)), math.Abs(slices.Max(y)))
	if grid == 0 {
		return r
	}
	for i := range y {
		r[i] = math.Round((y[i] - slope*(x[i]-x[0])) / grid)
	}
	return r
}

// ranks are those of the values, from 1, ties having the mean of theirs.
func ranks(v []float64) []float64 {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case v[a] < v[b]:
			return -1
		case v[a] > v[b]:
			return 1
		}
		return 0
	})
	r := make([]float64, len(v))
	for i := 0; i < len(order); {
		j := i + 1 // a NaN, which equals nothing, must not stop the walk
		for j < len(order) && v[order[j]] == v[order[i]] {
			j++
		}
		for _, k := range order[i:j] {
			r[k] = float64(i+j+1) / 2
		}
		i = j
	}
	return r
}

// autocorrelation of lags 0…n−1, each over n rather than over its number of
// pairs; zero beyond lag 0 for equal values.
func autocorrelation(v []float64) []float64 {
	n := len(v)
	var m Moments
	for _, x := range v {
		m.Add(x)
	}
	d := make([]float64, n)
	for i, x := range v {
		d[i] = x - m.Mean()
	}
	acf := make([]float64, n)
	for lag := range acf {
		for i := lag; i < n; i++ {
			acf[lag] += d[i] * d[i-lag]
		}
	}
	c0 := acf[0]
	for lag := range acf {
		if c0 > 0 {
			acf[lag] /= c0
		} else {
			acf[lag] = 0
		}
	}
	return acf
}

// significant sets to zero the lags that lie within what an independent series
// would show 95 times of 100.
func significant(acf []float64) []float64 {
	bound := NormalQuantile(0.975) / math.Sqrt(float64(len(acf)))
	for i, r := range acf {
		if math.Abs(r) <= bound {
			acf[i] = 0
		}
	}
	return acf
}

// lagRatio is Hamed and Rao's n/n*: by how much a correlogram enlarges the
// variance of S. acf[0] is not looked at.
func lagRatio(n int, acf []float64) float64 {
	f := float64(n)
	sum := 0.0
	for i := 1; i < min(n, len(acf)); i++ {
		k := f - float64(i)
		sum += k * (k - 1) * (k - 2) * acf[i]
	}
	return 1 + 2/(f*(f-1)*(f-2))*sum
}
