package stat

import "math"

// Moments are mean and spread by Welford's method, which loses no digits when
// the mean is large against the spread. The zero Moments has no samples.
type Moments struct {
	n        int64
	mean, m2 float64
	lo, hi   float64
}

// Add takes one sample. A NaN or an infinity is passed over: one such value
// would spoil all the others.
func (m *Moments) Add(x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return
	}
	if m.n == 0 {
		m.lo, m.hi = x, x
	}
	m.lo, m.hi = min(m.lo, x), max(m.hi, x)
	m.add(x)
}

// add is Add without its checks and extremes.
func (m *Moments) add(x float64) {
	m.n++
	d := x - m.mean
	m.mean += d / float64(m.n)
	m.m2 += d * (x - m.mean)
}

// AddN takes the same sample n times.
func (m *Moments) AddN(x float64, n int64) {
	if n <= 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return
	}
	m.Merge(Moments{n: n, mean: x, lo: x, hi: x})
}

// Merge takes the samples of another.
func (m *Moments) Merge(o Moments) {
	if o.n == 0 {
		return
	}
	if m.n == 0 {
		*m = o
		return
	}
	total := float64(m.n + o.n)
	d := o.mean - m.mean
	m.mean += d * float64(o.n) / total
	m.m2 += o.m2 + d*d*float64(m.n)*float64(o.n)/total
	m.n += o.n
	m.lo, m.hi = min(m.lo, o.lo), max(m.hi, o.hi)
}

// N is the number of samples.
func (m *Moments) N() int64 { return m.n }

// Mean is NaN without samples.
func (m *Moments) Mean() float64 {
	if m.n == 0 {
		return math.NaN()
	}
	return m.mean
}

// Variance is that of the sample (n−1); NaN with fewer than two.
func (m *Moments) Variance() float64 {
	if m.n < 2 {
		return math.NaN()
	}
	return max(0, m.m2) / float64(m.n-1)
}

// Stddev is the sample's standard deviation; NaN with fewer than two.
func (m *Moments) Stddev() float64 { return math.Sqrt(m.Variance()) }

// Min is NaN without samples.
func (m *Moments) Min() float64 {
	if m.n == 0 {
		return math.NaN()
	}
	return m.lo
}

// Max is NaN without samples.
func (m *Moments) Max() float64 {
	if m.n == 0 {
		return math.NaN()
	}
	return m.hi
}
