package stat

import (
	"iter"
	"math"
	"slices"
)

// Counts is an exact histogram of whole numbers, such as microseconds: how
// often each value was seen. Its percentiles are those of the raw samples.
//
// Small values, where gaps between tokens lie, are counted in pages of an
// array; larger ones are gathered and merged into a sorted list. Memory grows
// with the number of distinct values, not with the number of samples. The zero
// Counts is empty.
type Counts struct {
	n     int64
	pages [][]int64 // pages[v>>pageBits][v&pageMask]
	high  []Count   // sorted by Value, each value once
	fresh []int64   // not yet in high
}

// Count is one value and how often it was seen.
type Count struct{ Value, N int64 }

const (
	pageBits  = 8
	pageMask  = 1<<pageBits - 1
	lowValues = 1 << 17
	maxFresh  = 1 << 16
)

// Add takes one sample. A negative value counts as zero: what is counted here
// has none, and a caller that wants to know looks before.
func (c *Counts) Add(v int64) { c.AddN(v, 1) }

// AddN takes the same sample n times.
func (c *Counts) AddN(v, n int64) {
	if n <= 0 {
		return
	}
	v = max(0, v)
	c.n += n
	if v < lowValues {
		page := int(v >> pageBits)
		if page >= len(c.pages) {
			c.pages = append(c.pages, make([][]int64, page+1-len(c.pages))...)
		}
		if c.pages[page] == nil {
			c.pages[page] = make([]int64, 1<<pageBits)
		}
		c.pages[page][v&pageMask] += n
		return
	}
	if n > 1 {
		c.settle()
		c.mergeHigh([]Count{{v, n}})
		return
	}
	c.fresh = append(c.fresh, v)
	// Merging costs the length of the list, so the list's length sets how
	// often: each sample is then moved a bounded number of times.
	if len(c.fresh) >= min(maxFresh, max(1<<10, len(c.high)/4)) {
		c.settle()
	}
}

// settle moves the fresh samples into the sorted list.
func (c *Counts) settle() {
	if len(c.fresh) == 0 {
		return
	}
	slices.Sort(c.fresh)
	add := make([]Count, 0, len(c.fresh))
	for _, v := range c.fresh {
		if k := len(add); k > 0 && add[k-1].Value == v {
			add[k-1].N++
		} else {
			add = append(add, Count{v, 1})
		}
	}
	c.fresh = c.fresh[:0]
	c.mergeHigh(add)
}

func (c *Counts) mergeHigh(add []Count) {
	out := make([]Count, 0, len(c.high)+len(add))
	i, j := 0, 0
	for i < len(c.high) && j < len(add) {
		switch a, b := c.high[i], add[j]; {
		case a.Value < b.Value:
			out, i = append(out, a), i+1
		case a.Value > b.Value:
			out, j = append(out, b), j+1
		default:
			out = append(out, Count{a.Value, a.N + b.N})
			i, j = i+1, j+1
		}
	}
	out = append(append(out, c.high[i:]...), add[j:]...)
	c.high = out
}

// Merge takes the samples of another, which it leaves as it is in meaning.
func (c *Counts) Merge(o *Counts) {
	o.settle()
	c.settle()
	for p, page := range o.pages {
		for k, n := range page {
			if n > 0 {
				c.AddN(int64(p)<<pageBits+int64(k), n)
			}
		}
	}
	if len(o.high) > 0 {
		for _, e := range o.high {
			c.n += e.N
		}
		c.mergeHigh(o.high)
	}
}

// N is the number of samples.
func (c *Counts) N() int64 { return c.n }

// All gives the distinct values in rising order.
func (c *Counts) All() iter.Seq[Count] {
	return func(yield func(Count) bool) {
		c.settle()
		for p, page := range c.pages {
			for k, n := range page {
				if n > 0 && !yield(Count{int64(p)<<pageBits + int64(k), n}) {
					return
				}
			}
		}
		for _, e := range c.high {
			if !yield(e) {
				return
			}
		}
	}
}

// AtRanks gives the values at the given ranks (from 1), which must rise. A rank
// outside 1…N gives -1.
func (c *Counts) AtRanks(ranks ...int64) []int64 {
	out := make([]int64, len(ranks))
	for i := range out {
		out[i] = -1
	}
	i, below := 0, int64(0)
	for i < len(ranks) && ranks[i] < 1 {
		i++
	}
	if i == len(ranks) {
		return out
	}
	for e := range c.All() {
		below += e.N
		for i < len(ranks) && ranks[i] <= below {
			out[i] = e.Value
			i++
		}
		if i == len(ranks) {
			break
		}
	}
	return out
}

// Quantile is the level-th percentile by nearest rank; NaN without samples.
func (c *Counts) Quantile(level float64) float64 {
	if c.n == 0 {
		return math.NaN()
	}
	return float64(c.AtRanks(Rank(c.n, level))[0])
}

// Moments are mean and spread of all samples.
func (c *Counts) Moments() Moments {
	var m Moments
	for e := range c.All() {
		m.AddN(float64(e.Value), e.N)
	}
	return m
}

// Mean is NaN without samples.
func (c *Counts) Mean() float64 { m := c.Moments(); return m.Mean() }

// Stddev is the sample's standard deviation (n−1); NaN with fewer than two.
func (c *Counts) Stddev() float64 { m := c.Moments(); return m.Stddev() }
