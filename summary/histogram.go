package summary

import (
	"math"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// histogramRanges is how many ranges a histogram has below the one that takes all
// that is above: as many as a person takes in at a look.
const histogramRanges = 8

// histogram counts the samples; nil without any. Its ranges end about the 95th
// percentile: one request that took a minute would push all others into the first.
// Their width is 1, 2 or 5 times a power of ten, so that edges are short numbers.
func (s *sample) histogram(scale float64) *assay.Histogram {
	n := s.counts.N()
	if n == 0 {
		return nil
	}
	ends := s.counts.AtRanks(1, max(1, stat.Rank(n, 95)))
	low, high := float64(ends[0])*scale, float64(ends[1])*scale
	width := roundWidth((high - low) / histogramRanges)
	from := math.Floor(low/width) * width
	h := &assay.Histogram{Counts: []int{0}}
	edge := func(i int) float64 { return from + float64(i)*width }
	h.Edges = []float64{edge(0)}
	for i := 1; edge(i-1) <= high && i <= 2*histogramRanges; i++ {
		h.Edges = append(h.Edges, edge(i))
		h.Counts = append(h.Counts, 0)
	}
	last := len(h.Counts) - 1
	for e := range s.counts.All() {
		at := int(math.Floor((float64(e.Value)*scale - from) / width))
		h.Counts[min(max(at, 0), last)] += int(e.N)
	}
	return h
}

// roundWidth is the smallest 1, 2 or 5 times a power of ten that is not below w,
// and at least a microsecond's thousandth of a millisecond.
func roundWidth(w float64) float64 {
	const least = 1e-3
	if !(w > least) {
		return least
	}
	unit := math.Pow(10, math.Floor(math.Log10(w)))
	for _, m := range []float64{1, 2, 5} {
		if m*unit >= w*(1-1e-9) {
			return m * unit
		}
	}
	return 10 * unit
}
