package summary

import (
	"fmt"
	"math"
	"time"

	"github.com/assay-bench/assay"
)

const (
	// openFills is how many times the filling of an open stage its load must
	// last, and closedFills that of a closed one: with less, what is left of the
	// filling at the window's beginning shows in its rate.
	openFills, closedFills = 4, 2
	// censoredMost is the share of requests that may be cancelled by the end of
	// the grace: their missing tokens are missing in the window too.
	censoredMost = 0.05
)

// loading gathers what says when a stage's load was steady. Times before begun
// belong to an earlier part of a stage that was taken up again, and have no
// place in a window.
type loading struct {
	begun   int64
	loadEnd int64

	first, firstJudged int64 // sends
	sent, judged       int   // requests of the part that the window is of
	streams            []int64
	early              topmost // the first tokens of the first sends, where streams are not told apart
	ends               topmost
	delays             buckets // of tokens after their request's first, in µs
	line               *timeline
}

// add takes a request whose times are in order.
func (l *loading) add(r *assay.Request, plan assay.Stage, good bool) {
	if r.Sent < l.begun {
		return
	}
	if l.line == nil {
		anchor := l.begun
		if !sane(anchor) {
			anchor = r.Sent
		}
		l.line = newTimeline(anchor)
	}
	l.line.add(r, good)
	l.sent++
	l.first = earliest(l.first, r.Sent)
	if !r.Warmup {
		l.judged++
		l.firstJudged = earliest(l.firstJudged, r.Sent)
	}
	switch {
	case plan.Kind == assay.LoadClosed:
		l.stream(r, plan.Concurrency)
		l.ends.add(plan.Concurrency, endOf(r), 0)
	case !r.Warmup && r.First != 0:
		l.delay(r)
	}
}

// stream keeps the first token of each stream.
func (l *loading) stream(r *assay.Request, n int) {
	if r.First == 0 {
		return
	}
	if r.Stream < 1 || r.Stream > min(n, streamsMost) {
		// Before 0.2 streams had no number. The first n requests are then taken
		// for theirs, which a stream that was done before the last one started
		// makes a little early.
		l.early.add(n, -r.Sent, r.First)
		return
	}
	for len(l.streams) < r.Stream {
		l.streams = append(l.streams, 0)
	}
	l.streams[r.Stream-1] = earliest(l.streams[r.Stream-1], r.First)
}

// streamsMost bounds what a number in a line can make us keep.
const streamsMost = 1 << 20

// delay counts how long after the first each token came.
func (l *loading) delay(r *assay.Request) {
	counted := chunkSum(r) > 0
	us := int64(0)
	for i := 0; ; i++ {
		n := int32(1)
		if counted {
			n = r.ChunkTokens[i]
		}
		l.delays.addN(us, uint32(n))
		if i == len(r.Gaps) {
			return
		}
		gap, _ := assay.Gap(r.Gaps[i])
		us += int64(gap)
	}
}

// window is the steady window, or why there is none.
func (c *Collector) window() (span, string) {
	l := &c.loading
	switch {
	case c.plan.Kind == assay.LoadRamp:
		return span{}, "a ramp is never steady: its rates are those of each slice of time"
	case c.plan.Kind == assay.LoadOpen && allAtOnce(c.plan):
		return span{}, "all requests were sent at once: the load only falls"
	case l.judged == 0:
		return span{}, "no judged request was sent"
	case c.ok == 0:
		return span{}, "no request succeeded"
	case float64(c.errors[assay.FailCensored]) >= censoredMost*float64(c.requests):
		return span{}, fmt.Sprintf("%d of %d requests were cancelled when the grace ended: give a longer --grace", c.errors[assay.FailCensored], c.requests)
	}
	switch c.plan.Kind {
	case assay.LoadClosed:
		return c.closedWindow()
	case assay.LoadBatch:
		return c.batchWindow()
	case assay.LoadOpen, assay.LoadReplay:
		return c.openWindow()
	}
	return span{}, "nothing says what its load was"
}

// allAtOnce reports whether an open load has no rate, and no cap that spreads it.
func allAtOnce(p assay.Stage) bool {
	return !(p.Rate > 0) && (p.Concurrency <= 0 || p.Requests > 0 && p.Requests <= p.Concurrency)
}

// openWindow begins when the stage has filled: nearly all tokens of the first
// requests have come, so that as many requests are under way as will be.
func (c *Collector) openWindow() (span, string) {
	l := &c.loading
	fill := int64(c.ttft.counts.Quantile(5)*1e3) + int64(l.delays.quantile(95)*1e3)
	w := span{l.firstJudged + fill, c.loadEnd()}
	if need := openFills * fill; w.to-l.firstJudged < need {
		return span{}, c.tooShort(fill, w.to-l.firstJudged, need)
	}
	return w, ""
}

// closedWindow begins when each stream has had a token, and no judged request
// was sent before. It ends when the streams become fewer: when the duration is
// over, or when the first request ends that no other one follows.
func (c *Collector) closedWindow() (span, string) {
	l, n := &c.loading, c.plan.Concurrency
	from, live := l.filled(n)
	if live < n {
		return span{}, fmt.Sprintf("%d of %d streams had a token", live, n)
	}
	w := span{max(from, l.firstJudged), c.loadEnd()}
	byCount := c.plan.DurationNS == 0 || c.plan.Requests > 0 && c.requests >= c.plan.Requests
	if byCount && sane(l.loadEnd) {
		w.to = l.ends.least()
	}
	// Of lengths with a long tail the median is short against what lies in the
	// window, and the phase in which it begins shows.
	fill, e2e := w.from-l.first, int64(max(c.e2e.counts.Quantile(50), c.e2e.counts.Mean())*1e3)
	if need := max(closedFills*fill, fill+e2e); w.to-l.first < need || w.to <= w.from {
		return span{}, c.tooShort(fill, w.to-l.first, need)
	}
	return w, ""
}

// loadEnd is when no more requests were sent. Of a stage that was interrupted,
// whose requests under way are not on record, it is the time before which no
// such request can have sent anything: the longest request before the last mark.
func (c *Collector) loadEnd() int64 {
	if sane(c.loading.loadEnd) {
		return c.loading.loadEnd
	}
	return c.latest - int64(c.e2e.counts.Quantile(100)*1e3)
}

// filled is when all of n streams had a token, and how many had one.
func (l *loading) filled(n int) (at int64, live int) {
	firsts := l.streams
	if len(firsts) == 0 {
		firsts = l.early.values
	}
	for _, t := range firsts {
		if t != 0 {
			at, live = max(at, t), live+1
		}
	}
	return at, min(live, n)
}

// batchWindow is all of the time from the first batch to the last one's end:
// a batch begins and drains by design, and the next one does the same, so that
// whole batches are what repeats.
func (c *Collector) batchWindow() (span, string) {
	if l := &c.loading; l.judged >= 2*c.plan.Batch && c.lastToken > l.firstJudged {
		return span{l.firstJudged, c.lastToken}, ""
	}
	return span{}, "fewer than two batches were sent"
}

// tooShort says how long the load would have had to last.
func (c *Collector) tooShort(fill, had, need int64) string {
	why := fmt.Sprintf("it took %s until the load was steady, and the load lasted %s", spell(fill), spell(max(0, had)))
	if c.plan.DurationNS > 0 {
		return why + fmt.Sprintf(": give --duration %s or more", spell(int64(math.Ceil(float64(need)/0.95e9))*1e9))
	}
	if had > 0 {
		requests := float64(c.loading.sent) * float64(need) / float64(had)
		if c.plan.Kind == assay.LoadClosed {
			requests += float64(c.plan.Concurrency)
		}
		return why + fmt.Sprintf(": give about %.0f requests or more", math.Ceil(requests/0.95))
	}
	return why
}

func spell(ns int64) string {
	d := time.Duration(ns)
	if d >= 10*time.Second {
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

func earliest(a, b int64) int64 {
	if a == 0 {
		return b
	}
	return min(a, b)
}
