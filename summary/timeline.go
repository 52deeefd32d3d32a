package summary

import "github.com/assay-bench/assay"

const (
	// momentLeast is the width, in ns, that the cells of a timeline start with,
	// and momentsMost how many there are at most: an edge of the steady window
	// that falls into a cell is then off by less than a thousandth of the stage.
	momentLeast = int64(1e6)
	momentsMost = 4096
)

// timeline is what a stage did, in equal cells of time. The steady window is
// known when all requests are, and each is seen once; so whatever is counted in
// the window is counted in cells first, and those of the window are summed at
// the end.
type timeline struct{ slots[moment] }

// moment is one cell. Requests count in it by the share of their tokens that
// arrived within.
type moment struct {
	tally
	// flow is how many requests were sent less how many ended, and mark the sum
	// of these times, with the same signs, since the anchor. From both follows
	// the time that requests spent in flight, and they merge by addition.
	flow, mark float64
}

func mergeMoment(a, b *moment) {
	a.tally.merge(b.tally)
	a.flow += b.flow
	a.mark += b.mark
}

func newTimeline(anchor int64) *timeline {
	return &timeline{slots[moment]{anchor: anchor, width: momentLeast, most: momentsMost, merge: mergeMoment}}
}

// add takes a request whose times are in order.
func (t *timeline) add(r *assay.Request, good bool) {
	total := tokensOf(r)
	spread(r, t.edge, func(at int64, tokens float64) {
		m := t.at(at)
		m.tokens += tokens
		if r.OK() {
			m.ok += tokens / total
			if good {
				m.good += tokens / total
			}
		}
	})
	if total == 0 && r.OK() {
		m := t.at(endOf(r))
		m.ok++
		if good {
			m.good++
		}
	}
	if r.First != 0 {
		t.at(r.First).input += float64(tokenCount(r.InputTokens)) // the prompt was read when its first token came
	}
	if end := endOf(r); end > r.Sent {
		t.cross(r.Sent, 1)
		t.cross(end, -1)
	}
}

func (t *timeline) cross(at int64, sign float64) {
	m := t.at(at)
	m.flow += sign
	m.mark += sign * float64(at-t.anchor)
}

// sum is what happened in a period. A cell that lies across an edge counts by
// the share of it that lies within.
func (t *timeline) sum(p span) tally {
	var out tally
	inFlight := 0.0
	for i := range t.cells {
		m := &t.cells[i]
		from := t.anchor + (t.first+int64(i))*t.width
		to := from + t.width
		if a, b := max(from, p.from), min(to, p.to); a < b {
			share := float64(b-a) / float64(t.width)
			out.merge(m.tally.times(share))
			out.busy += inFlight*float64(b-a) + share*(m.flow*float64(to-t.anchor)-m.mark)
		}
		inFlight += m.flow
	}
	return out
}

// tally is what happened in a period of time, whoever it belongs to. Warm-ups
// and failures are work of the engine like any other, so their tokens count;
// only successes count as requests.
type tally struct {
	ok, good      float64
	tokens, input float64
	busy          float64 // ns of requests in flight, summed
}

func (t *tally) merge(o tally) {
	t.ok += o.ok
	t.good += o.good
	t.tokens += o.tokens
	t.input += o.input
	t.busy += o.busy
}

func (t tally) times(f float64) tally {
	return tally{t.ok * f, t.good * f, t.tokens * f, t.input * f, t.busy * f}
}

// whole takes all of a request.
func (t *tally) whole(r *assay.Request, good bool) {
	if r.OK() {
		t.ok++
		if good {
			t.good++
		}
	}
	t.tokens += tokensOf(r)
	if r.First != 0 {
		t.input += float64(tokenCount(r.InputTokens))
	}
	if end := endOf(r); r.Sent != 0 && plausible(end-r.Sent) {
		t.busy += float64(end - r.Sent)
	}
}

// endOf is when a request was over.
func endOf(r *assay.Request) int64 {
	if r.End == 0 {
		return r.Last
	}
	return r.End
}

// placed reports whether a request's times are in order, so that it has a place
// in time.
func placed(r *assay.Request) bool {
	if !sane(r.Sent) || !plausible(endOf(r)-r.Sent) {
		return false
	}
	return r.First == 0 || plausible(r.First-r.Sent) && plausible(lastArrival(r)-r.First)
}

// lastArrival is when the last token that is on record came; 0: none did.
func lastArrival(r *assay.Request) int64 {
	if r.Last != 0 || r.First == 0 {
		return r.Last
	}
	at := r.First
	for _, v := range r.Gaps {
		us, _ := assay.Gap(v)
		at += int64(us) * 1000
	}
	return at
}
