package stat

import (
	"math"
	"slices"
)

// Normality is the outcome of [ShapiroWilk].
type Normality struct {
	N int
	W float64 // near 1 for normal samples
	P float64
}

// ShapiroWilk tests whether samples are normal, by Royston's approximation
// (1995, algorithm AS R94). It is for the record: nothing in this package
// chooses a method by it, because a test that is chosen by the data has no
// level of its own.
//
// W and P are NaN with fewer than 3 or more than 5,000 samples, with equal
// samples, or with an infinity. NaN samples are absent.
func ShapiroWilk(samples []float64) Normality {
	x := present(samples)
	n := len(x)
	r := Normality{N: n, W: math.NaN(), P: math.NaN()}
	if n < 3 || n > 5000 {
		return r
	}
	slices.Sort(x)
	if !isFinite(x[0]) || !isFinite(x[n-1]) || x[0] == x[n-1] {
		return r
	}
	// In units of the range around the median, so that nothing overflows and
	// no digit is lost to a large mean.
	unit, origin := x[n-1]-x[0], x[n/2]
	for i := range x {
		x[i] = (x[i] - origin) / unit
	}
	a := shapiroWeights(n)
	var m Moments
	top := 0.0
	for i, v := range x {
		m.add(v)
		if i < len(a) {
			top += a[i] * (x[n-1-i] - v)
		}
	}
	r.W = min(1, top*top/m.m2)
	r.P = shapiroP(r.W, float64(n))
	return r
}

// shapiroWeights are those of the upper half, the outermost first.
func shapiroWeights(n int) []float64 {
	a := make([]float64, n/2)
	if n == 3 {
		a[0] = math.Sqrt2 / 2
		return a
	}
	sum := 0.0
	for i := range a { // expected order statistics, nearly
		a[i] = -NormalQuantile((float64(i) + 0.625) / (float64(n) + 0.25))
		sum += 2 * a[i] * a[i]
	}
	u := 1 / math.Sqrt(float64(n))
	first := polynomial(u, 0, 0.221157, -0.147981, -2.071190, 4.434685, -2.706056) + a[0]/math.Sqrt(sum)
	rest, weight, from := sum-2*a[0]*a[0], 1-2*first*first, 1
	if n > 5 {
		second := polynomial(u, 0, 0.042981, -0.293762, -1.752461, 5.682633, -3.582633) + a[1]/math.Sqrt(sum)
		rest, weight, from = rest-2*a[1]*a[1], weight-2*second*second, 2
		a[1] = second
	}
	a[0] = first
	scale := math.Sqrt(rest / weight)
	for i := from; i < len(a); i++ {
		a[i] /= scale
	}
	return a
}

// shapiroP is P(W' ≤ w) for normal samples: exact for three, and else from a
// transform of 1−W that is nearly normal.
func shapiroP(w, n float64) float64 {
	if n == 3 {
		return max(0, 6/math.Pi*(math.Asin(math.Sqrt(w))-math.Asin(math.Sqrt(0.75))))
	}
	y, mean, deviation := math.Log(1-w), 0.0, 0.0
	if n <= 11 {
		g := polynomial(n, -2.273, 0.459)
		if y >= g {
			return 0 // below every value that the approximation knows
		}
		y = -math.Log(g - y)
		mean = polynomial(n, 0.5440, -0.39978, 0.025054, -6.714e-4)
		deviation = math.Exp(polynomial(n, 1.3822, -0.77857, 0.062767, -0.0020322))
	} else {
		l := math.Log(n)
		mean = polynomial(l, -1.5861, -0.31082, -0.083751, 0.0038915)
		deviation = math.Exp(polynomial(l, -0.4803, -0.082676, 0.0030302))
	}
	return normalUpper((y - mean) / deviation)
}

// polynomial is c₀ + c₁x + c₂x² …
func polynomial(x float64, c ...float64) float64 {
	sum := 0.0
	for _, k := range slices.Backward(c) {
		sum = sum*x + k
	}
	return sum
}
