package control

import (
	"fmt"
	"math"
	"time"
)

// Breakers are the one for nodes and the one for replicas. The server stores them
// in one row and changes it in one transaction with the node or the replica.
// Replicas have counts of their own, since a report that takes out a replica takes
// it from the routers, whether its node is out or not; what a person lifts and what
// mass silence trips is one for both, and is kept with the nodes'.
type Breakers struct {
	Breaker
	Replicas Breaker `json:"replicas,omitzero"`
}

// For is the breaker that bounds nodes, or replicas.
func (b Breakers) For(replica bool) Breaker {
	if !replica {
		return b.Breaker
	}
	r := b.Replicas
	r.Version, r.LiftedUntil, r.LiftedBy = b.Version, b.LiftedUntil, b.LiftedBy
	if b.Tripped && b.Mass {
		r.Tripped, r.Mass, r.Since, r.Why = true, true, b.Since, b.Why
	}
	return r
}

// With has the breaker of nodes, or of replicas, as a step left it.
func (b Breakers) With(replica bool, next Breaker) Breakers {
	if !replica {
		b.Breaker = next
		return b
	}
	b.Version = next.Version
	if next.Mass { // not its own
		next.Tripped, next.Since, next.Why = b.Replicas.Tripped, b.Replicas.Since, b.Replicas.Why
	}
	next.Version, next.Mass, next.LiftedUntil, next.LiftedBy = 0, false, time.Time{}, Actor{}
	b.Replicas = next
	return b
}

// Lift lets a person take the hold of both away.
func (b Breakers) Lift(p Policy, by Actor, until, now time.Time) (Breakers, error) {
	next, err := b.Breaker.Lift(p, by, until, now)
	if err != nil {
		return b, err
	}
	b.Breaker, b.Replicas = next, b.Replicas.clear()
	return b, nil
}

// Recount takes counts that were made anew from all nodes and replicas: after a
// restore, and for replicas that their nodes do not have any more.
func (b Breakers) Recount(nodes, replicas Counts) Breakers {
	next := b
	next.Members, next.Out = nodes.Members, nodes.Out
	next.Replicas.Members, next.Replicas.Out = replicas.Members, replicas.Out
	if next != b {
		next.Version++
	}
	return next
}

// Counts are how many were admitted once, and how many of them are out.
type Counts struct{ Members, Out int }

// Breaker bounds how much of the network is out of rotation by decision.
type Breaker struct {
	Version int64 `json:"version"`
	// Members were admitted once and are not retired; Out are those of them that
	// are quarantined or re-verifying.
	Members int `json:"members"`
	Out     int `json:"out"`

	// Tripped is whether it held something back, since when and why.
	Tripped bool      `json:"tripped,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Why     string    `json:"why,omitempty"`
	// Mass is whether it was mass silence.
	Mass bool `json:"mass,omitempty"`

	// LiftedUntil is until when it holds nothing, by a person's word.
	LiftedUntil time.Time `json:"lifted_until,omitzero"`
	LiftedBy    Actor     `json:"lifted_by,omitzero"`
}

// Limit is how many members may be out: a share, and at least one.
func (b Breaker) Limit(p Policy) int { return limit(p.Breaker.Share, b.Members) }

func limit(share float64, of int) int {
	n := math.Floor(share*float64(of) + 1e-9) // 0.1 × 30 is 3, not a little less
	if !(n > 1) {
		return 1
	}
	return int(min(n, float64(of)))
}

// Holds says whether one more soft quarantine is held back, and why.
func (b Breaker) Holds(p Policy, now time.Time) (bool, string) {
	switch {
	case now.Before(b.LiftedUntil):
		return false, ""
	case b.Tripped && b.Mass:
		return true, b.Why
	case b.Out >= b.Limit(p):
		return true, fmt.Sprintf("%d of %d are out of rotation, and %d may be without a person", b.Out, b.Members, b.Limit(p))
	}
	return false, ""
}

// Lift lets a person take the breaker's hold away until a time, at most as far
// away as an override. It says why not.
func (b Breaker) Lift(p Policy, by Actor, until, now time.Time) (Breaker, error) {
	if by.Kind != ActorPerson {
		return b, fmt.Errorf("lift the breaker: only a person may")
	}
	if longest := now.Add(time.Duration(p.Override.Max)); !until.After(now) || until.After(longest) {
		return b, fmt.Errorf("lift the breaker: until %s is not within the next %s", until.UTC().Format(time.RFC3339), p.Override.Max)
	}
	b.LiftedUntil, b.LiftedBy = until, by
	b = b.clear()
	b.Version++
	return b, nil
}

func (b Breaker) clear() Breaker {
	b.Tripped, b.Since, b.Why, b.Mass = false, time.Time{}, "", false
	return b
}

// trip notes that something was held back; it pages once.
func (b Breaker) trip(why string, mass bool, now time.Time) (Breaker, []Notice) {
	if b.Tripped && (b.Mass || !mass) {
		return b, nil
	}
	if !b.Tripped {
		b.Since = now
	}
	b.Tripped, b.Mass, b.Why = true, mass, why
	return b, []Notice{{Kind: NoticePage, Key: KeyBreaker, Text: "the breaker has tripped: " + why}}
}

// settle ends a trip for the share when there is room again.
func (b Breaker) settle(p Policy) (Breaker, []Notice) {
	if !b.Tripped || b.Mass || b.Out >= b.Limit(p) {
		return b, nil
	}
	return b.clear(), []Notice{{Kind: NoticePage, Key: KeyBreaker, Resolved: true, Text: "the breaker holds nothing any more"}}
}

// counted says whether a node is a member, and whether it is out.
func counted(n Node) (member, out int) {
	if !n.Member || n.Intent == Retired {
		return 0, 0
	}
	if n.Admission == Quarantined || n.Admission == Reverifying {
		return 1, 1
	}
	return 1, 0
}
