package summary

const (
	slotsMost  = 1024       // windows of a run, and points of a series
	slotLeast  = int64(1e9) // ns: the width that windows start with
	latestTime = int64(1) << 62
)

// sane reports whether a time can be one of a run, so that differences between
// such times do not overflow.
func sane(t int64) bool { return t > 0 && t < latestTime }

// slots are equal windows of time that are filled in any order. When they would
// be more than most (0: slotsMost), neighbours are merged in pairs, so that
// memory does not grow with the length of a run. Edges are whole widths from the
// anchor and stay so.
type slots[T any] struct {
	anchor, width int64
	most          int64
	first         int64 // number of cells[0], counted from the anchor
	cells         []T
	merge         func(into, from *T)
}

// edge is the end of the slot that a time is in.
func (s *slots[T]) edge(t int64) int64 {
	return s.anchor + (floorDiv(t-s.anchor, s.width)+1)*s.width
}

// within are the slots that lie wholly in a period: the number of the first,
// counted from the anchor, and how many there are.
func (s *slots[T]) within(p span) (first int64, n int) {
	first = floorDiv(p.from-s.anchor+s.width-1, s.width)
	return first, int(max(0, floorDiv(p.to-s.anchor, s.width)-first))
}

// at gives the cell of a time; the pointer is good until the next call.
func (s *slots[T]) at(t int64) *T {
	k := floorDiv(t-s.anchor, s.width)
	if i := k - s.first; i >= 0 && i < int64(len(s.cells)) {
		return &s.cells[i]
	}
	if len(s.cells) == 0 {
		s.first, s.cells = k, make([]T, 1, 16)
		return &s.cells[0]
	}
	most := s.most
	if most == 0 {
		most = slotsMost
	}
	for max(k, s.first+int64(len(s.cells))-1)-min(k, s.first) >= most {
		s.double()
		k = floorDiv(k, 2)
	}
	if k < s.first {
		more := make([]T, s.first-k, s.first-k+int64(len(s.cells)))
		s.cells = append(more, s.cells...)
		s.first = k
	}
	for k >= s.first+int64(len(s.cells)) {
		var zero T
		s.cells = append(s.cells, zero)
	}
	return &s.cells[k-s.first]
}

// double merges neighbours.
func (s *slots[T]) double() {
	first := floorDiv(s.first, 2)
	n := 0
	for i := range s.cells {
		to := int(floorDiv(s.first+int64(i), 2) - first)
		if to == n { // the first of its pair
			s.cells[n] = s.cells[i]
			n++
		} else {
			s.merge(&s.cells[to], &s.cells[i])
		}
	}
	clear(s.cells[n:])
	s.first, s.cells, s.width = first, s.cells[:n], s.width*2
}

// widen merges until windows are as wide as those of another with this anchor.
func (s *slots[T]) widen(width int64) {
	for s.width < width {
		s.double()
	}
}

// get gives the cell number k from the anchor; nil when nothing fell there.
func (s *slots[T]) get(k int64) *T {
	if i := k - s.first; i >= 0 && i < int64(len(s.cells)) {
		return &s.cells[i]
	}
	return nil
}

// floorDiv rounds down, also below zero.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// average is the mean of the readings of a slot.
type average struct {
	sum float64
	n   int
}

func mergeAverage(into, from *average) { into.sum += from.sum; into.n += from.n }
func mergeSum(into, from *float64)     { *into += *from }

// span is a period of time, [from,to).
type span struct{ from, to int64 }

func (s span) in(t int64) bool { return t >= s.from && t < s.to }

// spans are periods that do not overlap, in order.
type spans []span

// overlap is how much of [from,to) lies in them, in ns.
func (s spans) overlap(from, to int64) (ns int64) {
	for _, p := range s {
		if p.from >= to {
			break
		}
		if p.to > from {
			ns += min(to, p.to) - max(from, p.from)
		}
	}
	return ns
}

func (s spans) in(t int64) bool {
	for _, p := range s {
		if p.in(t) {
			return true
		}
	}
	return false
}

// union adds a period, keeping order and joining what touches.
func (s spans) union(p span) spans {
	if p.to <= p.from {
		return s
	}
	out := make(spans, 0, len(s)+1)
	for i, q := range s {
		switch {
		case q.to < p.from:
			out = append(out, q)
		case q.from > p.to:
			return append(append(out, p), s[i:]...)
		default:
			p = span{min(p.from, q.from), max(p.to, q.to)}
		}
	}
	return append(out, p)
}
