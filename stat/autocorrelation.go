package stat

import "math"

// MaxLagged is the longest series that [AutocorrelationTime] takes: its worst
// case is all pairs. [Blocking] takes any length.
const MaxLagged = 20_000

// AutocorrelationTime is how many samples in a row of a series say as much as
// one independent sample: 1 + 2·Σρ over lags, up to the first lag that is five
// times the sum so far (Sokal's window), which leaves out the lags that are
// only noise. It is held to at least 1, as in [Blocking], which is the estimate
// for a stream.
//
// Its own error is about √(20τ/n) of the value: a half with fifty times as many
// samples as the answer, a third with two hundred. There it has less bias than
// Blocking and as much noise; a series shorter than that gives too small a
// value with either.
//
// NaN and infinities are passed over. It is NaN with fewer than two samples or
// more than [MaxLagged], and 1 for equal samples.
func AutocorrelationTime(series []float64) float64 {
	v := make([]float64, 0, len(series))
	var m Moments
	for _, x := range series {
		if isFinite(x) {
			v = append(v, x)
			m.add(x)
		}
	}
	if len(v) < 2 || len(v) > MaxLagged {
		return math.NaN()
	}
	for i := range v {
		v[i] -= m.mean
	}
	c0 := lagProduct(v, 0)
	if !(c0 > 0) {
		return 1
	}
	tau := 1.0
	for lag := 1; lag < len(v); lag++ {
		tau += 2 * lagProduct(v, lag) / c0
		if float64(lag) >= 5*tau {
			break
		}
	}
	return max(1, tau)
}

func lagProduct(v []float64, lag int) float64 {
	sum := 0.0
	for i, x := range v[lag:] {
		sum += x * v[i]
	}
	return sum
}
