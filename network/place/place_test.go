package place

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

func place(t *testing.T, n network) Placement {
	t.Helper()
	got, err := Place(n.nodes, n.request)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// small networks are those that can be searched by trying everything.
func small(seed uint64) network {
	rng := rand.New(rand.NewPCG(seed, 1))
	if seed%3 == 0 { // one demand that needs many nodes, and may lose some
		n := generate(seed, 8, 1, 0.3+0.3*rng.Float64())
		n.request.Demands[0].Redundancy = 1 + rng.IntN(2)
		return n
	}
	return generate(seed, 3+rng.IntN(5), 1+rng.IntN(3), 0.2+0.9*rng.Float64())
}

// Whatever the prices are, neither bound is above the best of all assignments; and
// the search to the end finds that best.
func TestBoundsAgainstEveryAssignment(t *testing.T) {
	met, unmet, above := 0, 0, 0
	for seed := range uint64(120) {
		n := small(seed)
		p := newTable(n.nodes, n.request).problem()
		best := exhaustive(p)
		f := solve(p)
		w := p.worth(&f.at)
		if !f.proven || !(math.Abs(w.unmet-best.unmet) <= 1e-8) {
			t.Errorf("seed %d: %v is found (to the end: %v), the best is %v", seed, w, f.proven, best)
			continue
		}
		// From nothing, so that it is the search to the end that finds it.
		cold, whole := p.exact(p.none(), p.start())
		if w := p.worth(&cold); !whole || !(math.Abs(w.unmet-best.unmet) <= 1e-8) || !(math.Abs(w.cost-best.cost) <= 1e-9) && w.unmet < 1e-8 {
			t.Errorf("seed %d: the search to the end (%v) finds %v, the best is %v", seed, whole, w, best)
		}
		if lower := p.leastUnmet(w.unmet); lower > best.unmet+1e-9 {
			t.Errorf("seed %d: at least %v is said to be unmet, and it can be %v", seed, lower, best.unmet)
		}
		if best.unmet > 1e-8 {
			unmet++
			continue
		}
		met++
		if !(math.Abs(w.cost-best.cost) <= 1e-9) {
			t.Errorf("seed %d: it costs %v, the best %v", seed, w.cost, best.cost)
		}
		// As high as prices bring it, with a goal that is above the best.
		high, v := p.ascend(p.start(), math.Inf(1), 2*best.cost, 400)
		if v > best.cost+1e-8 {
			t.Errorf("seed %d: the first bound rises to %v, the best costs %v", seed, v, best.cost)
		}
		if v := p.coverBound(p.nodePrices(high), &f.at); v > best.cost+1e-8 {
			t.Errorf("seed %d: the second bound is %v, the best costs %v", seed, v, best.cost)
		}
		rng := rand.New(rand.NewPCG(seed, 2))
		for _, scale := range []float64{0.5, 1, 1.5, 3} {
			price := near(p.start(), rng, 0.5)
			for j := range price {
				price[j] *= scale
			}
			if v := p.atPrices(price, p.required(), make([]float64, p.m)); v > best.cost+1e-8 {
				t.Errorf("seed %d: the first bound is %v, the best costs %v", seed, v, best.cost)
			}
			v := p.coverBound(p.nodePrices(price), &f.at)
			if v > best.cost+1e-8 {
				t.Errorf("seed %d: the second bound is %v, the best costs %v", seed, v, best.cost)
			}
			if v > 0.5*best.cost {
				above++
			}
		}
	}
	if met < 30 || unmet < 10 || above < 100 {
		t.Errorf("%d networks are met, %d are not, %d bounds say something: this tests little", met, unmet, above)
	}
}

// The bounds of networks that are too large to search to the end, on those that
// are not: as if the search had given up.
func TestBoundWithoutTheSearch(t *testing.T) {
	for seed := range uint64(40) {
		n := small(seed)
		p := newTable(n.nodes, n.request).problem()
		best := exhaustive(p)
		if best.unmet > 1e-8 {
			continue
		}
		a, price := p.search(p.none())
		f := p.bounded(a, price)
		if v := p.worth(&f.at).cost; f.bound > best.cost+1e-9 || v < best.cost-1e-9 {
			t.Errorf("seed %d: bound %v, answer %v, best %v", seed, f.bound, v, best.cost)
		}
	}
}

// audit looks at an answer from outside, by the nodes and the request alone.
func audit(t *testing.T, n network, got Placement) {
	t.Helper()
	byID := map[string]Node{}
	for _, node := range n.nodes {
		byID[node.ID] = node
	}
	used := map[string]bool{}
	cost := int64(0)
	for j, s := range got.Demands {
		d := n.request.Demands[j]
		var capacities []float64
		for _, g := range s.Nodes {
			node := byID[g.Node]
			cost += node.Cost.Nano
			if used[g.Node] {
				t.Errorf("%s serves twice", g.Node)
			}
			used[g.Node] = true
			if node.Excluded != "" {
				t.Errorf("%s is given %s though %s", g.Node, d.Name, node.Excluded)
			}
			if d.MemoryGiB > node.MemoryGiB {
				t.Errorf("%s has %v GiB and is given %s, which needs %v", g.Node, node.MemoryGiB, d.Name, d.MemoryGiB)
			}
			if most := credible(n, node, d, g.Estimated); g.Capacity > most {
				t.Errorf("%s is said to hold %v of %s, and %v was measured", g.Node, g.Capacity, d.Name, most)
			}
			capacities = append(capacities, g.Capacity)
		}
		slices.Sort(capacities)
		rest := 0.0
		for _, c := range capacities[:max(0, len(capacities)-d.Redundancy)] {
			rest += c
		}
		if met := rest >= d.Amount*(1-1e-8); met != s.Met || !met && len(s.Why) == 0 {
			t.Errorf("%s: %v is kept of %v, and met is %v: %q", d.Name, rest, d.Amount, s.Met, s.Why)
		}
	}
	if cost != got.Cost.Nano {
		t.Errorf("it costs %d, and says %d", cost, got.Cost.Nano)
	}
	if got.Bound.Nano > got.Cost.Nano+got.Loading.Nano || got.Distance < 0 || got.UnmetBound > got.Unmet {
		t.Errorf("the bound is above the answer: %+v", got)
	}
}

// credible is what a node may be said to hold: what was measured within the limit,
// or the least that was measured of its peers.
func credible(n network, node Node, d Demand, estimated bool) float64 {
	most := func(node Node) (v float64, ok bool) {
		for _, m := range node.Measured {
			for _, l := range m.Levels {
				if m.Model == d.Model && *l.TTFT <= d.TTFT {
					v, ok = max(v, l.Requests), true
				}
			}
		}
		return v, ok
	}
	if !estimated {
		v, _ := most(node)
		return v
	}
	least := math.Inf(1)
	for _, peer := range n.nodes {
		if v, ok := most(peer); ok && peer.GPU == node.GPU && peer.GPUs == node.GPUs && peer.Excluded == "" && d.MemoryGiB <= peer.MemoryGiB {
			least = min(least, v)
		}
	}
	return least
}

func TestNoNodeIsOverItsMeans(t *testing.T) {
	estimates, excluded := 0, 0
	for seed := range uint64(14) {
		n := generate(seed, 5+2*int(seed), 1+int(seed%6), 0.3+float64(seed%8)*0.15)
		got := place(t, n)
		audit(t, n, got)
		excluded += len(got.Excluded)
		for _, s := range got.Demands {
			for _, g := range s.Nodes {
				if g.Estimated {
					estimates++
				}
			}
		}
	}
	if estimates < 3 || excluded < 3 {
		t.Errorf("%d estimates, %d excluded: this tests little", estimates, excluded)
	}
}

// One more node never makes it worse: where both are searched to the end not at
// all, elsewhere by no more than the distance that is printed.
func TestOneMoreNodeIsNeverWorse(t *testing.T) {
	for seed := range uint64(40) {
		n := small(seed)
		n.request.Estimates = false // the newcomer is a peer, and may show that an estimate was too good
		with := place(t, n)
		last := len(n.nodes) - 1
		without := place(t, network{n.nodes[:last], n.request})
		if !with.Optimal || !without.Optimal {
			t.Errorf("seed %d is not searched to the end", seed)
		}
		if with.Unmet > without.Unmet+1e-8 || with.Unmet > without.Unmet-1e-8 && total(with) > total(without) {
			t.Errorf("seed %d: with one more node %v unmet at %d, without it %v at %d", seed, with.Unmet, total(with), without.Unmet, total(without))
		}
	}
	for seed := range uint64(2) {
		n := generate(seed, 40, 4, 0.4)
		n.request.Estimates = false
		with := place(t, n)
		without := place(t, network{n.nodes[:39], n.request})
		if with.Unmet == 0 && without.Unmet == 0 && float64(total(with)) > float64(total(without))*(1+with.Distance) {
			t.Errorf("seed %d: %d with one more node, %d without it, distance %v", seed, total(with), total(without), with.Distance)
		}
	}
}

func total(p Placement) int64 { return p.Cost.Nano + p.Loading.Nano }

func node(id, gpu string, cost int64, serves string, rates ...float64) Node {
	n := Node{ID: id, GPU: gpu, GPUs: 1, MemoryGiB: 80, Cost: &assay.Money{Nano: cost * 1e9, Currency: "USD"}}
	if serves != "" {
		n.Serves = []string{serves}
	}
	for j, r := range rates {
		if r > 0 {
			n.Measured = append(n.Measured, Measured{Model: string(rune('a' + j)), Levels: []Level{{Requests: r}}})
		}
	}
	return n
}

func want(model string, amount float64) Demand {
	return Demand{Name: model, Model: model, Unit: Requests, Amount: amount, Load: 10 * time.Minute}
}

func ask(d ...Demand) Request {
	return Request{Currency: "USD", Horizon: time.Hour, Estimates: true, Demands: d}
}

func TestWhatIsNotMetIsSaid(t *testing.T) {
	slow, limit := 900.0, want("a", 10)
	limit.TTFT = 500
	late := node("n", "x", 1, "", 20)
	late.Measured[0].Levels[0].TTFT = &slow
	late2 := node("n", "x", 1, "", 20) // its p99 is not known
	tight := node("n", "x", 1, "", 20)
	tight.MemoryGiB = 10
	large := want("a", 10)
	large.MemoryGiB = 40
	gone := node("n", "x", 1, "a", 20)
	gone.Excluded = "it is quarantined"
	unpriced := node("n", "x", 1, "", 20)
	unpriced.Cost = nil
	redundant := want("a", 10)
	redundant.Redundancy = 1
	for name, c := range map[string]struct {
		nodes []Node
		r     Request
		says  string
		bound float64
	}{
		"nothing":     {nil, ask(want("a", 10)), "no node can serve it", 1},
		"too little":  {[]Node{node("n", "x", 1, "", 5)}, ask(want("a", 10)), "hold 5 together, and 10 is asked for", 0.5},
		"limits":      {[]Node{late}, ask(limit), "1 nodes were measured and break its limits", 1},
		"unknown":     {[]Node{late2}, ask(limit), "1 nodes were not measured with it", 1},
		"memory":      {[]Node{tight}, ask(large), "1 nodes have too little memory", 1},
		"quarantined": {[]Node{gone}, ask(want("a", 10)), "1 nodes may not be given anything", 1},
		"no cost":     {[]Node{unpriced}, ask(want("a", 10)), "1 nodes may not be given anything", 1},
		"redundancy":  {[]Node{node("n", "x", 1, "", 20)}, ask(redundant), "hold 0 without the strongest 1", 1},
		"rivals":      {[]Node{node("n", "x", 1, "", 20, 20)}, ask(want("a", 10), want("b", 10)), "there are too few for all", 1},
		"no estimate": {
			[]Node{node("n", "x", 1, "", 5), node("m", "x", 1, "")},
			Request{Currency: "USD", Horizon: time.Hour, Demands: []Demand{want("a", 10)}}, "1 nodes have only an estimate", 0.5,
		},
	} {
		got := place(t, network{c.nodes, c.r})
		var why []string
		for _, s := range got.Demands {
			why = append(why, s.Why...)
		}
		if got.Verdict != assay.Fail || !strings.Contains(strings.Join(why, "; "), c.says) {
			t.Errorf("%s: %v, %q", name, got.Verdict, why)
		}
		if !(math.Abs(got.UnmetBound-c.bound) <= 1e-6) {
			t.Errorf("%s: at least %v is unmet, want %v", name, got.UnmetBound, c.bound)
		}
	}
}

func given(p Placement) string {
	var out []string
	for _, s := range p.Demands {
		for _, g := range s.Nodes {
			mark := ""
			if g.Loads {
				mark = "+"
			}
			if g.Estimated {
				mark += "?"
			}
			out = append(out, s.Name+":"+g.Node+mark)
		}
	}
	return strings.Join(out, " ")
}

func TestWhatRunsStays(t *testing.T) {
	a := []Node{node("n1", "x", 1, "b", 10, 10), node("n2", "x", 1, "a", 10, 10), node("n3", "x", 1, "", 10, 10)}
	if got := given(place(t, network{a, ask(want("a", 10), want("b", 10))})); got != "a:n2 b:n1" {
		t.Errorf("equal nodes: %s", got)
	}
	free := []Node{node("n1", "x", 0, "b", 10, 10), node("n2", "x", 0, "a", 10, 10), node("n3", "x", 0, "", 10, 10)}
	if got := given(place(t, network{free, ask(want("a", 10), want("b", 10))})); got != "a:n2 b:n1" {
		t.Errorf("nodes that cost nothing: %s", got)
	}
	// Ten minutes of loading within an hour: n2 at 6 an hour costs 7, and n1 at 6.5 stays.
	cheap := []Node{node("n1", "x", 0, "a", 10), node("n2", "x", 6, "", 10)}
	cheap[0].Cost = &assay.Money{Nano: 6.5e9, Currency: "USD"}
	got := place(t, network{cheap, ask(want("a", 10))})
	if given(got) != "a:n1" || got.Loading.Nano != 0 {
		t.Errorf("a little cheaper: %s", given(got))
	}
	day := ask(want("a", 10))
	day.Horizon = 24 * time.Hour
	got = place(t, network{cheap, day})
	if given(got) != "a:n2+" || got.Loading.Nano != 41_666_667 {
		t.Errorf("cheaper over a day: %s, loading %v", given(got), got.Loading)
	}
}

func TestEstimatesAreMarked(t *testing.T) {
	n := []Node{node("n1", "x", 1, "", 12), node("n2", "x", 1, "", 9), node("n3", "x", 1, ""), node("n4", "y", 1, ""), node("n5", "x", 1, "", 1)}
	n[4].Excluded = "it is quarantined" // and nobody's peer
	got := place(t, network{n, ask(want("a", 30))})
	if got.Verdict != assay.Unknown || given(got) != "a:n1+ a:n2+ a:n3+?" || got.Demands[0].Capacity != 30 {
		t.Errorf("%v %s %+v", got.Verdict, given(got), got.Demands)
	}
	got = place(t, network{n, ask(want("a", 21))})
	if got.Verdict != assay.Pass || given(got) != "a:n1+ a:n2+" {
		t.Errorf("%v %s", got.Verdict, given(got))
	}
}

func TestCapacityIsBelowWhatBroke(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	levels := []Level{{Requests: 8, TTFT: f(900)}, {Requests: 2, TTFT: f(100)}, {Requests: 4, TTFT: f(200)}, {Requests: 16, TTFT: f(300)}, {Requests: 5}}
	d := Demand{Unit: Requests, TTFT: 500}
	if c, ok := capacity(levels, d); c != 4 || !ok {
		t.Errorf("%v %v", c, ok)
	}
	if c, ok := capacity(levels, Demand{Unit: Requests}); c != 16 || !ok {
		t.Errorf("without limits %v %v", c, ok)
	}
	if _, ok := capacity([]Level{{Requests: 5}}, d); ok {
		t.Error("a p99 that is not known decides")
	}
	if _, ok := capacity(levels, Demand{Unit: Tokens}); ok {
		t.Error("tokens a second are known from nowhere")
	}
}
