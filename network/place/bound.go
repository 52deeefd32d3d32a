package place

import (
	"math"
	"slices"
)

// prices are Lagrange multipliers: what the whole of each demand is worth. Whatever
// they are, [problem.atPrices] is a lower bound; good prices give a good one.
type prices []float64

// required is the sum of shares that nodes of a demand need at least: all of it,
// and the spare ones, which are no weaker than the weakest that there are.
func (p *problem) required() []float64 {
	out := make([]float64, p.m)
	for j := range out {
		var all []float64
		for _, row := range p.share {
			if row[j] > 0 {
				all = append(all, row[j])
			}
		}
		if len(all) == 0 {
			continue // nothing can be asked for
		}
		slices.Sort(all)
		out[j] = 1
		for _, s := range all[:min(p.spare[j], len(all))] {
			out[j] += s
		}
	}
	return out
}

// atPrices is the Lagrangian: no assignment that meets every demand costs less,
// whatever the prices. Each node is given where it brings most beyond its cost, and
// the demands are then no constraint but a sum of money. Slope is how the bound
// changes with each price.
func (p *problem) atPrices(price prices, required, slope []float64) float64 {
	v := 0.0
	for j, r := range required {
		v += price[j] * r
		slope[j] = r
	}
	for i, row := range p.share {
		best, to := 0.0, idle
		for j, s := range row {
			if s > 0 {
				if gain := price[j]*s - p.cost[i][j]; gain > best {
					best, to = gain, j
				}
			}
		}
		if v -= best; to != idle {
			slope[to] -= row[to]
		}
	}
	return v
}

// ascend looks for prices with a high bound, by steps along the slope. Ceiling
// limits each price; goal is a value that the bound is not expected to pass.
func (p *problem) ascend(from prices, ceiling, goal float64, steps int) (best prices, bound float64) {
	required := p.required()
	slope := make([]float64, p.m)
	at := slices.Clone(from)
	best, bound = slices.Clone(at), math.Inf(-1)
	pace, since := 1.0, 0
	for range steps {
		v := p.atPrices(at, required, slope)
		if v > bound+1e-9*math.Abs(bound) || math.IsInf(bound, -1) {
			copy(best, at)
			bound, since = v, 0
		} else if since++; since == 15 {
			pace, since = pace*0.7, 0
			copy(at, best)
			p.atPrices(at, required, slope)
		}
		norm := 0.0
		for _, s := range slope {
			norm += s * s
		}
		gap := goal - v
		if norm < 1e-18 || gap <= 1e-9*math.Abs(goal) || pace < 1e-5 {
			break
		}
		for j := range at {
			at[j] = max(0, at[j]+pace*gap/norm*slope[j])
			if required[j] > 0 {
				at[j] = min(at[j], ceiling/required[j])
			}
		}
	}
	return best, bound
}

// start is what a demand costs on the node that is cheapest for it.
func (p *problem) start() prices {
	out := make(prices, p.m)
	for j := range out {
		least := math.Inf(1)
		for i, row := range p.share {
			if row[j] > 0 {
				least = min(least, p.cost[i][j]/row[j])
			}
		}
		if !math.IsInf(least, 1) {
			out[j] = least
		}
	}
	return out
}

// leastUnmet is a lower bound of what cannot be met, as the sum of shares: the same
// Lagrangian with nodes that cost nothing and a demand that may be bought off at 1.
func (p *problem) leastUnmet(found float64) float64 {
	free := &problem{m: p.m, ids: p.ids, share: p.share, spare: p.spare}
	none := make([]float64, p.m)
	for range p.ids {
		free.cost = append(free.cost, none)
	}
	free.sorted()
	from := make(prices, p.m)
	required := free.required()
	out := 0.0
	for j, r := range required {
		if r == 0 {
			out++ // nobody can serve it
		} else {
			from[j] = 1 / r
		}
	}
	_, v := free.ascend(from, 1, found-out, 2000)
	return max(0, out+max(0, v)-1e-7)
}

// nodePrices are what a place on each node is worth at these prices.
func (p *problem) nodePrices(price prices) []float64 {
	out := make([]float64, len(p.ids))
	for i, row := range p.share {
		for j, s := range row {
			if s > 0 {
				out[i] = max(out[i], price[j]*s-p.cost[i][j])
			}
		}
	}
	return out
}
