package summary

import (
	"math"
	"math/bits"

	"github.com/assay-bench/assay/stat"
)

// buckets is a histogram: below 128 each value has its own bucket, above each
// octave is cut into 128, so that a bucket's middle is within 0.4 % of what was
// seen. It is for replicates, whose own spread is wider, and for the edge of a
// steady window; percentiles that are printed come from [stat.Counts].
type buckets struct {
	pages []*[64]uint32
}

func bucketOf(v int64) int {
	if v < 128 {
		return int(max(0, v))
	}
	e := bits.Len64(uint64(v)) - 8
	return e<<7 + int(v>>e)
}

// bucketMiddle is the value that a bucket stands for.
func bucketMiddle(i int) float64 {
	if i < 256 {
		return float64(i)
	}
	e := i>>7 - 1
	return (float64(i&127|128) + 0.5) * float64(int64(1)<<e)
}

func (b *buckets) add(v int64) { *b.slot(bucketOf(v))++ }

// addN takes the same value n times; a bucket that is full stays so.
func (b *buckets) addN(v int64, n uint32) {
	s := b.slot(bucketOf(v))
	*s += min(n, math.MaxUint32-*s)
}

// quantile is a percentile by nearest rank; 0 without samples.
func (b *buckets) quantile(level float64) float64 {
	total := int64(0)
	for _, page := range b.pages {
		if page != nil {
			for _, n := range page {
				total += int64(n)
			}
		}
	}
	rank := stat.Rank(total, level)
	for p, page := range b.pages {
		if page == nil {
			continue
		}
		for k, n := range page {
			if rank -= int64(n); rank <= 0 && n > 0 {
				return bucketMiddle(p<<6 + k)
			}
		}
	}
	return 0
}

func (b *buckets) slot(i int) *uint32 {
	p := i >> 6
	if p >= len(b.pages) {
		b.pages = append(b.pages, make([]*[64]uint32, p+1-len(b.pages))...)
	}
	if b.pages[p] == nil {
		b.pages[p] = new([64]uint32)
	}
	return &b.pages[p][i&63]
}

func (b *buckets) merge(o *buckets) {
	for p, page := range o.pages {
		if page == nil {
			continue
		}
		for k, n := range page {
			if n > 0 {
				*b.slot(p<<6 + k) += n
			}
		}
	}
}

// tallied is one bucket that is not empty.
type tallied struct{ bucket, n int32 }

func (b *buckets) list() []tallied {
	var out []tallied
	for p, page := range b.pages {
		if page == nil {
			continue
		}
		for k, n := range page {
			if n > 0 {
				out = append(out, tallied{int32(p<<6 + k), int32(min(n, 1<<30))})
			}
		}
	}
	return out
}
