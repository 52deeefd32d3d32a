package dialect

import (
	"maps"
	"math"
	"slices"
	"sort"
)

// counts says how often each value was seen. Whole microseconds repeat, so a
// million answers of a hundred gaps stay small.
type counts map[int64]int64

// sample is sorted values with their number, ready for numpy's statistics.
type sample struct {
	values []float64 // ascending
	upTo   []int64   // how many values are at or below values[i]
}

func (c counts) sample() sample {
	var s sample
	var n int64
	for _, v := range slices.Sorted(maps.Keys(c)) {
		n += c[v]
		s.values, s.upTo = append(s.values, float64(v)), append(s.upTo, n)
	}
	return s
}

func sampleOf(values []float64) sample {
	s := sample{values: slices.Sorted(slices.Values(values)), upTo: make([]int64, len(values))}
	for i := range s.upTo {
		s.upTo[i] = int64(i + 1)
	}
	return s
}

func (s sample) n() int64 {
	if len(s.upTo) == 0 {
		return 0
	}
	return s.upTo[len(s.upTo)-1]
}

func (s sample) count(i int) float64 {
	if i == 0 {
		return float64(s.upTo[0])
	}
	return float64(s.upTo[i] - s.upTo[i-1])
}

// mean of nothing is 0, as in vLLM.
func (s sample) mean() float64 {
	if s.n() == 0 {
		return 0
	}
	var sum float64
	for i, v := range s.values {
		sum += v * s.count(i)
	}
	return sum / float64(s.n())
}

// deviation is the population's: the sum of squares is divided by n.
func (s sample) deviation() float64 {
	if s.n() == 0 {
		return 0
	}
	mean, sum := s.mean(), 0.0
	for i, v := range s.values {
		sum += (v - mean) * (v - mean) * s.count(i)
	}
	return math.Sqrt(sum / float64(s.n()))
}

// percentile interpolates between the two nearest ranks, as numpy does.
func (s sample) percentile(p float64) float64 {
	if s.n() == 0 {
		return 0
	}
	h := float64(s.n()-1) * p / 100
	low := math.Floor(h)
	a, b := s.rank(int64(low)), s.rank(min(s.n()-1, int64(low)+1))
	return a + (h-low)*(b-a)
}

// rank gives the value at place k of the sorted values, from 0.
func (s sample) rank(k int64) float64 {
	return s.values[sort.Search(len(s.upTo), func(i int) bool { return s.upTo[i] > k })]
}
