package place

import (
	"cmp"
	"math"
	"slices"
)

// exactNodes bounds the partial assignments that an exact search looks at.
const exactNodes = 300_000

// exact goes through all assignments, leaving out those that a bound rules out and
// those that differ only in which of two alike nodes does what. whole says that it
// came to the end: then the answer is the best there is.
func (p *problem) exact(from assignment, price prices) (best assignment, whole bool) {
	if len(p.ids) > 64 {
		return from, false
	}
	// A share that is not met costs more than all nodes together, so that one sum
	// orders both.
	penalty := 1.0
	for _, row := range p.cost {
		penalty += slices.Max(row)
	}
	penalty *= 1e4
	s := &tree{p: p, required: p.required(), penalty: penalty, order: p.order(price), best: from.clone()}
	s.price = make(prices, p.m)
	for j := range s.price {
		if s.required[j] > 0 {
			s.price[j] = min(price[j], penalty/s.required[j])
		}
	}
	s.worst = s.value(&from)
	s.rest = make([]float64, len(s.order)+1)
	for d := len(s.order) - 1; d >= 0; d-- {
		i := s.order[d]
		gain := 0.0
		for j, share := range p.share[i] {
			if share > 0 {
				gain = max(gain, s.price[j]*share-p.cost[i][j])
			}
		}
		s.rest[d] = s.rest[d+1] - gain
	}
	s.at = p.none()
	owed := 0.0
	for j, r := range s.required {
		owed += s.price[j] * r
	}
	s.visit(0, 0, owed)
	return s.best, s.seen <= exactNodes
}

// tree is a search over nodes in a fixed order.
type tree struct {
	p        *problem
	required []float64
	price    prices
	penalty  float64
	order    []int
	rest     []float64 // by depth: the least that all later nodes can change the bound by
	at       assignment
	best     assignment
	worst    float64 // value of the best
	seen     int
}

// order puts nodes that are alike side by side, and those that matter first.
func (p *problem) order(price prices) []int {
	gain := make([]float64, len(p.ids))
	out := make([]int, len(p.ids))
	for i, row := range p.share {
		out[i] = i
		for j, s := range row {
			gain[i] = max(gain[i], price[j]*s)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int {
		return cmp.Or(cmp.Compare(gain[b], gain[a]), slices.Compare(p.share[a], p.share[b]), slices.Compare(p.cost[a], p.cost[b]))
	})
	return out
}

func (s *tree) value(a *assignment) float64 {
	w := s.p.worth(a)
	return w.cost + s.penalty*w.unmet
}

// visit decides on the node at a depth. spent is the cost so far, owed what the
// demands are worth that is not covered yet.
func (s *tree) visit(depth int, spent, owed float64) {
	if s.seen++; s.seen > exactNodes {
		return
	}
	if spent+owed+s.rest[depth] >= s.worst-1e-13*math.Abs(s.worst) {
		return
	}
	if depth == len(s.order) {
		if v := s.value(&s.at); v < s.worst {
			s.worst, s.best = v, s.at.clone()
		}
		return
	}
	i := s.order[depth]
	least := idle
	if depth > 0 {
		if last := s.order[depth-1]; slices.Equal(s.p.share[i], s.p.share[last]) && slices.Equal(s.p.cost[i], s.p.cost[last]) {
			least = s.at.at[last]
		}
	}
	for j := s.p.m - 1; j >= 0 && j >= least; j-- {
		if share := s.p.share[i][j]; share > 0 {
			s.at.put(i, j)
			s.visit(depth+1, spent+s.p.cost[i][j], owed-s.price[j]*share)
			s.at.put(i, idle)
		}
	}
	if least == idle {
		s.visit(depth+1, spent, owed)
	}
}
