package summary

import (
	"fmt"
	"math"

	"github.com/assay-bench/assay"
)

const (
	// energyOff is the disagreement between counter and integration from which
	// one of them is doubted.
	energyOff = 0.02
	// coveredLeast is the share of a steady window that energy must be known of:
	// a part of the joules for all of the tokens would flatter.
	coveredLeast = 0.95
)

// flow is energy by one way, counter or integration, where it was used.
type flow struct {
	joules float64 // under load
	ns     float64 // of load that joules are of
	stages []stageFlow
}

// stageFlow is the energy of a stage's steady window.
type stageFlow struct {
	joules, ns float64
	windows    slots[float64]
}

func newFlow(p *periods) flow {
	f := flow{stages: make([]stageFlow, len(p.steady))}
	for i := range f.stages {
		f.stages[i].windows = slots[float64]{anchor: p.steady[i].anchor, width: p.width, merge: mergeSum}
	}
	return f
}

// add takes a stretch in which power went from one value to another in a
// straight line.
func (f *flow) add(p *periods, from, to int64, watts, then float64) {
	if to <= from {
		return
	}
	slope := (then - watts) / float64(to-from)
	energy := func(a, b int64) float64 {
		middle := watts + slope*(float64(a-from)+float64(b-from))/2
		return middle * float64(b-a) / 1e9
	}
	for _, l := range p.loaded {
		if l.from >= to {
			break
		}
		if a, b := max(from, l.from), min(to, l.to); a < b {
			f.joules += energy(a, b)
			f.ns += float64(b - a)
		}
	}
	for i := range p.steady {
		s := &p.steady[i]
		a, b := max(from, s.from), min(to, s.to)
		if a >= b {
			continue
		}
		st := &f.stages[i]
		st.joules += energy(a, b)
		st.ns += float64(b - a)
		for a < b {
			cell := st.windows.at(a)
			edge := min(b, st.windows.edge(a))
			*cell += energy(a, edge)
			a = edge
		}
	}
}

// energy is a GPU's account of it.
type energy struct {
	counter, power       flow
	hasCounter, hasPower bool
	refused              string
	before               average // watts before the first stage
}

// reading takes a reading that follows another of its series.
func (e *energy) reading(p *periods, name string, from int64, was float64, to int64, now float64) {
	switch name {
	case assay.GPUEnergy:
		if now < was {
			if e.refused == "" {
				e.refused = fmt.Sprintf("it fell from %.1f J to %.1f J", was, now)
			}
			return
		}
		e.hasCounter = true
		watts := (now - was) / float64(to-from) * 1e9
		e.counter.add(p, from, to, watts, watts)
	case assay.GPUPower:
		// What happened in a longer gap is not known: the integral is then a
		// lower bound, and the counter beside it says so.
		if to-from <= heldMost && was >= 0 && now >= 0 {
			e.hasPower = true
			e.power.add(p, from, to, was, now)
		}
	}
}

// idle takes power before the load.
func (e *energy) idle(watts float64) {
	if watts >= 0 {
		e.before.sum += watts
		e.before.n++
	}
}

// best is the way that is believed: the counter, which misses nothing, unless it
// was refused.
func (e *energy) best() *flow {
	switch {
	case e.hasCounter && e.refused == "":
		return &e.counter
	case e.hasPower:
		return &e.power
	}
	return nil
}

func (e *energy) summary() *assay.EnergySummary {
	if !e.hasCounter && !e.hasPower && e.refused == "" {
		return nil
	}
	s := &assay.EnergySummary{Refused: e.refused}
	if e.hasCounter && e.refused == "" && e.counter.ns > 0 {
		s.Counter = &e.counter.joules
	}
	if e.hasPower && e.power.ns > 0 {
		s.Integrated = &e.power.joules
	}
	if b := e.best(); b != nil && b.ns > 0 {
		s.Joules = &b.joules
		if e.before.n > 0 {
			v := e.before.sum / float64(e.before.n) * b.ns / 1e9
			s.Idle = &v
		}
	}
	s.Disagreement = disagreement(s.Counter, s.Integrated)
	return s
}

func disagreement(counter, integrated *float64) *float64 {
	if counter == nil || integrated == nil || !(*integrated > 0) {
		return nil
	}
	v := *counter / *integrated - 1
	if math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// together is the energy of all GPUs. It is null where one of them does not say:
// the sum of the others is not the node's. why says which.
func together(gpus []assay.GPUSummary, missing []string) (sum *assay.EnergySummary, why string) {
	add := func(total, part *float64) *float64 {
		if total == nil || part == nil {
			return nil
		}
		v := *total + *part
		return &v
	}
	some := false
	for _, g := range gpus {
		if g.Energy != nil && g.Energy.Joules != nil {
			some = true
		}
	}
	if !some {
		return nil, ""
	}
	zero := func() *float64 { return new(float64) }
	sum = &assay.EnergySummary{Joules: zero(), Counter: zero(), Integrated: zero(), Idle: zero()}
	for _, g := range gpus {
		e := g.Energy
		if e == nil {
			e = &assay.EnergySummary{}
		}
		if e.Joules == nil {
			missing = append(missing, g.UUID)
		}
		sum.Joules = add(sum.Joules, e.Joules)
		sum.Counter = add(sum.Counter, e.Counter)
		sum.Integrated = add(sum.Integrated, e.Integrated)
		sum.Idle = add(sum.Idle, e.Idle)
	}
	if len(missing) > 0 {
		return nil, fmt.Sprintf("energy of the node is not known, because %s says nothing of its own", names(missing))
	}
	sum.Disagreement = disagreement(sum.Counter, sum.Integrated)
	return sum, ""
}

// names lists GPUs for a sentence, at most three of them.
func names(uuids []string) string {
	if n := len(uuids); n > 3 {
		return fmt.Sprintf("GPU %s and %d others", uuids[0], n-1)
	}
	out := ""
	for i, u := range uuids {
		if i > 0 {
			out += ", "
		}
		out += "GPU " + u
	}
	return out
}
