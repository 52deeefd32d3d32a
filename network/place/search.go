package place

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Work of a search, in steps and not in time: the same input has the same answer.
const (
	searchSeed = 45
	priceSteps = 600
	builds     = 24
	workBudget = 6e7 // of what is taken apart and built again, in visits of node and demand
)

// found is an assignment with what is known about it.
type found struct {
	at         assignment
	unmetBound float64
	bound      float64 // of the cost of meeting as much
	proven     bool    // searched to the end
}

// solve looks for the assignment that leaves the least unmet, and of those for the
// cheapest.
func solve(p *problem) found {
	a, price := p.search(p.none())
	f := found{}
	w := p.worth(&a)
	exact, whole := p.exact(a, price)
	if a, f.proven = exact, whole; whole {
		w = p.worth(&a)
	}
	q := p
	if w.unmet > generous {
		if f.unmetBound = p.leastUnmet(w.unmet); f.proven {
			f.unmetBound = w.unmet
		}
		q = p.reduced(&a)
		a, price = q.search(a)
		a, f.proven = q.exact(a, price)
	}
	if f.proven {
		f.at, f.bound = a, q.worth(&a).cost
		return f
	}
	rest := q.bounded(a, price)
	f.at, f.bound = rest.at, rest.bound
	return f
}

// bounded gives an assignment that meets every demand its bound, and takes a better
// one that is met with on the way.
func (p *problem) bounded(a assignment, price prices) found {
	f := found{at: a}
	cost := p.worth(&a).cost
	price, f.bound = p.ascend(price, math.Inf(1), cost, 3000)
	nodePrice := p.coverPrices(p.nodePrices(price), &a, cost, func(chosen [][]int) float64 {
		b := p.mend(chosen, price)
		if v := p.worth(&b); v.better(p.worth(&f.at)) {
			f.at, cost = b, v.cost
		}
		return cost
	})
	f.bound = max(f.bound, p.coverBound(nodePrice, &a))
	// What was accepted within the tolerance, and rounding of the sums.
	f.bound = max(0, min(cost, f.bound*(1-1e-7)-1e-9))
	return f
}

// search builds assignments from prices near the best, and takes the best of them
// apart and builds it again, as long as its work lasts.
func (p *problem) search(from assignment) (assignment, prices) {
	rng := rand.New(rand.NewPCG(searchSeed, uint64(len(p.ids))))
	best := from
	p.improve(&best)
	w := p.worth(&best)
	consider := func(a assignment) bool {
		p.improve(&a)
		v := p.worth(&a)
		if !v.better(w) {
			return false
		}
		best, w = a, v
		return true
	}
	price := p.start()
	first := p.none()
	p.fill(&first, price)
	consider(first)
	price, _ = p.ascend(price, math.Inf(1), w.cost, priceSteps)
	for b := range builds {
		a := p.none()
		p.fill(&a, near(price, rng, 0.02*float64(b)/4))
		consider(a)
	}
	rounds := int(workBudget / float64(len(p.ids)*p.m*8+1))
	for range min(rounds, 20*len(p.ids)) {
		a := best.clone()
		p.empty(&a, 1+rng.IntN(min(3, p.m)), rng)
		p.fill(&a, near(price, rng, 0.15))
		consider(a)
	}
	return best, price
}

// mend makes an assignment of what demands chose by themselves: a node that
// several chose goes to the one to which it is worth most.
func (p *problem) mend(chosen [][]int, price prices) assignment {
	a := p.none()
	for j, nodes := range chosen {
		for _, i := range nodes {
			old := a.at[i]
			if old == idle || price[j]*p.share[i][j]-p.cost[i][j] > price[old]*p.share[i][old]-p.cost[i][old] {
				a.put(i, j)
			}
		}
	}
	p.fill(&a, price)
	p.improve(&a)
	return a
}

// near gives prices that are off by chance.
func near(price prices, rng *rand.Rand, off float64) prices {
	out := slices.Clone(price)
	for j := range out {
		out[j] *= 1 + off*(2*rng.Float64()-1)
	}
	return out
}

// empty takes the nodes of some demands away, and of one more half.
func (p *problem) empty(a *assignment, n int, rng *rand.Rand) {
	order := rng.Perm(p.m)
	for _, j := range order[:n] {
		for _, i := range slices.Clone(a.members[j]) {
			a.put(i, idle)
		}
	}
	if n < p.m {
		for _, i := range slices.Clone(a.members[order[n]]) {
			if rng.IntN(2) == 0 {
				a.put(i, idle)
			}
		}
	}
}

// fill gives idle nodes to demands that are not full, those first that bring most.
func (p *problem) fill(a *assignment, price prices) {
	left := make([]holding, p.m)
	for j := range left {
		left[j] = p.holding(a, j, -1, -1)
	}
	type offer struct {
		node int
		gain float64
	}
	var offers []offer
	for i, row := range p.share {
		if a.at[i] != idle {
			continue
		}
		gain := math.Inf(-1)
		for j, s := range row {
			if s > 0 && !left[j].full() {
				gain = max(gain, price[j]*s-p.cost[i][j])
			}
		}
		if !math.IsInf(gain, -1) {
			offers = append(offers, offer{i, gain})
		}
	}
	slices.SortStableFunc(offers, func(x, y offer) int { return cmp.Compare(y.gain, x.gain) })
	for _, o := range offers {
		best, to := math.Inf(-1), idle
		for j, s := range p.share[o.node] {
			if s == 0 || left[j].full() {
				continue
			}
			if gain := price[j]*min(s, p.lacks(&left[j], s)) - p.cost[o.node][j]; gain > best {
				best, to = gain, j
			}
		}
		if to != idle {
			a.put(o.node, to)
			left[to].add(p.share[o.node][to])
		}
	}
}

// lacks is what a demand can still use of a node.
func (p *problem) lacks(h *holding, share float64) float64 {
	if h.n < h.spare {
		return share
	}
	return 1 - h.kept()
}
