package control

import (
	"fmt"
	"math"
	"strings"

	"github.com/assay-bench/assay"
)

// MaxWeight is the weight of one that is the best of its model in everything.
const MaxWeight = 100

// The least that one part leaves of a weight, and what it leaves of that of a
// candidate about whom it is not known while it is about others. So whoever hides
// a figure never gains by it.
const (
	leastByScore    = 0.25
	leastByCapacity = 0.1
	leastByCost     = 0.25
	degradedShare   = 0.5
)

// Candidate is what is known of a node or of a replica that serves a model.
type Candidate struct {
	State Node // as [Joint] has it
	// Lower is the low end of its score's interval; nil: unknown.
	Lower *float64
	// Capacity is the output tokens a second that were measured at Load; nil:
	// unknown. Only figures of the same load are compared.
	Capacity *float64
	Load     string
	// Cost is that of a million output tokens; nil: unknown. Only those of one
	// currency are compared.
	Cost *assay.Money
}

// Weighed is a candidate's share of the requests.
type Weighed struct {
	Weight int // 0: none; else 1 to MaxWeight
	Why    string
}

// Joint is the state that counts for a replica: that of its node, unless the
// replica's own says less. It may be routed where RoutableReplica says so.
func Joint(node, replica Node) Node {
	if ok, _ := Routable(node.Facts); !ok {
		return node
	}
	out := node
	if ok, _ := Routable(replica.Facts); !ok || replica.Admission == Degraded {
		out = replica
	}
	// The smaller step holds; 0 is full weight.
	if a, b := node.ReadmissionStep, replica.ReadmissionStep; a > 0 && b > 0 {
		out.ReadmissionStep = min(a, b)
	} else {
		out.ReadmissionStep = max(a, b)
	}
	return out
}

// Weigh shares out the requests for one model among those who serve it. Weights
// are relative to the best: each part is a share of the best known figure.
// docs/routing.md has worked numbers.
func Weigh(p Policy, all []Candidate) []Weighed {
	b := bestOf(all)
	out := make([]Weighed, len(all))
	for i, c := range all {
		out[i] = b.weigh(p, c)
	}
	return out
}

// best are the best figures of those that may be routed.
type best struct {
	lower    float64
	capacity map[string]float64 // by load
	cost     map[string]float64 // by currency: the least
}

func bestOf(all []Candidate) best {
	b := best{capacity: map[string]float64{}, cost: map[string]float64{}}
	for _, c := range all {
		if ok, _ := Routable(c.State.Facts); !ok {
			continue
		}
		if v, ok := positive(share(c.Lower)); ok {
			b.lower = max(b.lower, v)
		}
		if v, ok := positive(c.Capacity); ok {
			b.capacity[c.Load] = max(b.capacity[c.Load], v)
		}
		if v, ok := costOf(c); ok {
			if had, ok := b.cost[c.Cost.Currency]; !ok || v < had {
				b.cost[c.Cost.Currency] = v
			}
		}
	}
	return b
}

func (b best) weigh(p Policy, c Candidate) Weighed {
	ok, why := Routable(c.State.Facts)
	if !ok {
		return Weighed{Why: why}
	}
	w, parts := 1.0, []string{why}
	part := func(name string, share float64) {
		w *= share
		parts = append(parts, fmt.Sprintf("%s %.2f", name, share))
	}
	if b.lower > 0 {
		v, _ := positive(share(c.Lower))
		part("score", max(leastByScore, v/b.lower))
	}
	if len(b.capacity) > 0 {
		v, ok := positive(c.Capacity)
		if ok {
			v /= b.capacity[c.Load]
		}
		part("capacity", max(leastByCapacity, v))
	}
	if len(b.cost) > 0 {
		v, ok := costOf(c)
		if ok {
			v = b.cost[c.Cost.Currency] / v
		}
		part("cost", max(leastByCost, v))
	}
	if c.State.Admission == Degraded {
		part("degraded", degradedShare)
	}
	if step, steps := c.State.ReadmissionStep, p.Readmission.Steps; step > 0 && steps > 0 {
		part("re-admission", float64(min(step, steps))/float64(steps+1))
	}
	weight := int(math.Round(w * MaxWeight))
	return Weighed{Weight: min(MaxWeight, max(1, weight)), Why: strings.Join(parts, ", ")}
}

// costOf is a cost that can be compared.
func costOf(c Candidate) (float64, bool) {
	if c.Cost == nil || c.Cost.Nano <= 0 {
		return 0, false
	}
	return float64(c.Cost.Nano), true
}

// positive is a figure that can be a share of another one; what is no such number
// is unknown.
func positive(p *float64) (float64, bool) {
	if p == nil || !(*p > 0) || math.IsInf(*p, 0) {
		return 0, false
	}
	return *p, true
}

// Rotation is what a router does with a candidate.
type Rotation string

// The values of rotation.
const (
	RotationReady Rotation = "ready" // gets requests, by its weight
	RotationDrain Rotation = "drain" // gets nothing new, what is running ends
	RotationDown  Rotation = "down"  // is not there, or must not answer
)

// RotationOf says what a router does with one in this state. Who must not be
// trusted with what is running (a hard failure), is silent, or was never let in is
// down; everybody else who may not be routed ends what is running.
func RotationOf(n Node) Rotation {
	if ok, _ := Routable(n.Facts); ok {
		return RotationReady
	}
	switch {
	case !n.Valid() || n.Contact != Seen || n.Intent == Retired || !n.Member:
		return RotationDown
	case n.Quarantine != nil && n.Quarantine.Cause == CauseHard:
		return RotationDown
	}
	return RotationDrain
}
