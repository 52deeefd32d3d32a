package simulate

import (
	"math"
	"slices"
)

// loop is LawBatching: one engine that either prefills one sequence or takes
// a decode step, back to back. An iteration starts where the last one was due
// to end, not where the clock stood when that was noticed; only an idle engine
// starts at an arrival.
type loop struct {
	b        Batching
	wear     wear
	waiting  []*sequence // in order of arrival
	running  []*sequence // in order of admission
	reserved int
	g        *gauges

	busy   bool
	filled *sequence // being prefilled; nil in a decode step, or when it was dropped
	decode bool
	until  float64 // end of the iteration under way, or of the last one
}

func newLoop(c Config, g *gauges) *loop {
	return &loop{b: c.Batching, wear: c.Faults.wear(g), g: g}
}

func (l *loop) admit(q *sequence) {
	i := len(l.waiting)
	for i > 0 && l.waiting[i-1].arrived > q.arrived {
		i--
	}
	l.waiting = slices.Insert(l.waiting, i, q)
	l.publish()
}

func (l *loop) drop(q *sequence) {
	if i := slices.Index(l.waiting, q); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	} else if i := slices.Index(l.running, q); i >= 0 {
		l.running = slices.Delete(l.running, i, i+1)
		l.reserved -= q.reserve
	} else if l.filled == q {
		l.filled = nil // the engine still finishes what it began
		l.reserved -= q.reserve
	}
	l.publish()
}

func (l *loop) next() int64 {
	switch {
	case l.busy:
		return int64(l.until)
	case len(l.waiting) > 0:
		return l.waiting[0].arrived
	}
	return never
}

func (l *loop) advance(now int64, give give) {
	for {
		if !l.busy && !l.begin(now) {
			break
		}
		if int64(l.until) > now {
			break
		}
		l.end(give)
	}
	l.publish()
}

// begin starts the next iteration at the end of the last one, or at the next
// arrival if the engine is idle.
func (l *loop) begin(now int64) bool {
	t := l.until
	if len(l.running) == 0 {
		if len(l.waiting) == 0 || l.waiting[0].arrived > now {
			return false
		}
		t = math.Max(t, float64(l.waiting[0].arrived))
	}
	l.busy = true
	if len(l.waiting) > 0 && len(l.running) < l.b.Slots && float64(l.waiting[0].arrived) <= t {
		q := l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
		l.filled, l.decode = q, false
		q.reserve = q.input + q.output
		l.reserved += q.reserve
		if l.b.KVTokens > 0 && l.reserved > l.b.KVTokens {
			l.g.preempted.Add(1)
		}
		l.until = t + l.b.prefill(q.input-q.cached) + float64(q.extra)
		return true
	}
	l.decode = true
	s := l.b.step(float64(len(l.running)), float64(l.reserved))
	l.until = t + l.wear.stretch(s, int64(t))
	return true
}

// end gives the tokens of the iteration under way.
func (l *loop) end(give give) {
	l.busy = false
	due := int64(l.until)
	if !l.decode {
		if q := l.filled; q != nil {
			l.filled = nil
			l.running = append(l.running, q)
			l.step(len(l.running)-1, due, give)
		}
		return
	}
	l.step(0, due, give)
}

// step gives one token to each running sequence from the given place on, and
// keeps those that are not done.
func (l *loop) step(from int, due int64, give give) {
	kept := l.running[:from]
	for _, q := range l.running[from:] {
		if !q.reply.over {
			q.given++
			if give(q, 1, due) && q.left() > 0 {
				kept = append(kept, q)
				continue
			}
		}
		l.reserved -= q.reserve
	}
	clear(l.running[len(kept):])
	l.running = kept
}

func (l *loop) publish() {
	running := len(l.running)
	if l.filled != nil {
		running++
	}
	l.g.running.Store(int64(running))
	l.g.waiting.Store(int64(len(l.waiting)))
	l.g.reserved.Store(int64(l.reserved))
}

var _ law = (*loop)(nil)
