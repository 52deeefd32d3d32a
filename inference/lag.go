package inference

import (
	"math/bits"
	"sync/atomic"
)

// The histogram of the client's lag: whole microseconds, exact below 1024, then
// 32 buckets an octave, so that a value is known within 3 %. A bucket is told
// by its lowest value.
const (
	lagExact   = 1024
	lagOctaves = 26 // up to 2^36 µs, 19 hours
	lagBuckets = lagExact + lagOctaves*32
)

func lagBucket(us int64) int {
	switch {
	case us < 0:
		return 0
	case us < lagExact:
		return int(us)
	case us >= 1<<36:
		return lagBuckets - 1
	}
	top := bits.Len64(uint64(us)) - 1 // 10…35
	return lagExact + (top-10)*32 + int(us>>(top-5))&31
}

func lagValue(bucket int) int64 {
	if bucket < lagExact {
		return int64(bucket)
	}
	bucket -= lagExact
	return int64(32|bucket&31) << (bucket/32 + 5)
}

// lag counts without locks. Shards keep the cores from sharing cache lines;
// which one a request uses does not matter.
type lag struct{ shards []*[lagBuckets]atomic.Int64 }

func newLag(n int) lag {
	l := lag{shards: make([]*[lagBuckets]atomic.Int64, n)}
	for i := range l.shards {
		l.shards[i] = new([lagBuckets]atomic.Int64)
	}
	return l
}

// take appends value, count pairs of all that was counted since the last call.
func (l lag) take(dst []int64) []int64 {
	for b := range lagBuckets {
		var n int64
		for _, s := range l.shards {
			if s[b].Load() != 0 {
				n += s[b].Swap(0)
			}
		}
		if n != 0 {
			dst = append(dst, lagValue(b), n)
		}
	}
	return dst
}
