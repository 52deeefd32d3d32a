package summary

import (
	"math"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// chunksOf is the number of token chunks of a request.
func chunksOf(r *assay.Request) int64 {
	if r.First == 0 {
		return 0
	}
	return int64(len(r.Gaps)) + 1
}

// tokensOf is the number of output tokens that arrived: the count of the
// request, or its chunks where it was broken off before anybody counted.
func tokensOf(r *assay.Request) float64 {
	if r.First == 0 {
		return 0
	}
	if r.OutputTokens > 0 {
		return float64(tokenCount(r.OutputTokens))
	}
	return float64(chunksOf(r))
}

// tokenCount bounds a count that an engine claimed, so that sums of absurd ones
// do not overflow.
func tokenCount(n int) int64 { return int64(min(max(0, n), 1<<31)) }

// tokensIn is how many of a request's tokens arrived in [from,to). Each chunk
// has the tokens that the engine said, or an equal share.
func tokensIn(r *assay.Request, from, to int64) float64 {
	total := tokensOf(r)
	if total == 0 || r.First >= to || r.Last != 0 && r.Last < from {
		return 0
	}
	if r.First >= from && r.Last != 0 && r.Last < to {
		return total
	}
	each := total / float64(chunksOf(r))
	var said float64
	if len(r.ChunkTokens) == len(r.Gaps)+1 {
		for _, n := range r.ChunkTokens {
			if said += float64(n); n < 0 { // nonsense: nobody said anything
				said = 0
				break
			}
		}
	}
	weight := func(i int) float64 {
		if said > 0 {
			return float64(r.ChunkTokens[i]) / said * total
		}
		return each
	}
	at, in := r.First, 0.0
	for i := 0; ; i++ {
		if at >= from && at < to {
			in += weight(i)
		}
		if i == len(r.Gaps) {
			return in
		}
		us, _ := assay.Gap(r.Gaps[i])
		at += int64(us) * 1000
	}
}

// addTime counts a request in the periods of time. Warm-ups and failures are
// work of the engine like any other, so their tokens count; only successes
// count as requests.
func (c *Collector) addTime(r *assay.Request, good bool) {
	c.whole.add(r, good, math.MinInt64, math.MaxInt64)
	if c.steadyFrom != 0 {
		c.window.add(r, good, c.steadyFrom, c.windowEnd())
	}
}

func (t *tally) add(r *assay.Request, good bool, from, to int64) {
	if r.OK() && r.Last >= from && r.Last < to {
		t.ok++
		if good {
			t.good++
		}
	}
	t.tokens += tokensIn(r, from, to)
	if r.First != 0 && r.First >= from && r.First < to {
		t.input += float64(tokenCount(r.InputTokens)) // the prompt was read when its first token came
	}
	end := r.End
	if end == 0 {
		end = r.Last
	}
	if r.Sent != 0 && end > r.Sent {
		if d := min(end, to) - max(r.Sent, from); d > 0 {
			t.busy += float64(d)
		}
	}
}

// gauge is a sampled number of requests in flight.
type gauge struct{ m stat.Moments }

func (g *gauge) add(v float64) { g.m.Add(v) }

// little holds the gauge against the requests' own marks. The product of
// arrivals and mean time in the system is taken as the time that requests spent
// in the window, over its length: the same number in the long run, and right
// also at the edges of a window that is not long against a request.
func (c *Collector) little(window tally, seconds float64) assay.Little {
	var l assay.Little
	if seconds <= 0 {
		return l
	}
	product := window.busy / 1e9 / seconds
	l.Product = &product
	if c.gauge.m.N() == 0 {
		return l
	}
	g := c.gauge.m.Mean()
	l.Gauge = &g
	if product > 0 {
		off := g/product - 1
		l.Off = &off
	}
	return l
}

// littleIsOff reports whether gauge and marks differ by more than 2 %, and by
// more than a gauge sampled so seldom can be off by chance.
func (c *Collector) littleIsOff(l assay.Little) bool {
	if l.Off == nil || c.gauge.m.N() < 5 || math.Abs(*l.Off) <= 0.02 {
		return false
	}
	chance := 3 * c.gauge.m.Stddev() / math.Sqrt(float64(c.gauge.m.N()))
	return math.Abs(*l.Gauge-*l.Product) > chance
}
