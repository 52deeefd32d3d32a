package load

import (
	"container/heap"
	"slices"
	"time"
)

// Arrival is one line of a trace.
type Arrival struct {
	N      int           // its place among the requests of the trace, from 0
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

// ReplayOptions is how a trace is sent. The zero value sends all of it.
type ReplayOptions struct {
	// Speed multiplies the trace's pace, think times included; zero is 1.
	Speed float64
	// Sent says how the request at this place of the trace was sent before; nil:
	// none was. The schedule then begins where the trace stopped, which is where
	// the last request went out that Sent knows of.
	Sent func(n int) Sent
}

// Sent is what became of a request of a trace in a run that was interrupted.
type Sent uint8

// What became of it.
const (
	SentNot   Sent = iota // it has not gone out
	SentAgain             // it went out and was interrupted: it is due at once
	SentDone              // it is over, however it ended
)

// Replay sends a trace again. Whatever became of a turn, the next turn of its
// conversation follows it. A turn whose predecessor was over before an
// interruption is due its think time after the start.
func Replay(trace []Arrival, o ReplayOptions) Schedule {
	if !(o.Speed > 0) {
		o.Speed = 1
	}
	if o.Sent == nil {
		o.Sent = func(int) Sent { return SentNot }
	}
	r := &replay{trace: trace, speed: o.Speed, following: map[int]int{}, turn: map[int]int{}}
	for i, a := range trace {
		if o.Sent(i) != SentNot {
			r.from = max(r.from, a.At)
		}
	}
	latest := map[string]int{} // what must end before the conversation's next turn
	begun := map[string]bool{}
	for i, a := range trace {
		if o.Sent(i) == SentDone {
			begun[a.Conversation] = true
			continue
		}
		at := r.at(a)
		if a.Conversation != "" {
			before, follows := latest[a.Conversation]
			latest[a.Conversation] = i
			if follows {
				r.following[before] = i
				continue
			}
			if begun[a.Conversation] && o.Sent(i) == SentNot {
				at = max(at, r.scaled(a.Think))
			}
		}
		r.due = append(r.due, due{at: at, item: i})
	}
	slices.SortStableFunc(r.due, due.compare)
	return r
}

type replay struct {
	trace     []Arrival
	speed     float64
	from      time.Duration // of the trace: where it goes on
	due       []due         // what does not wait for another, in order; taken from the front
	turns     dueHeap       // turns whose predecessor has ended
	following map[int]int   // item → the next turn of its conversation
	turn      map[int]int   // request under way → its item, where a turn follows
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

// at is when a line is due that waits for no other.
func (r *replay) at(a Arrival) time.Duration { return r.scaled(max(0, a.At-r.from)) }

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
		heap.Push(&r.turns, due{at: max(r.at(a), st.Freed+r.scaled(a.Think)), item: next})
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
