package place

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
)

// answer puts an assignment into words and money.
func (t *table) answer(f found) (Placement, error) {
	out := Placement{
		Format: Format, Verdict: assay.Pass, Demands: []Served{}, Idle: []string{}, Excluded: []Excluded{},
		Cost: assay.Money{Currency: t.r.Currency}, Loading: assay.Money{Currency: t.r.Currency}, Bound: assay.Money{Currency: t.r.Currency},
		Optimal: f.proven,
	}
	ids := t.problem().ids
	used := map[int]bool{}
	estimated := false
	loading := 0.0
	for j := range t.r.Demands {
		s := t.served(j, f.at.members[j], ids)
		if !s.Met {
			out.Verdict = assay.Fail
			out.Unmet += 1 - s.Kept/s.Asked
			s.Why = t.reasons(j, f.unmetBound > 0)
		}
		for _, x := range f.at.members[j] {
			i := ids[x]
			used[i] = true
			estimated = estimated || t.cells[i][j].estimated
			cost := t.nodes[i].Cost
			if cost.Nano > math.MaxInt64-out.Cost.Nano {
				return Placement{}, fmt.Errorf("the nodes cost more an hour than can be counted: %w", assay.ErrMoney)
			}
			out.Cost.Nano += cost.Nano
			if t.loads(i, j) {
				loading += cost.Units() * t.loadShare(j)
			}
		}
		out.Demands = append(out.Demands, s)
	}
	if out.Verdict == assay.Pass && estimated {
		out.Verdict = assay.Unknown
	}
	unit := assay.Money{Nano: 1e9, Currency: t.r.Currency}
	var err error
	if out.Loading, err = unit.Times(loading); err != nil {
		return Placement{}, err
	}
	out.UnmetBound = min(out.Unmet, f.unmetBound)
	if err := out.bounded(f); err != nil {
		return Placement{}, err
	}
	t.others(&out, used)
	return out, nil
}

// bounded fills in the bound. It is rounded down: a bound that is not one is worse
// than none.
func (out *Placement) bounded(f found) error {
	total := out.Cost.Nano + out.Loading.Nano
	v := math.Floor(f.bound * 1e9)
	if v >= math.MaxInt64 {
		return assay.ErrMoney
	}
	if out.Bound.Nano = min(total, int64(v)); out.Optimal {
		out.Bound.Nano = total
	}
	switch {
	case total == out.Bound.Nano:
		out.Optimal = true
	case out.Bound.Nano == 0:
		out.Distance = math.MaxFloat64 // JSON has no infinity
	default:
		out.Distance = float64(total-out.Bound.Nano) / float64(out.Bound.Nano)
	}
	return nil
}

func (t *table) served(j int, members, ids []int) Served {
	d := t.r.Demands[j]
	out := Served{Name: d.Name, Model: d.Model, Unit: d.Unit, Asked: d.Amount, Redundancy: d.Redundancy, Why: []string{}, Nodes: []Given{}}
	var all []float64
	for _, x := range members {
		i := ids[x]
		c := t.cells[i][j]
		out.Capacity += c.capacity
		all = append(all, c.capacity)
		out.Nodes = append(out.Nodes, Given{Node: t.nodes[i].ID, Capacity: c.capacity, Estimated: c.estimated, Loads: t.loads(i, j), Cost: *t.nodes[i].Cost})
	}
	slices.SortFunc(out.Nodes, func(a, b Given) int { return strings.Compare(a.Node, b.Node) })
	slices.Sort(all)
	for _, c := range all[:max(0, len(all)-d.Redundancy)] {
		out.Kept += c
	}
	out.Met = out.Kept >= d.Amount*(1-2*generous)
	if out.Met {
		out.Kept = max(out.Kept, d.Amount) // but for rounding
	}
	return out
}

// others lists the nodes that are given nothing.
func (t *table) others(out *Placement, used map[int]bool) {
	for i, n := range t.nodes {
		if used[i] {
			continue
		}
		if why := barred(n); why != "" {
			out.Excluded = append(out.Excluded, Excluded{n.ID, why})
		} else {
			out.Idle = append(out.Idle, n.ID)
		}
	}
	slices.Sort(out.Idle)
	slices.SortFunc(out.Excluded, func(a, b Excluded) int { return strings.Compare(a.Node, b.Node) })
}
