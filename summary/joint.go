package summary

import (
	"fmt"
	"math"
	"slices"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// Part is the share of one node, and what is known of its clock.
type Part struct {
	Node string // names it where something is said about it
	Share
	Offset int64  // ns to add to its times to have those of the others
	Slack  int64  // ns that Offset may be off, either way
	Why    string // its times cannot be compared with those of others, and why; empty: they can
}

// JointStage is a stage over the nodes that had it.
type JointStage struct {
	Name             string
	Nodes            int
	Streams          int
	Requests, Failed int
	// Overlap is how long all nodes were in their steady windows at once, certainly.
	// The rates are sums over it, and unknown without it.
	Overlap          int64 // ns
	Tokens, Finished assay.Quantity
	TTFT, TPOT, E2E  assay.Dist // in ms, of all judged requests
}

const (
	maxSlices = 30
	minSlices = 5
	// minOverlap is the shortest time, in ns, that a sum is taken of.
	minOverlap = int64(1e9)
)

// Join reduces what several nodes measured at the same load. Stages are those of
// one name, in the order of the first node that has it. What is summed happened at
// the same time; percentiles are those of all requests together, and never averages.
// Of one part the sums are its own, and its clock does not matter.
func Join(parts []Part) []JointStage {
	var names []string
	for _, p := range parts {
		for _, s := range p.Stages {
			if !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	out := []JointStage{}
	for _, name := range names {
		out = append(out, joinStage(name, parts))
	}
	return out
}

// onNode is one node's stage with its window in the time of all.
type onNode struct {
	part  *Part
	stage *StageShare
}

func joinStage(name string, parts []Part) JointStage {
	out := JointStage{Name: name}
	var of []onNode
	var ttft, tpot, e2e []Counted
	for i := range parts {
		k := slices.IndexFunc(parts[i].Stages, func(s StageShare) bool { return s.Name == name })
		if k < 0 {
			continue
		}
		s := &parts[i].Stages[k]
		of = append(of, onNode{&parts[i], s})
		out.Nodes++
		out.Streams += s.Streams
		out.Requests += s.Requests
		out.Failed += s.Failed
		ttft, tpot, e2e = append(ttft, s.TTFT), append(tpot, s.TPOT), append(e2e, s.E2E)
	}
	out.TTFT, out.TPOT, out.E2E = merged(ttft, 1e-3), merged(tpot, 1e-6), merged(e2e, 1e-3)
	p, why := overlap(of)
	if why != "" {
		out.Tokens, out.Finished = assay.UnknownQuantity(why), assay.UnknownQuantity(why)
		return out
	}
	out.Overlap = p.to - p.from
	out.Tokens, out.Finished = sums(of, p)
	return out
}

// overlap is the time in which all were in their steady windows, by the common
// clock. Windows are cut by what a clock may be off, so that it is certain.
func overlap(of []onNode) (span, string) {
	p := span{math.MinInt64, math.MaxInt64}
	var late, early string // whose window begins last, and whose ends first
	for _, n := range of {
		s, slack, offset := n.stage, n.part.Slack, n.part.Offset
		if len(of) == 1 {
			slack, offset = 0, 0
		}
		switch {
		case s.To <= s.From:
			return span{}, fmt.Sprintf("node %s has no steady window: %s", n.part.Node, s.Why)
		case len(of) > 1 && n.part.Why != "":
			return span{}, fmt.Sprintf("the times of node %s cannot be compared: %s", n.part.Node, n.part.Why)
		}
		if from := s.From + offset + slack; from > p.from {
			p.from, late = from, n.part.Node
		}
		if to := s.To + offset - slack; to < p.to {
			p.to, early = to, n.part.Node
		}
	}
	switch {
	case len(of) == 0:
		return span{}, "no node had this stage"
	case p.to-p.from >= minOverlap:
		return p, ""
	case p.to <= p.from:
		return span{}, fmt.Sprintf("they were not measured at the same time: the window of node %s ends before that of node %s begins", early, late)
	}
	return span{}, fmt.Sprintf("all were measured at once for %.3g s only, and a sum needs one second", float64(p.to-p.from)/1e9)
}

// sums adds the nodes up in slices of the overlap. The interval is that of the mean
// over slices, for as many independent ones as they are worth.
func sums(of []onNode, p span) (tokens, finished assay.Quantity) {
	widest := int64(1)
	for _, n := range of {
		widest = max(widest, n.stage.Width)
	}
	n := int(min(maxSlices, max(1, (p.to-p.from)/widest)))
	seconds := float64(p.to-p.from) / 1e9 / float64(n)
	var t, f []float64
	for i := range int64(n) {
		slice := span{p.from + (p.to-p.from)*i/int64(n), p.from + (p.to-p.from)*(i+1)/int64(n)}
		var sumT, sumF float64
		for _, x := range of {
			offset := x.part.Offset
			if len(of) == 1 {
				offset = 0
			}
			a, b := x.stage.in(span{slice.from - offset, slice.to - offset})
			sumT, sumF = sumT+a, sumF+b
		}
		t, f = append(t, sumT/seconds), append(f, sumF/seconds)
	}
	return meanRate(t), meanRate(f)
}

func meanRate(v []float64) assay.Quantity {
	var m stat.Moments
	for _, x := range v {
		m.AddN(x, 1)
	}
	q := assay.Quantity{N: len(v), Est: m.Mean(), Lo: math.NaN(), Hi: math.NaN()}
	if len(v) < minSlices {
		q.Why = fmt.Sprintf("%d slices of time are too few for an interval", len(v))
		return q
	}
	effective := float64(len(v)) / max(1, stat.AutocorrelationTime(v))
	q.Lo, q.Hi = stat.MeanInterval(q.Est, m.Stddev(), effective, 0.95)
	if !math.IsNaN(q.Lo) {
		q.Lo = max(0, q.Lo)
	}
	return q
}
