package stat

import "math"

// USL is the Universal Scalability Law X(N) = γN / (1 + σ(N−1) + κN(N−1)).
type USL struct {
	Gamma, Sigma, Kappa float64
	R2                  float64 // of X; NaN when all X are equal
}

// At is the throughput that the law gives at load n.
func (u USL) At(n float64) float64 {
	return u.Gamma * n / (1 + u.Sigma*(n-1) + u.Kappa*n*(n-1))
}

// Peak is the load of the law's maximum; ok is false when κ = 0 (throughput
// never falls) or σ ≥ 1 (it never rises).
func (u USL) Peak() (n float64, ok bool) {
	if u.Kappa <= 0 || u.Sigma >= 1 {
		return 0, false
	}
	return math.Sqrt((1 - u.Sigma) / u.Kappa), true
}

// FitUSL fits the law to throughputs x at loads n, with γ, σ, κ ≥ 0.
//
// N/X = a + b(N−1) + cN(N−1) is linear in a = 1/γ, b = σ/γ, c = κ/γ; each point
// is weighted by X/N, so that relative errors count alike, and the three are
// held to be non-negative by trying each set of them that may be zero. ok is
// false with fewer than three distinct loads, or when a load or throughput is
// not positive.
func FitUSL(n, x []float64) (USL, bool) {
	if len(n) != len(x) {
		return USL{}, false
	}
	distinct := map[float64]bool{}
	for i := range n {
		if !(n[i] >= 1) || !(x[i] > 0) || math.IsInf(n[i], 0) || math.IsInf(x[i], 0) {
			return USL{}, false
		}
		distinct[n[i]] = true
	}
	if len(distinct) < 3 {
		return USL{}, false
	}
	rows := make([][3]float64, len(n))
	for i := range n {
		w := x[i] / n[i]
		rows[i] = [3]float64{w, w * (n[i] - 1), w * n[i] * (n[i] - 1)}
	}
	best, coef := math.Inf(1), [3]float64{}
	for set := 1; set < 8; set++ {
		c, ok := leastSquares(rows, set)
		if !ok || c[0] <= 0 || c[1] < 0 || c[2] < 0 {
			continue
		}
		rss := 0.0
		for _, r := range rows {
			d := 1 - r[0]*c[0] - r[1]*c[1] - r[2]*c[2]
			rss += d * d
		}
		// A coefficient more must earn its place beyond rounding.
		if rss < best-1e-15 {
			best, coef = rss, c
		}
	}
	if math.IsInf(best, 1) {
		return USL{}, false
	}
	u := USL{Gamma: 1 / coef[0], Sigma: coef[1] / coef[0], Kappa: coef[2] / coef[0]}
	var m Moments
	for _, v := range x {
		m.Add(v)
	}
	rss := 0.0
	for i := range n {
		d := x[i] - u.At(n[i])
		rss += d * d
	}
	u.R2 = math.NaN()
	if m.m2 > 0 {
		u.R2 = 1 - rss/m.m2
	}
	return u, true
}

// leastSquares solves rows·c = 1 for the columns in set, the others zero, by
// the normal equations scaled to unit columns.
func leastSquares(rows [][3]float64, set int) (c [3]float64, ok bool) {
	var cols []int
	for k := range 3 {
		if set&(1<<k) != 0 {
			cols = append(cols, k)
		}
	}
	var scale [3]float64
	for _, k := range cols {
		for _, r := range rows {
			scale[k] += r[k] * r[k]
		}
		if scale[k] = math.Sqrt(scale[k]); scale[k] == 0 {
			return c, false
		}
	}
	size := len(cols)
	var a [3][4]float64
	for i, ki := range cols {
		for j, kj := range cols {
			for _, r := range rows {
				a[i][j] += r[ki] / scale[ki] * r[kj] / scale[kj]
			}
		}
		for _, r := range rows {
			a[i][3] += r[ki] / scale[ki]
		}
	}
	for i := range size { // Gauss with pivots; the matrix is at most 3×3
		p := i
		for j := i + 1; j < size; j++ {
			if math.Abs(a[j][i]) > math.Abs(a[p][i]) {
				p = j
			}
		}
		if math.Abs(a[p][i]) < 1e-13 {
			return c, false
		}
		a[i], a[p] = a[p], a[i]
		for j := range size {
			if j == i {
				continue
			}
			f := a[j][i] / a[i][i]
			for k := i; k < 4; k++ {
				a[j][k] -= f * a[i][k]
			}
		}
	}
	for i, k := range cols {
		c[k] = a[i][3] / a[i][i] / scale[k]
	}
	return c, true
}
