package place

import (
	"cmp"
	"slices"
)

// improve makes an assignment cheaper by small steps until none helps: nodes that
// nobody needs are dropped, others replaced by cheaper ones, and nodes of full
// demands lent to those that are not.
func (p *problem) improve(a *assignment) {
	p.lend(a)
	for range 20 {
		changed := p.drop(a)
		changed = p.replace(a) || changed
		if !changed {
			return
		}
	}
}

// drop takes nodes away without which their demand is as full as before, the most
// expensive first.
func (p *problem) drop(a *assignment) (changed bool) {
	for j := range p.m {
		order := slices.Clone(a.members[j])
		slices.SortStableFunc(order, func(x, y int) int {
			return cmp.Or(cmp.Compare(p.cost[y][j], p.cost[x][j]), cmp.Compare(p.share[x][j], p.share[y][j]), cmp.Compare(x, y))
		})
		for _, i := range order {
			before, after := p.holding(a, j, -1, -1), p.holding(a, j, i, -1)
			if after.full() || after.kept() >= before.kept() {
				a.put(i, idle)
				changed = true
			}
		}
	}
	return changed
}

// replace puts cheaper idle nodes in the place of others.
func (p *problem) replace(a *assignment) (changed bool) {
	for j := range p.m {
		for _, i := range slices.Clone(a.members[j]) {
			before, without := p.holding(a, j, -1, -1), p.holding(a, j, i, -1)
			for _, f := range p.cheap[j] {
				if p.cost[f][j] >= p.cost[i][j] {
					break
				}
				if a.at[f] != idle {
					continue
				}
				after := without
				if after.add(p.share[f][j]); after.full() || after.kept() >= before.kept() {
					a.put(i, idle)
					a.put(f, j)
					changed = true
					break
				}
			}
		}
	}
	return changed
}

// lend gives demands that are not full nodes of others: such as those do not need,
// or as an idle node can stand in for.
func (p *problem) lend(a *assignment) {
	for j := range p.m {
		for !p.full(a, j, -1, -1) && p.wanted(j) && p.borrow(a, j) {
		}
	}
}

func (p *problem) borrow(a *assignment, j int) bool {
	for i, row := range p.share {
		from := a.at[i]
		if row[j] == 0 || from == j {
			continue
		}
		if from == idle || p.full(a, from, i, -1) {
			if !p.helps(a, j, i) {
				continue
			}
			a.put(i, j)
			return true
		}
		if !p.full(a, from, -1, -1) {
			continue
		}
		for f, at := range a.at {
			if at == idle && p.share[f][from] > 0 && p.full(a, from, i, f) && p.helps(a, j, i) {
				a.put(i, j)
				a.put(f, from)
				return true
			}
		}
	}
	return false
}

// helps says whether a node brings a demand anything: more that is kept, or one of
// the spare nodes without which nothing is.
func (p *problem) helps(a *assignment, j, i int) bool {
	before, after := p.holding(a, j, -1, -1), p.holding(a, j, -1, i)
	return after.kept() > before.kept()+generous || before.n < p.spare[j]
}
