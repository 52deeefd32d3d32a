package place

import (
	"cmp"
	"math"
	"slices"
)

// The second bound puts prices on nodes in place of demands: each demand then
// chooses its nodes by itself, exactly, as whole nodes, and a node that two choose is
// paid for twice. It is above the first by what whole nodes cost more than parts.

const (
	coverWork = 3e8 // additions of all rounds of [problem.coverPrices]
	coarse    = 25  // grains for each node while prices are looked for, at least
	fine      = 200 // and for the bound itself
)

// cover is the choice of one demand: whole nodes that hold all of it when the
// strongest spare of them are lost, at the least cost. Shares are counted in grains
// and rounded up, so that the cost is never above the true one.
type cover struct {
	nodes  []int // by falling share
	grains []int // of each
	goal   int
	spare  int

	least []float64         // by grains that are still to come from: cost of at least so many
	first [maxSpare]float64 // cost of the first 0, 1, … nodes, which are those that are lost
	took  []bool            // node × grains
	lost  []bool            // node × spare
}

func (p *problem) newCover(j, grains int) *cover {
	c := &cover{goal: grains, spare: p.spare[j]}
	for i, row := range p.share {
		if row[j] > 0 {
			c.nodes = append(c.nodes, i)
		}
	}
	slices.SortStableFunc(c.nodes, func(a, b int) int { return cmp.Compare(p.share[b][j], p.share[a][j]) })
	for _, i := range c.nodes {
		c.grains = append(c.grains, min(grains, int(math.Ceil(p.share[i][j]*float64(grains)))))
	}
	c.least = make([]float64, grains+1)
	c.took = make([]bool, len(c.nodes)*(grains+1))
	c.lost = make([]bool, len(c.nodes)*maxSpare)
	return c
}

// choose gives the least cost and the nodes that come to it.
func (c *cover) choose(cost func(node int) float64) (float64, []int) {
	for b := range c.least {
		c.least[b] = math.Inf(1)
	}
	for s := range c.first {
		c.first[s] = math.Inf(1)
	}
	c.first[0] = 0
	if c.spare == 0 {
		c.least[0] = 0
	}
	clear(c.lost)
	for x, i := range c.nodes {
		c.consider(x, cost(i))
	}
	if math.IsInf(c.least[c.goal], 1) {
		return math.Inf(1), nil
	}
	return c.least[c.goal], c.trace()
}

// consider takes one more node into account, in the order of falling shares: the
// first ones that are taken are the strongest, and hold nothing.
func (c *cover) consider(x int, cost float64) {
	took := c.took[x*(c.goal+1) : (x+1)*(c.goal+1)]
	g := c.grains[x]
	for b := c.goal; b >= 1; b-- {
		v := c.least[max(0, b-g)] + cost
		if took[b] = v < c.least[b]; took[b] {
			c.least[b] = v
		}
	}
	took[0] = false
	if c.spare == 0 {
		return
	}
	if v := c.first[c.spare-1] + cost; v < c.least[0] {
		c.least[0], took[0] = v, true
	}
	for s := c.spare - 1; s >= 1; s-- {
		if v := c.first[s-1] + cost; v < c.first[s] {
			c.first[s], c.lost[x*maxSpare+s] = v, true
		}
	}
}

// trace finds the nodes of the least cost.
func (c *cover) trace() (out []int) {
	b, s := c.goal, -1 // s: nodes that are lost and still to be found; -1: not there yet
	for x := len(c.nodes) - 1; x >= 0; x-- {
		switch {
		case s >= 0:
			if s > 0 && c.lost[x*maxSpare+s] {
				out, s = append(out, c.nodes[x]), s-1
			}
		case c.took[x*(c.goal+1)+b]:
			out = append(out, c.nodes[x])
			if b == 0 {
				s = c.spare - 1
			}
			b = max(0, b-c.grains[x])
		}
	}
	return out
}

// covers are the choices of all demands, counted in so many grains for each node
// that a demand has.
func (p *problem) covers(a *assignment, fine int) (out []*cover, work float64) {
	out = make([]*cover, p.m)
	for j := range out {
		if p.wanted(j) {
			out[j] = p.newCover(j, min(8000, max(10*fine, fine*len(a.members[j]))))
			work += float64(len(out[j].nodes)) * float64(out[j].goal)
		}
	}
	return out, work
}

// coverPrices improves node prices, beginning with those that the first bound ended
// with, where the second is no lower. Each choice is shown: nodes that several
// demands chose, and what they lack, are for the caller to mend.
func (p *problem) coverPrices(price []float64, a *assignment, goal float64, show func(chosen [][]int) float64) []float64 {
	covers, work := p.covers(a, fine)
	for grain := fine / 2; work*150 > coverWork && grain >= coarse; grain /= 2 {
		covers, work = p.covers(a, grain)
	}
	rounds := max(1, min(300, int(coverWork/(work+1))))
	bound, pace, since := math.Inf(-1), 1.0, 0
	at, best := slices.Clone(price), slices.Clone(price)
	slope := make([]float64, len(p.ids))
	for range rounds {
		v, chosen := p.atNodePrices(at, covers, slope)
		goal = min(goal, show(chosen))
		if v > bound {
			bound, since = v, 0
			copy(best, at)
		} else if since++; since == 8 {
			pace, since = pace*0.6, 0
			copy(at, best)
			v, _ = p.atNodePrices(at, covers, slope)
		}
		norm := 0.0
		for _, s := range slope {
			norm += s * s
		}
		if norm == 0 || goal-v <= 1e-12*math.Abs(goal) || pace < 1e-4 {
			break
		}
		for i := range at {
			at[i] = max(0, at[i]+pace*(goal-v)/norm*slope[i])
		}
	}
	return best
}

// coverBound is the second bound at node prices.
func (p *problem) coverBound(price []float64, a *assignment) float64 {
	covers, _ := p.covers(a, fine)
	v, _ := p.atNodePrices(price, covers, make([]float64, len(p.ids)))
	return v
}

func (p *problem) atNodePrices(price []float64, covers []*cover, slope []float64) (v float64, chosen [][]int) {
	chosen = make([][]int, p.m)
	for i, x := range price {
		v -= x
		slope[i] = -1
	}
	for j, c := range covers {
		if c == nil {
			continue
		}
		least, nodes := c.choose(func(i int) float64 { return p.cost[i][j] + price[i] })
		v += least
		chosen[j] = nodes
		for _, i := range nodes {
			slope[i]++
		}
	}
	for i, x := range price {
		if x == 0 && slope[i] < 0 {
			slope[i] = 0 // it is as low as it can be
		}
	}
	return v, chosen
}
