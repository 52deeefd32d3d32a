package simulate

import (
	"math/bits"
	"sync/atomic"
)

// stats are the counters behind /metrics. The pacer adds, anyone reads.
type stats struct {
	prompts, tokens                   atomic.Int64
	stopped, lengthed, aborted, error atomic.Int64
	ttft, itl, e2e, late              *histogram
}

func newStats() stats {
	return stats{ttft: new(histogram), itl: new(histogram), e2e: new(histogram), late: new(histogram)}
}

func (s *stats) finished(r *reply, reason string) {
	switch reason {
	case "length":
		s.lengthed.Add(1)
	case "abort":
		s.aborted.Add(1)
		return
	case "error":
		s.error.Add(1)
		return
	default:
		s.stopped.Add(1)
	}
	s.e2e.add(r.latest - r.read)
}

// histogram counts times in buckets of at most 1/16 relative width, from a
// nanosecond to years, without a lock or an allocation.
type histogram struct {
	buckets [64 * 16]atomic.Int64
	sum     atomic.Int64
	max     atomic.Int64
}

func slot(ns int64) int {
	if ns < 16 {
		return int(max(0, ns))
	}
	shift := bits.Len64(uint64(ns)) - 5
	return shift*16 + int(ns>>shift)
}

// upper is the smallest time beyond a slot.
func upper(slot int) int64 {
	if slot < 32 {
		return int64(slot) + 1
	}
	shift := slot/16 - 1
	return int64(slot-shift*16+1) << shift
}

func (h *histogram) add(ns int64) {
	h.buckets[slot(ns)].Add(1)
	h.sum.Add(ns)
	for m := h.max.Load(); ns > m && !h.max.CompareAndSwap(m, ns); m = h.max.Load() {
	}
}

func (h *histogram) count() int64 {
	var n int64
	for i := range h.buckets {
		n += h.buckets[i].Load()
	}
	return n
}

// atMost counts the times up to ns, to the width of a slot.
func (h *histogram) atMost(ns int64) int64 {
	var n int64
	for i := range h.buckets {
		if i > 0 && upper(i-1) > ns {
			break
		}
		n += h.buckets[i].Load()
	}
	return n
}

// quantile is the upper edge of the slot that holds the share p.
func (h *histogram) quantile(p float64) int64 {
	rank := int64(p * float64(h.count()))
	for i := range h.buckets {
		n := h.buckets[i].Load()
		if n > rank {
			return upper(i)
		}
		rank -= n
	}
	return h.max.Load()
}
