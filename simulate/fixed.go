package simulate

// fixed is LawFixed: a heap of sequences by the due time of their next token.
type fixed struct {
	ttft, itl int64
	chunk     int
	wear      wear
	heap      []*sequence
	g         *gauges
}

func newFixed(c Config, g *gauges) *fixed {
	return &fixed{ttft: int64(c.TTFT), itl: int64(c.ITL), chunk: c.TokensPerChunk, wear: c.Faults.wear(g), g: g}
}

func (f *fixed) admit(q *sequence) {
	q.due = q.arrived + f.ttft + q.extra
	q.pos = len(f.heap)
	f.heap = append(f.heap, q)
	f.up(q.pos)
	f.g.running.Add(1)
	q.reserve = q.input + q.output
	f.g.reserved.Add(int64(q.reserve))
}

func (f *fixed) drop(q *sequence) {
	if q.pos < 0 || q.pos >= len(f.heap) || f.heap[q.pos] != q {
		return
	}
	i, last := q.pos, len(f.heap)-1
	f.heap[i] = f.heap[last]
	f.heap[i].pos = i
	f.heap[last] = nil
	f.heap = f.heap[:last]
	if i < last {
		f.down(i)
		f.up(i)
	}
	q.pos = -1
	f.g.running.Add(-1)
	f.g.reserved.Add(-int64(q.reserve))
}

func (f *fixed) next() int64 {
	if len(f.heap) == 0 {
		return never
	}
	return f.heap[0].due
}

func (f *fixed) advance(now int64, give give) {
	for len(f.heap) > 0 && f.heap[0].due <= now {
		q := f.heap[0]
		if q.reply.over {
			f.drop(q)
			continue
		}
		n := min(f.chunk, q.left())
		if s := q.reply.speculative; s > 1 {
			n = min(1+draw(q, s), q.left())
		}
		due := q.due
		q.given += n
		if !give(q, n, due) || q.left() == 0 {
			f.drop(q)
			continue
		}
		q.due = f.after(q, n)
		f.down(0)
	}
}

// draw is how many tokens beyond the first a step of speculative decoding
// gave, below most. It depends on the answer and the place in it alone.
func draw(q *sequence, most int) int {
	x := uint64(q.reply.words+q.index*131+1)*0x9e3779b97f4a7c15 + uint64(q.given)*0xbf58476d1ce4e5b9
	x ^= x >> 29
	x *= 0x94d049bb133111eb
	return int((x >> 33) % uint64(most))
}

// after is the due time of the token after the n that were due now. It is
// computed from the schedule, never from the clock, so lateness does not add up.
func (f *fixed) after(q *sequence, n int) int64 {
	if f.wear.none() {
		return q.arrived + f.ttft + q.extra + int64(q.given)*f.itl
	}
	return q.due + int64(f.wear.stretch(float64(f.itl), q.due)*float64(n))
}

// The heap has four children a node: half the depth of a binary one, and the
// four lie beside each other.

func (f *fixed) up(i int) {
	h := f.heap
	q := h[i]
	for i > 0 {
		p := (i - 1) / 4
		if h[p].due <= q.due {
			break
		}
		h[i] = h[p]
		h[i].pos = i
		i = p
	}
	h[i] = q
	q.pos = i
}

func (f *fixed) down(i int) {
	h := f.heap
	q := h[i]
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(h)); c++ {
			if h[c].due < h[least].due {
				least = c
			}
		}
		if h[least].due >= q.due {
			break
		}
		h[i] = h[least]
		h[i].pos = i
		i = least
	}
	h[i] = q
	q.pos = i
}

var _ law = (*fixed)(nil)
