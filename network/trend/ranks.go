package trend

import "math"

// maxWindow is how many points a window holds: six weeks of hourly reports.
const maxWindow = 1000

// minSide is the least number of points on either side of a change.
const minSide = 5

// window holds values and their ranks among each other, one more at a time.
type window struct {
	x    []float64
	rank []float64 // 1…n; ties share their mean
}

// add takes a value, and drops the oldest beyond maxWindow.
func (w *window) add(v float64) {
	if len(w.x) == maxWindow {
		w.drop()
	}
	r := 1.0
	for i, x := range w.x {
		switch {
		case v < x:
			w.rank[i]++
		case v > x:
			r++
		default:
			w.rank[i] += 0.5
			r += 0.5
		}
	}
	w.x, w.rank = append(w.x, v), append(w.rank, r)
}

// drop forgets the oldest.
func (w *window) drop() {
	v := w.x[0]
	w.x, w.rank = append(w.x[:0], w.x[1:]...), append(w.rank[:0], w.rank[1:]...)
	for i, x := range w.x {
		switch {
		case v < x:
			w.rank[i]--
		case v == x:
			w.rank[i] -= 0.5
		}
	}
}

// split is by how much the values before and after some moment differ: the largest
// standardized Mann–Whitney statistic over all splits (Hawkins and Deng 2010).
func (w *window) split() (z float64) {
	n := float64(len(w.x))
	sum := 0.0
	for i, r := range w.rank {
		sum += r
		k := float64(i + 1)
		if i+1 < minSide || len(w.x)-i-1 < minSide {
			continue
		}
		u := sum - k*(n+1)/2 // less its mean
		z = max(z, u*u/(k*(n-k)))
	}
	return math.Sqrt(z * 12 / (n + 1))
}
