package trust

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/assay-bench/assay"
)

// Seen is one probe, as a customer would have seen it. A time of zero is unknown.
type Seen struct {
	TTFT time.Duration
	TPOT time.Duration
	// Way is what a small request took by the same way just before: of all of them is
	// known what the network and the routers add.
	Way time.Duration
	// Streams is how many requests the engine had with this one, as its agent says;
	// zero: unknown.
	Streams int
}

// Claim is what the node's last report says of one load. A time of zero is unknown.
type Claim struct {
	Streams float64 // requests under way
	TTFT    time.Duration
	TPOT    time.Duration
}

const (
	minSeen = 10 // probes that can be compared
	// maxWay is how much of a probe's time may be the network's. A node that answers
	// small requests late to excuse itself does not get further than to unknown.
	maxWay = 2 * time.Second
	// Chances of being wrong about the median: of an accusation, and of a pass.
	speedFalseAlarm = 5e-3
	speedFalsePass  = 0.05
)

// Speed compares what customers see with what the node says of itself at that load,
// or at the next higher one that it measured. slower is by which share it may be
// slower. Of each figure the median of the ratios counts, with an interval that does
// not depend on how they are distributed.
func Speed(seen []Seen, claims []Claim, slower float64) Result {
	slices.SortFunc(claims, func(a, b Claim) int { return cmp.Compare(a.Streams, b.Streams) })
	way, known := wayOf(seen)
	var first, later []float64
	for _, s := range seen {
		c, ok := claimFor(claims, s.Streams)
		if !ok {
			continue
		}
		if c.TTFT > 0 && s.TTFT > 0 && known {
			first = append(first, float64(max(0, s.TTFT-way))/float64(c.TTFT))
		}
		if c.TPOT > 0 && s.TPOT > 0 {
			later = append(later, float64(s.TPOT)/float64(c.TPOT))
		}
	}
	a, b := compared("the first token comes", first, slower), compared("tokens come", later, slower)
	figures := map[string]float64{"probes": float64(len(seen)), "at_most": 1 + slower}
	a.add(figures, "ttft")
	b.add(figures, "tpot")
	r := Result{Verdict: assay.Unknown, Text: a.text + "; " + b.text, Figures: figures}
	switch {
	case a.verdict == assay.Fail || b.verdict == assay.Fail:
		r.Verdict = assay.Fail
		r.Text = "slower from outside than it says: " + r.Text
	case a.verdict == assay.Pass && b.verdict == assay.Pass:
		r.Verdict = assay.Pass
	}
	return r
}

// wayOf is what the way takes: the median, as one late answer must neither accuse nor
// excuse. It is not known where too few small requests were answered, or where they
// took longer than a network does.
func wayOf(seen []Seen) (time.Duration, bool) {
	var all []time.Duration
	for _, s := range seen {
		if s.Way > 0 {
			all = append(all, s.Way)
		}
	}
	if len(all) < minSeen {
		return 0, false
	}
	slices.Sort(all)
	way := all[len(all)/2]
	return way, way <= maxWay
}

// claimFor finds what the node says of a load, or of the next higher one.
func claimFor(claims []Claim, streams int) (Claim, bool) {
	if streams <= 0 {
		return Claim{}, false
	}
	for _, c := range claims {
		if c.Streams >= float64(streams)-0.5 { // a loop of four has a little less than four under way
			return c, true
		}
	}
	return Claim{}, false
}

// ratio is how many times as long something takes.
type ratio struct {
	n              int
	median, lo, hi float64
	verdict        assay.Verdict
	text           string
}

func (r ratio) add(figures map[string]float64, name string) {
	figures[name+"_probes"] = float64(r.n)
	if r.n >= minSeen {
		figures[name+"_ratio"], figures[name+"_ratio_low"], figures[name+"_ratio_high"] = r.median, r.lo, r.hi
	}
}

func compared(what string, ratios []float64, slower float64) ratio {
	n := len(ratios)
	if n < minSeen {
		return ratio{n: n, text: fmt.Sprintf("how soon %s is not known: %d probes can be compared with a report, and %d are needed", what, n, minSeen)}
	}
	slices.Sort(ratios)
	r := ratio{n: n, median: (ratios[(n-1)/2] + ratios[n/2]) / 2, lo: ratios[rank(n, speedFalseAlarm)], hi: ratios[n-1-rank(n, speedFalsePass)]}
	switch limit := 1 + slower; {
	case r.lo > limit:
		r.verdict = assay.Fail
	case r.hi <= limit:
		r.verdict = assay.Pass
	}
	r.text = fmt.Sprintf("%s after %.2f times what it says (%.2f to %.2f, at most %.2f)", what, r.median, r.lo, r.hi, 1+slower)
	return r
}

// rank is the place of the value that is above a median with at most this chance.
func rank(n int, chance float64) int {
	k := 0
	for k+1 < n && signTail(n, k+1) <= chance {
		k++
	}
	return k
}
