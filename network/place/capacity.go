package place

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// why says why a node holds nothing of a demand.
type why int

const (
	holds why = iota
	excluded
	noMemory
	breaksLimits
	notMeasured
	refused // an estimate there would be
)

// cell is what one node holds of one demand.
type cell struct {
	capacity  float64 // in the demand's unit; 0: nothing, for the reason
	estimated bool
	why       why
}

// capacity is the highest measured load that kept the limits, below the lowest
// that broke one. ok is false where nothing measured says anything.
func capacity(levels []Level, d Demand) (most float64, ok bool) {
	sorted := slices.Clone(levels)
	slices.SortStableFunc(sorted, func(a, b Level) int { return cmp.Compare(a.Requests, b.Requests) })
	for _, l := range sorted {
		rate, known := l.rate(d.Unit)
		ttft, tpot := within(l.TTFT, d.TTFT), within(l.TPOT, d.TPOT)
		if ttft == broken || tpot == broken {
			return most, true
		}
		if known && ttft == kept && tpot == kept {
			most, ok = max(most, rate), true
		}
	}
	return most, ok
}

func (l Level) rate(u Unit) (float64, bool) {
	if u == Requests {
		return l.Requests, true
	}
	if l.Tokens == nil {
		return 0, false
	}
	return *l.Tokens, true
}

type held int

const (
	unknown held = iota
	kept
	broken
)

func within(measured *float64, limit float64) held {
	switch {
	case limit == 0:
		return kept
	case measured == nil || math.IsNaN(*measured):
		return unknown
	case *measured <= limit:
		return kept
	}
	return broken
}

// table is what every node holds of every demand.
type table struct {
	nodes []Node
	r     Request
	cells [][]cell // node × demand
}

type hardware struct {
	gpu string
	n   int
}

func newTable(nodes []Node, r Request) *table {
	t := &table{nodes: nodes, r: r, cells: make([][]cell, len(nodes))}
	for i, n := range nodes {
		t.cells[i] = make([]cell, len(r.Demands))
		for j, d := range r.Demands {
			t.cells[i][j] = measuredCell(n, d)
		}
	}
	for j := range r.Demands {
		t.estimate(j)
	}
	return t
}

// barred says why a node may be given nothing at all; empty: it may.
func barred(n Node) string {
	switch {
	case n.Excluded != "":
		return n.Excluded
	case n.Cost == nil:
		return "what it costs is not known: name it, or its GPU, under costs"
	}
	return ""
}

func measuredCell(n Node, d Demand) cell {
	if barred(n) != "" {
		return cell{why: excluded}
	}
	for _, m := range n.Measured {
		if m.Model != d.Model {
			continue
		}
		if n.MemoryGiB > 0 && d.MemoryGiB > n.MemoryGiB {
			return cell{why: noMemory}
		}
		switch c, ok := capacity(m.Levels, d); {
		case !ok:
			return cell{why: notMeasured}
		case c > 0:
			return cell{capacity: c}
		}
		return cell{why: breaksLimits}
	}
	if d.MemoryGiB > 0 && d.MemoryGiB > n.MemoryGiB {
		return cell{why: noMemory} // or its memory is not known
	}
	return cell{why: notMeasured}
}

// estimate gives nodes that were not measured the worst of their peers.
func (t *table) estimate(j int) {
	worst := map[hardware]float64{}
	for i, n := range t.nodes {
		c := t.cells[i][j]
		if n.GPU == "" || c.why != holds && c.why != breaksLimits {
			continue
		}
		h := hardware{n.GPU, n.GPUs}
		if old, ok := worst[h]; !ok || c.capacity < old {
			worst[h] = c.capacity // of one that breaks the limits: 0
		}
	}
	for i, n := range t.nodes {
		if t.cells[i][j].why != notMeasured {
			continue
		}
		switch v := worst[hardware{n.GPU, n.GPUs}]; {
		case v == 0:
		case !t.r.Estimates:
			t.cells[i][j].why = refused
		default:
			t.cells[i][j] = cell{capacity: v, estimated: true}
		}
	}
}

// loads says whether a node has to load a demand's model.
func (t *table) loads(i, j int) bool {
	return !slices.Contains(t.nodes[i].Serves, t.r.Demands[j].Model)
}

// problem leaves nodes out that hold nothing.
func (t *table) problem() *problem {
	p := &problem{m: len(t.r.Demands)}
	for _, d := range t.r.Demands {
		p.spare = append(p.spare, d.Redundancy)
	}
	for i, row := range t.cells {
		if slices.ContainsFunc(row, func(c cell) bool { return c.capacity > 0 }) {
			p.ids = append(p.ids, i)
		}
	}
	// What runs stays, and no node is taken without need, where both cost nothing:
	// all of it together is less than a billionth.
	tie := 0.25e-9 / float64(len(p.ids)+1)
	for _, i := range p.ids {
		share, cost := make([]float64, p.m), make([]float64, p.m)
		for j, d := range t.r.Demands {
			share[j] = min(1, t.cells[i][j].capacity/d.Amount*(1+generous))
			cost[j] = t.nodes[i].Cost.Units() + tie
			if t.loads(i, j) {
				cost[j] += t.nodes[i].Cost.Units()*t.loadShare(j) + tie
			}
		}
		p.share, p.cost = append(p.share, share), append(p.cost, cost)
	}
	return p.sorted()
}

// loadShare is the part of the horizon that loading takes.
func (t *table) loadShare(j int) float64 {
	return t.r.Demands[j].Load.Seconds() / t.r.Horizon.Seconds()
}

// reasons says why a demand is not met.
func (t *table) reasons(j int, proven bool) (out []string) {
	counts := map[why]int{}
	total, able := 0.0, []float64{}
	for i := range t.nodes {
		c := t.cells[i][j]
		counts[c.why]++
		if total += c.capacity; c.capacity > 0 {
			able = append(able, c.capacity)
		}
	}
	d := t.r.Demands[j]
	slices.Sort(able)
	for _, lost := range able[max(0, len(able)-d.Redundancy):] {
		total -= lost
	}
	switch spare := d.Redundancy; {
	case len(able) == 0:
		out = append(out, "no node can serve it")
	case total < d.Amount*(1-generous) && spare > 0:
		out = append(out, fmt.Sprintf("all %d nodes that can serve it hold %.4g without the strongest %d, and %.4g is asked for", len(able), max(0, total), spare, d.Amount))
	case total < d.Amount*(1-generous):
		out = append(out, fmt.Sprintf("all %d nodes that can serve it hold %.4g together, and %.4g is asked for", len(able), total, d.Amount))
	case proven:
		out = append(out, fmt.Sprintf("%d nodes can serve it, and other demands need them too: there are too few for all", len(able)))
	default:
		out = append(out, fmt.Sprintf("%d nodes can serve it, and other demands need them too: no placement for all was found, though none was ruled out", len(able)))
	}
	for _, k := range []struct {
		why  why
		text string
	}{
		{excluded, "%d nodes may not be given anything"},
		{noMemory, "%d nodes have too little memory for it, or it is not known how much"},
		{breaksLimits, "%d nodes were measured and break its limits at every load"},
		{notMeasured, "%d nodes were not measured with it, and no node with the same GPUs was that kept its limits: run `assay hammer` there"},
		{refused, "%d nodes have only an estimate, which the demand refuses"},
	} {
		if n := counts[k.why]; n > 0 {
			out = append(out, fmt.Sprintf(k.text, n))
		}
	}
	return out
}
