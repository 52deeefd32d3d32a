package stat

import (
	"math"
	"slices"
)

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
