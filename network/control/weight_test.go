package control

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/assay-bench/assay"
)

func drawFacts(t *rapid.T) Facts {
	return Facts{
		Admission: rapid.SampledFrom([]Admission{Pending, Verifying, Admitted, Admitted, Admitted, Degraded, Quarantined, Reverifying, "new"}).Draw(t, "admission"),
		Intent:    rapid.SampledFrom([]Intent{Serve, Serve, Serve, Draining, Drained, Retired}).Draw(t, "intent"),
		Contact:   rapid.SampledFrom([]Contact{Seen, Seen, Seen, Silent}).Draw(t, "contact"),
	}
}

func drawFigure(most float64) *rapid.Generator[*float64] {
	return rapid.Custom(func(t *rapid.T) *float64 {
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0, 1:
			return nil
		case 2:
			return ptr(rapid.SampledFrom([]float64{0, -1, math.NaN(), math.Inf(1), math.SmallestNonzeroFloat64}).Draw(t, "odd"))
		}
		return ptr(rapid.Float64Range(0.001, most).Draw(t, "value"))
	})
}

func drawCandidate(t *rapid.T) Candidate {
	c := Candidate{
		State:    Node{Facts: drawFacts(t), ReadmissionStep: rapid.IntRange(0, 6).Draw(t, "step")},
		Lower:    drawFigure(1).Draw(t, "lower"),
		Capacity: drawFigure(5000).Draw(t, "capacity"),
		Load:     rapid.SampledFrom([]string{"closed 1", "closed 4"}).Draw(t, "load"),
	}
	if rapid.Bool().Draw(t, "priced") {
		c.Cost = &assay.Money{Nano: rapid.Int64Range(-1, 1e9).Draw(t, "cost"), Currency: rapid.SampledFrom([]string{"USD", "EUR"}).Draw(t, "currency")}
	}
	return c
}

// What is promised of weights, on anything that can be measured.
func TestWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Default()
		p.Readmission.Steps = rapid.IntRange(0, 5).Draw(t, "steps")
		all := rapid.SliceOfN(rapid.Custom(drawCandidate), 1, 6).Draw(t, "candidates")
		got := Weigh(p, all)
		for i, c := range all {
			ok, _ := Routable(c.State.Facts)
			switch w := got[i].Weight; {
			case !ok && w != 0:
				t.Fatalf("%+v may not be routed and has the weight %d", c, w)
			case ok && (w < 1 || w > MaxWeight):
				t.Fatalf("%+v may be routed and has the weight %d", c, w)
			case ok != (RotationOf(c.State) == RotationReady):
				t.Fatalf("%+v: %s", c, RotationOf(c.State))
			}
		}
		i := rapid.IntRange(0, len(all)-1).Draw(t, "whose")
		never := func(what string, change func(*Candidate)) {
			other := append([]Candidate(nil), all...)
			change(&other[i])
			if w := Weigh(p, other)[i]; w.Weight > got[i].Weight {
				t.Fatalf("%s: %d became %d (%s)\n%+v", what, got[i].Weight, w.Weight, w.Why, all)
			}
		}
		never("hiding the score", func(c *Candidate) { c.Lower = nil })
		never("hiding the capacity", func(c *Candidate) { c.Capacity = nil })
		never("hiding the cost", func(c *Candidate) { c.Cost = nil })
		never("hiding everything", func(c *Candidate) { c.Lower, c.Capacity, c.Cost = nil, nil, nil })
		never("a lower score", func(c *Candidate) { c.Lower = scaled(c.Lower, 0.5) })
		never("less capacity", func(c *Candidate) { c.Capacity = scaled(c.Capacity, 0.5) })
		never("a higher cost", func(c *Candidate) {
			if c.Cost != nil && c.Cost.Nano > 0 {
				c.Cost = &assay.Money{Nano: 2 * c.Cost.Nano, Currency: c.Cost.Currency}
			}
		})
		never("degraded", func(c *Candidate) {
			if c.State.Admission == Admitted {
				c.State.Admission = Degraded
			}
		})
		never("a step of re-admission", func(c *Candidate) {
			if c.State.ReadmissionStep == 0 {
				c.State.ReadmissionStep = 1
			}
		})
		never("silent", func(c *Candidate) { c.State.Contact = Silent })
	})
}

func scaled(p *float64, by float64) *float64 {
	if p == nil {
		return nil
	}
	return ptr(*p * by)
}

// The numbers of docs/routing.md.
func TestWeightsWorked(t *testing.T) {
	in := Node{Facts: Facts{Admitted, Serve, Seen}, Member: true}
	degraded, returning := in, in
	degraded.Admission, returning.ReadmissionStep = Degraded, 1
	dollars := func(cents int64) *assay.Money { return &assay.Money{Nano: cents * 1e7, Currency: "USD"} }
	all := []Candidate{
		{State: in, Lower: ptr(0.96), Capacity: ptr(2000.0), Load: "closed 4", Cost: dollars(20)},
		{State: in, Lower: ptr(0.90), Capacity: ptr(1000.0), Load: "closed 4", Cost: dollars(25)},
		{State: degraded, Lower: ptr(0.60), Capacity: ptr(1500.0), Load: "closed 4", Cost: dollars(20)},
		{State: returning, Lower: ptr(0.96), Capacity: ptr(2000.0), Load: "closed 4", Cost: dollars(20)},
		{State: in, Lower: nil, Capacity: ptr(2000.0), Load: "closed 4", Cost: dollars(20)},
		{State: in},
	}
	want := []int{100, 38, 23, 20, 25, 1}
	for i, w := range Weigh(Default(), all) {
		if w.Weight != want[i] {
			t.Errorf("candidate %d has the weight %d, and not %d: %s", i+1, w.Weight, want[i], w.Why)
		}
	}
	for i, w := range Weigh(Default(), []Candidate{{State: in}, {State: in}}) {
		if w.Weight != MaxWeight {
			t.Errorf("where nothing is known of anybody, candidate %d has the weight %d: %s", i+1, w.Weight, w.Why)
		}
	}
}

func TestJointIsNeverMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Node {
			return Node{Facts: rapid.Custom(drawFacts).Draw(t, name), ReadmissionStep: rapid.IntRange(0, 4).Draw(t, name+"'s step"), Member: true}
		}
		node, replica := draw("node"), draw("replica")
		weight := func(n Node) int { return Weigh(Default(), []Candidate{{State: n}})[0].Weight }
		both, least := weight(Joint(node, replica)), min(weight(node), weight(replica))
		if both > least || least > 0 && both == 0 {
			t.Fatalf("%+v and %+v: %d, and not at most %d", node, replica, both, least)
		}
		if routable, why := RoutableReplica(node.Facts, replica.Facts); routable != (both > 0) {
			t.Fatalf("%+v and %+v: weight %d, routable %v: %s", node, replica, both, routable, why)
		}
	})
}

func TestRotation(t *testing.T) {
	hard := &Quarantine{Cause: CauseHard}
	for _, c := range []struct {
		n    Node
		want Rotation
	}{
		{Node{Facts: Facts{Admitted, Serve, Seen}, Member: true}, RotationReady},
		{Node{Facts: Facts{Degraded, Serve, Seen}, Member: true}, RotationReady},
		{Node{Facts: Facts{Admitted, Draining, Seen}, Member: true}, RotationDrain},
		{Node{Facts: Facts{Admitted, Drained, Seen}, Member: true}, RotationDrain},
		{Node{Facts: Facts{Quarantined, Serve, Seen}, Member: true, Quarantine: &Quarantine{Cause: CauseSoft}}, RotationDrain},
		{Node{Facts: Facts{Reverifying, Serve, Seen}, Member: true, Quarantine: &Quarantine{Cause: CauseSoft}}, RotationDrain},
		{Node{Facts: Facts{Quarantined, Serve, Seen}, Member: true, Quarantine: hard}, RotationDown},
		{Node{Facts: Facts{Reverifying, Serve, Seen}, Member: true, Quarantine: hard}, RotationDown},
		{Node{Facts: Facts{Admitted, Serve, Silent}, Member: true}, RotationDown},
		{Node{Facts: Facts{Admitted, Retired, Seen}, Member: true}, RotationDown},
		{Node{Facts: Facts{Pending, Serve, Seen}}, RotationDown},
		{Node{Facts: Facts{"new", Serve, Seen}, Member: true}, RotationDown},
		{Node{}, RotationDown},
	} {
		if got := RotationOf(c.n); got != c.want {
			t.Errorf("%s: %s, and not %s", fmt.Sprint(c.n.Facts), got, c.want)
		}
	}
}
