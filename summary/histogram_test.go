package summary

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func histogramOf(values ...int64) *sample {
	s := new(sample)
	for _, v := range values {
		s.counts.Add(v)
	}
	return s
}

func TestHistogramHasRoundEdges(t *testing.T) {
	h := histogramOf(50_100, 50_900, 51_200, 53_000, 58_700, 900_000).histogram(1e-3)
	if len(h.Counts) != len(h.Edges) {
		t.Fatalf("%d counts for %d edges", len(h.Counts), len(h.Edges))
	}
	// Of six the 95th percentile is the largest.
	if h.Edges[0] != 0 || h.Edges[1] != 200 {
		t.Errorf("edges %v", h.Edges)
	}
	values := make([]int64, 100)
	for i := range values {
		values[i] = 50_000 + int64(i)*10
	}
	values[99] = 60_000_000
	h = histogramOf(values...).histogram(1e-3)
	if h.Edges[0] != 50 || !(math.Abs(h.Edges[1]-50.2) <= 1e-9) {
		t.Errorf("edges %v", h.Edges)
	}
	if last := h.Counts[len(h.Counts)-1]; last != 1 {
		t.Errorf("%d above, want the one that took a minute: %v", last, h.Counts)
	}
	if h := histogramOf().histogram(1); h != nil {
		t.Errorf("of nothing: %v", h)
	}
	if h := histogramOf(7, 7).histogram(1); h.Counts[0] != 2 {
		t.Errorf("of one value: %v", h)
	}
}

func TestHistogramLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 1<<50), 1, 200).Draw(t, "values")
		h := histogramOf(values...).histogram(1e-3)
		n := 0
		for _, c := range h.Counts {
			n += c
		}
		if n != len(values) || len(h.Counts) != len(h.Edges) || len(h.Edges) > 2*histogramRanges+1 {
			t.Fatalf("%d of %d counted, %d counts for %d edges", n, len(values), len(h.Counts), len(h.Edges))
		}
		for i := 1; i < len(h.Edges); i++ {
			if !(h.Edges[i] > h.Edges[i-1]) {
				t.Fatalf("edges do not rise: %v", h.Edges)
			}
		}
	})
}
