package load

// unit is one request before it exists: what the schedule said of it.
type unit struct {
	n         int
	scheduled int64
	eligible  int64 // zero: the cap has not let it go
	arrival   *Arrival
	warmup    bool
	stream    int // of a closed loop, from 1
}

// maxHeld bounds the queue of requests that the cap holds. When it is full the
// schedule is not asked; nothing is lost by that, since a schedule gives the
// same times whenever it is asked.
const maxHeld = 1 << 16

// queue is first in, first out.
type queue struct {
	ring []unit // its length is a power of two
	head int
	n    int
}

func (q *queue) full() bool { return q.n >= maxHeld }

func (q *queue) push(u unit) {
	if q.n == len(q.ring) {
		grown := make([]unit, max(64, 2*len(q.ring)))
		for i := range q.n {
			grown[i] = q.ring[(q.head+i)&(len(q.ring)-1)]
		}
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = u
	q.n++
}

func (q *queue) pop() unit {
	u := q.ring[q.head]
	q.ring[q.head] = unit{}
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return u
}
