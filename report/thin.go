package report

import (
	"math"
	"slices"
)

// mostPoints is how many points of a series a page carries. A chart is about
// as many pixels wide, so that more could not be seen.
const mostPoints = 1000

// thin reduces a line to at most n points by largest triangles (LTTB,
// Steinarsson 2013): the first and the last point stay, and of each bucket in
// between the point that shows the most. The lowest and the highest point stay
// besides, because a report that hides a spike is of no use. Gaps stay gaps:
// one NaN between two kept points that had a gap between them.
func thin(l Line, n int) Line {
	if len(l.Y) <= n {
		return l
	}
	var at []int // indices of what is there
	gaps := 0
	for i, y := range l.Y {
		if math.IsNaN(y) {
			if i > 0 && !math.IsNaN(l.Y[i-1]) {
				gaps++
			}
			continue
		}
		at = append(at, i)
	}
	// Gaps may take half of the points at most: what is left of more is shared.
	keep := largestTriangles(l.X, l.Y, at, n-min(gaps, n/2))
	out := Line{Name: l.Name, Dots: l.Dots, Dashed: l.Dashed, Colour: l.Colour}
	put := func(i int) {
		out.X, out.Y = append(out.X, l.X[i]), append(out.Y, l.Y[i])
		if l.Lo != nil {
			out.Lo, out.Hi = append(out.Lo, l.Lo[i]), append(out.Hi, l.Hi[i])
		}
	}
	for k, i := range keep {
		if k > 0 {
			if gap := slices.IndexFunc(l.Y[keep[k-1]:i], math.IsNaN); gap >= 0 && len(out.Y)+len(keep)-k < n {
				put(keep[k-1] + gap)
			}
		}
		put(i)
	}
	return out
}

// largestTriangles picks n of the indices at, in order.
func largestTriangles(x, y []float64, at []int, n int) []int {
	if len(at) <= n {
		return at
	}
	low, high := at[0], at[0]
	for _, i := range at {
		if y[i] < y[low] {
			low = i
		}
		if y[i] > y[high] {
			high = i
		}
	}
	n -= 2 // room for both extremes
	if n < 3 {
		keep := []int{at[0], low, high, at[len(at)-1]}
		slices.Sort(keep)
		return slices.Compact(keep)
	}
	keep := []int{at[0], low, high, at[len(at)-1]}
	width := float64(len(at)-2) / float64(n-2)
	bound := func(b int) int { return min(1+int(float64(b)*width), len(at)-1) }
	last := at[0]
	for b := range n - 2 {
		from, to := bound(b), bound(b+1)
		nextTo := bound(b + 2)
		if b == n-3 {
			to, nextTo = len(at)-1, len(at)
		}
		// The third corner is the mean of the next bucket.
		var mx, my float64
		for _, i := range at[to:nextTo] {
			mx += x[i]
			my += y[i]
		}
		mx, my = mx/float64(nextTo-to), my/float64(nextTo-to)
		best, area := at[from], -1.0
		for _, i := range at[from:to] {
			a := math.Abs((x[last]-mx)*(y[i]-y[last]) - (x[last]-x[i])*(my-y[last]))
			if a > area {
				best, area = i, a
			}
		}
		keep = append(keep, best)
		last = best
	}
	slices.Sort(keep)
	return slices.Compact(keep)
}
