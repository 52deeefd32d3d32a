package control

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/assay-bench/assay"
)

// History is what happened to one node. Start is its state before the first
// event; the zero Node if the first is that it was enrolled.
type History struct {
	ID     string
	Start  Node
	Events []Event
}

// Tried is what one policy made of a history.
type Tried struct {
	// Transitions are in the order of time, of all nodes.
	Transitions []NodeTransition
	Counts      map[Admission]int // at the end
	Trips       int               // of the breaker
	Pages       int
	Tickets     int
}

// NodeTransition is a transition of a node.
type NodeTransition struct {
	ID string
	Transition
}

// Difference is a node on which two policies decide differently.
type Difference struct {
	ID       string
	Old, New []Transition // of admission
	// OldEnd and NewEnd are what it would be at the end.
	OldEnd, NewEnd Admission
}

// Trial is two policies over the same history.
type Trial struct {
	Nodes, Events, Reports int
	From, To               time.Time
	Old, New               Tried
	Differences            []Difference // by id
	// Cut is whether the times of the history are so far apart that not all that would
	// have been due was done: then nothing can be said about the policies.
	Cut bool
}

// Bounds of the ticks of one replay: no history that a server keeps needs as many.
const (
	maxTicks     = 100_000
	maxNodeTicks = 500
)

// DryRun says what two valid policies decide over a history. Events are merged by time,
// since the breaker is one. What another policy would have asked for was never
// measured: the next recorded report that began later stands for it, and no
// verification times out.
func DryRun(old, next Policy, history []History) Trial {
	out := Trial{Nodes: len(history)}
	for _, h := range history {
		out.Events += len(h.Events)
		for _, e := range h.Events {
			if e.Kind == EventReport {
				out.Reports++
			}
			if out.From.IsZero() || e.At.Before(out.From) {
				out.From = e.At
			}
			out.To = latest(out.To, e.At)
		}
	}
	var a, b map[string]Node
	var cut [2]bool
	out.Old, a, cut[0] = replay(old, history, out.To)
	out.New, b, cut[1] = replay(next, history, out.To)
	out.Cut = cut[0] || cut[1]
	before, after := byNode(out.Old), byNode(out.New)
	for _, h := range history {
		d := Difference{ID: h.ID, Old: before[h.ID], New: after[h.ID], OldEnd: a[h.ID].Admission, NewEnd: b[h.ID].Admission}
		if d.OldEnd != d.NewEnd || !slices.EqualFunc(d.Old, d.New, sameMove) {
			out.Differences = append(out.Differences, d)
		}
	}
	slices.SortFunc(out.Differences, func(x, y Difference) int { return cmp.Compare(x.ID, y.ID) })
	return out
}

func sameMove(a, b Transition) bool { return a.To == b.To && a.At.Equal(b.At) }

func byNode(t Tried) map[string][]Transition {
	out := map[string][]Transition{}
	for _, tr := range t.Transitions {
		if tr.Fact == FactAdmission {
			out[tr.ID] = append(out[tr.ID], tr.Transition)
		}
	}
	return out
}

// never is later than any history: what is put off until then does not happen.
const never = 100 * 365 * 24 * time.Hour

// replay runs a history through a policy, with the ticks that it needs.
func replay(p Policy, history []History, end time.Time) (_ Tried, _ map[string]Node, cut bool) {
	// What is asked for here is not measured any more.
	p.Verification.Timeout = assay.Duration(never)
	r := replaying{p: p, nodes: map[string]Node{}, out: Tried{Counts: map[Admission]int{}}, left: maxTicks + maxNodeTicks*len(history)}
	type at struct {
		id    string
		event Event
	}
	var events []at
	for _, h := range history {
		r.set(h.ID, h.Start, time.Time{})
		members, gone := counted(h.Start)
		r.b.Members, r.b.Out = r.b.Members+members, r.b.Out+gone
		for _, e := range h.Events {
			if e.Kind.timer() { // the policy under trial makes its own
				continue
			}
			if e.Report != nil && e.Report.Answers != "" {
				m := *e.Report
				m.Answers = "" // verifications have other ids here
				e.Report = &m
			}
			events = append(events, at{h.ID, e})
		}
	}
	slices.SortStableFunc(events, func(x, y at) int { return x.event.At.Compare(y.event.At) })
	for _, e := range events {
		r.ticks(e.event.At)
		r.step(e.id, e.event, e.event.At)
		if due := Due(p, r.nodes[e.id]); !due.IsZero() && !due.After(e.event.At) {
			r.step(e.id, tickAt(e.event.At), e.event.At)
		}
	}
	r.ticks(end)
	for _, n := range r.nodes {
		r.out.Counts[n.Admission]++
	}
	return r.out, r.nodes, r.left <= 0
}

// replaying is a network under a policy on trial.
type replaying struct {
	p     Policy
	nodes map[string]Node
	b     Breaker
	next  ticking
	left  int // ticks
	out   Tried
}

// set stores a node, and when it needs its next tick, which is after a time.
func (r *replaying) set(id string, n Node, after time.Time) {
	r.nodes[id] = n
	if at := Due(r.p, n); at.After(after) {
		heap.Push(&r.next, tickOf{at, id})
	}
}

// ticks does what is due before a time.
func (r *replaying) ticks(until time.Time) {
	for len(r.next) > 0 && r.next[0].at.Before(until) && r.left > 0 {
		r.left--
		t := heap.Pop(&r.next).(tickOf)
		if Due(r.p, r.nodes[t.id]).Equal(t.at) { // else it was put off
			r.step(t.id, tickAt(t.at), t.at)
		}
	}
}

func (r *replaying) step(id string, e Event, now time.Time) {
	was := r.b.Tripped
	out := Step(r.p, r.nodes[id], r.b, e, now)
	r.b = out.Breaker
	r.set(id, out.Node, now)
	if r.b.Tripped && !was {
		r.out.Trips++
	}
	for _, t := range out.Transitions {
		r.out.Transitions = append(r.out.Transitions, NodeTransition{id, t})
	}
	for _, n := range out.Notices {
		switch {
		case n.Resolved:
		case n.Kind == NoticePage:
			r.out.Pages++
		case n.Kind == NoticeTicket:
			r.out.Tickets++
		}
	}
}

func tickAt(at time.Time) Event {
	return Event{Kind: EventTick, At: at, Actor: Actor{Kind: ActorServer}}
}

// tickOf is a tick to come; ticking has the next one first.
type tickOf struct {
	at time.Time
	id string
}

type ticking []tickOf

func (t ticking) Len() int { return len(t) }
func (t ticking) Less(i, j int) bool {
	return cmp.Or(t[i].at.Compare(t[j].at), cmp.Compare(t[i].id, t[j].id)) < 0
}
func (t ticking) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

// Push is for container/heap.
func (t *ticking) Push(x any) { *t = append(*t, x.(tickOf)) }

// Pop is for container/heap.
func (t *ticking) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}
