package place

import (
	"cmp"
	"math"
	"slices"
)

// Rounding: generous is added to each share, as amounts such as 0.1 are no binary
// fractions and three thirds shall be a whole; tolerance is what sums may be off by.
const generous = 1e-9

const tolerance = 1e-12

// maxSpare is the highest redundancy.
const maxSpare = 8

// idle is the place of a node that is not used.
const idle = -1

// problem is the bare question: each node serves one demand or none, and the nodes
// of a demand, without the strongest spare of them, have to hold all of it.
type problem struct {
	m     int
	ids   []int       // of the nodes, elsewhere
	share [][]float64 // node × demand: part of the demand that it holds, at most 1; 0: none
	cost  [][]float64 // node × demand, an hour
	spare []int       // by demand
	cheap [][]int     // by demand: nodes that hold something of it, by rising cost
}

// sorted fills in what follows from the rest.
func (p *problem) sorted() *problem {
	p.cheap = make([][]int, p.m)
	for j := range p.m {
		for i, row := range p.share {
			if row[j] > 0 {
				p.cheap[j] = append(p.cheap[j], i)
			}
		}
		slices.SortStableFunc(p.cheap[j], func(x, y int) int { return cmp.Compare(p.cost[x][j], p.cost[y][j]) })
	}
	return p
}

// holding is what nodes hold of one demand, nodes added one by one.
type holding struct {
	n     int
	sum   float64
	spare int
	top   [maxSpare]float64 // the strongest, falling
}

func (h *holding) add(share float64) {
	h.n++
	h.sum += share
	for i := range h.spare {
		if share > h.top[i] {
			share, h.top[i] = h.top[i], share
		}
	}
}

// kept is what is left without the strongest.
func (h *holding) kept() float64 {
	if h.n <= h.spare {
		return 0
	}
	v := h.sum
	for i := range h.spare {
		v -= h.top[i]
	}
	return min(1, v)
}

func (h *holding) full() bool { return h.kept() >= 1-tolerance }

// assignment is where each node serves.
type assignment struct {
	at      []int   // by node: a demand, or idle
	members [][]int // by demand
}

func (p *problem) none() assignment {
	a := assignment{at: make([]int, len(p.ids)), members: make([][]int, p.m)}
	for i := range a.at {
		a.at[i] = idle
	}
	return a
}

func (a *assignment) put(i, j int) {
	if old := a.at[i]; old != idle {
		m := a.members[old]
		for x, v := range m {
			if v == i {
				m[x] = m[len(m)-1]
				a.members[old] = m[:len(m)-1]
				break
			}
		}
	}
	if a.at[i] = j; j != idle {
		a.members[j] = append(a.members[j], i)
	}
}

func (a *assignment) clone() assignment {
	c := assignment{at: append([]int(nil), a.at...), members: make([][]int, len(a.members))}
	for j, m := range a.members {
		c.members[j] = append([]int(nil), m...)
	}
	return c
}

// holding is what a demand's nodes hold, without one of them and with another.
func (p *problem) holding(a *assignment, j, without, with int) holding {
	h := holding{spare: p.spare[j]}
	for _, i := range a.members[j] {
		if i != without {
			h.add(p.share[i][j])
		}
	}
	if with >= 0 {
		h.add(p.share[with][j])
	}
	return h
}

func (p *problem) full(a *assignment, j, without, with int) bool {
	h := p.holding(a, j, without, with)
	return h.full()
}

// worth is how good an assignment is: what is not met first, then its cost.
type worth struct{ unmet, cost float64 }

func (w worth) better(o worth) bool {
	if math.Abs(w.unmet-o.unmet) > generous {
		return w.unmet < o.unmet
	}
	return w.cost < o.cost-1e-14*math.Abs(o.cost)
}

func (p *problem) worth(a *assignment) (w worth) {
	for j := range p.m {
		h := p.holding(a, j, -1, -1)
		if !h.full() {
			w.unmet += 1 - h.kept()
		}
	}
	for i, j := range a.at {
		if j != idle {
			w.cost += p.cost[i][j]
		}
	}
	return w
}

// reduced is the problem of meeting as much of each demand as an assignment does.
func (p *problem) reduced(a *assignment) *problem {
	q := &problem{m: p.m, ids: p.ids, cost: p.cost, spare: append([]int(nil), p.spare...)}
	met := make([]float64, p.m)
	for j := range met {
		h := p.holding(a, j, -1, -1)
		met[j] = h.kept()
	}
	for _, row := range p.share {
		share := make([]float64, p.m)
		for j, s := range row {
			if met[j] > generous {
				share[j] = min(1, s/met[j])
			}
		}
		q.share = append(q.share, share)
	}
	return q.sorted()
}

// wanted says whether anything of a demand can be met.
func (p *problem) wanted(j int) bool { return len(p.cheap[j]) > 0 }
