package load

import (
	"container/heap"
	"slices"
	"time"
)

// Arrival is one line of a trace.
type Arrival struct {
	At     time.Duration // since the trace began
	Input  int           // tokens
	Output int           // tokens
	// Conversation names the conversation that the request is a turn of; empty
	// for a request on its own. A turn goes out Think after the turn before it
	// ended, and not before At.
	Conversation string
	Think        time.Duration
	// Blocks name the blocks of the prompt, first to last; requests that begin
	// with the same blocks share that prefix. Only Mooncake's traces have them.
	Blocks []int64
}

// Replay sends a trace again. speed multiplies its pace, think times included;
// zero is 1. Whatever became of a turn, the next turn of its conversation
// follows it.
func Replay(trace []Arrival, speed float64) Schedule {
	if !(speed > 0) {
		speed = 1
	}
	r := &replay{trace: trace, speed: speed, following: map[int]int{}, turn: map[int]int{}}
	latest := map[string]int{}
	for i, a := range trace {
		if a.Conversation != "" {
			before, follows := latest[a.Conversation]
			latest[a.Conversation] = i
			if follows {
				r.following[before] = i
				continue
			}
		}
		r.due = append(r.due, due{at: r.scaled(a.At), item: i})
	}
	slices.SortStableFunc(r.due, due.compare)
	return r
}

type replay struct {
	trace     []Arrival
	speed     float64
	due       []due       // what does not wait for another, in order; taken from the front
	turns     dueHeap     // turns whose predecessor has ended
	following map[int]int // item → the next turn of its conversation
	turn      map[int]int // request under way → its item, where a turn follows
	issued    int
	offered   due
	isTurn    bool
}

type due struct {
	at   time.Duration
	item int
}

func (d due) compare(e due) int {
	if d.at != e.at {
		if d.at < e.at {
			return -1
		}
		return 1
	}
	return d.item - e.item
}

func (r *replay) scaled(d time.Duration) time.Duration {
	if r.speed == 1 {
		return d
	}
	return seconds(d.Seconds() / r.speed)
}

func (r *replay) Next(st State) Step {
	if st.Issued > r.issued {
		if r.isTurn {
			heap.Pop(&r.turns)
		} else {
			r.due = r.due[1:]
		}
		if _, follows := r.following[r.offered.item]; follows {
			r.turn[r.issued] = r.offered.item
		}
		r.issued = st.Issued
	}
	if item, follows := r.turn[st.Ended]; follows {
		delete(r.turn, st.Ended)
		next := r.following[item]
		a := r.trace[next]
		heap.Push(&r.turns, due{at: max(r.scaled(a.At), st.Freed+r.scaled(a.Think)), item: next})
	}
	switch {
	case len(r.due) > 0 && (len(r.turns) == 0 || r.due[0].compare(r.turns[0]) < 0):
		r.offered, r.isTurn = r.due[0], false
	case len(r.turns) > 0:
		r.offered, r.isTurn = r.turns[0], true
	case len(r.turn) > 0:
		return Step{Wait: true}
	default:
		return Step{Stop: true}
	}
	return Step{At: r.offered.at, Arrival: &r.trace[r.offered.item]}
}

type dueHeap []due

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].compare(h[j]) < 0 }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(due)) }
func (h *dueHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
