package control

import (
	"fmt"
	"math"
	"time"
)

// Breaker bounds how much of the network is out of rotation by decision. There is
// one for nodes and one for replicas; the server stores it in one row and changes
// it in one transaction with the node.
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
		return true, fmt.Sprintf("%d of %d nodes are out of rotation, and %d may be without a person", b.Out, b.Members, b.Limit(p))
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

// Recount makes the breaker's counts anew from all nodes, after a restore.
func (b Breaker) Recount(nodes []Node) Breaker {
	members, out := 0, 0
	for _, n := range nodes {
		m, o := counted(n)
		members, out = members+m, out+o
	}
	if b.Members != members || b.Out != out {
		b.Members, b.Out = members, out
		b.Version++
	}
	return b
}
