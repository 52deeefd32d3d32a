package identity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/network/control"
)

// Claim is a card on a node, with where the node stands.
type Claim struct {
	Node    string
	Card    Card
	Member  bool // the node was admitted once
	Retired bool
	Out     *control.Quarantine // nil: the node is neither quarantined nor re-verifying
	Why     string              // it is out; empty: not for who reads the finding
	Settled []string            // subjects of which a person has said that the node may go on
}

// Holder is a node that shows a card.
type holder struct {
	Claim
	since time.Time // without a gap
	rows  []Claim   // all that it showed of the card
}

// Claims judges who else shows the cards of a node. All are the rows of those cards
// on all nodes, the node's own included.
//
// The one that was there first stays as it is: one that was admitted before one that
// was not, else the one that showed the card first. What is found of the second is
// for the policy; of the first it is only noted, since anybody can claim a card. For
// the same reason who claimed a card while another showed it does not become the
// first by waiting until that one's inventory is without it for a moment, as after a
// start without a driver.
func Claims(node string, all []Claim) []Finding {
	var out []Finding
	for _, same := range byCard(all) {
		out = append(out, ofCard(node, same, same[0].Card.subject(), func(c Card) bool { return true })...)
	}
	told := map[string]bool{}
	for _, f := range out {
		told[f.Subject] = true
	}
	for _, same := range byBoard(all) {
		if slices.ContainsFunc(same, func(c Claim) bool { return told[c.Card.subject()] }) {
			continue // the same card, by its UUID
		}
		out = append(out, ofCard(node, same, "board "+Serial(same[0].Card.Serial), Card.ownBoard)...)
	}
	return out
}

func byCard(all []Claim) [][]Claim {
	return grouped(all, func(c Claim) string { return UUID(c.Card.UUID) })
}

func byBoard(all []Claim) [][]Claim {
	return grouped(all, func(c Claim) string { return Serial(c.Card.Serial) })
}

// grouped puts rows of one thing together, in a stable order.
func grouped(all []Claim, key func(Claim) string) (out [][]Claim) {
	of := map[string][]Claim{}
	var keys []string
	for _, c := range all {
		k := key(c)
		if k == "" {
			continue
		}
		if of[k] == nil {
			keys = append(keys, k)
		}
		of[k] = append(of[k], c)
	}
	slices.Sort(keys)
	for _, k := range keys {
		out = append(out, of[k])
	}
	return out
}

// ofCard judges one card.
func ofCard(node string, rows []Claim, subject string, counts func(Card) bool) (out []Finding) {
	holders := holdersOf(rows)
	i := slices.IndexFunc(holders, func(h holder) bool { return h.Node == node && h.Card.Gone.IsZero() })
	if i < 0 {
		return nil // the node does not show it now
	}
	own := holders[i]
	for _, other := range holders {
		if other.Node == node || !other.before(own, subject) || own.Card.part() && other.Card.part() || !counts(own.Card) {
			continue
		}
		switch {
		case other.tainted():
			text := fmt.Sprintf("its %s is quarantined on node %s", subject, other.Node)
			if other.Why != "" {
				text += ": " + other.Why
			}
			out = append(out, found(node, control.FindTainted, subject, text))
		case !other.Retired && other.Card.Gone.IsZero():
			out = append(out,
				found(node, control.FindShared, subject, fmt.Sprintf("node %s has shown the same %s since %s; this one since %s", other.Node, subject, day(other.since), day(own.since))),
				found(other.Node, control.FindClaimed, subject, fmt.Sprintf("node %s shows the same %s since %s; this one was first, and stays as it is", node, subject, day(own.since))))
		default:
			continue // it has moved
		}
		break // one is enough to wait for a person
	}
	return out
}

// tainted says whether the card was on the node while that was quarantined. A card
// that left before is not what it was quarantined with.
func (h holder) tainted() bool {
	return h.Out != nil && (h.Card.Gone.IsZero() || !h.Card.Gone.Before(h.Out.At))
}

// before says whether h showed a card before o did. Of two that were admitted it is
// the one that has shown it for longer without a gap, unless the other one showed it
// when that began, and no person has decided on it.
func (h holder) before(o holder, subject string) bool {
	if h.Member != o.Member {
		return h.Member
	}
	if cmp.Or(h.since.Compare(o.since), strings.Compare(h.Node, o.Node)) > 0 {
		return !o.before(h, subject)
	}
	return slices.Contains(h.Settled, subject) || !o.showed(h.since)
}

// showed says whether the node had the card at a time.
func (h holder) showed(at time.Time) bool {
	return slices.ContainsFunc(h.rows, func(r Claim) bool {
		return r.Card.First.Before(at) && (r.Card.Gone.IsZero() || at.Before(r.Card.Gone))
	})
}

// holdersOf is one row a node, who was first: the newest of its rows, with since
// when it shows the card without a gap.
func holdersOf(rows []Claim) (out []holder) {
	of := map[string][]Claim{}
	for _, r := range rows {
		of[r.Node] = append(of[r.Node], r)
	}
	for _, list := range of {
		slices.SortFunc(list, func(a, b Claim) int { return a.Card.First.Compare(b.Card.First) })
		h := holder{Claim: list[len(list)-1], rows: list}
		h.since = h.Card.First
		for j := len(list) - 2; j >= 0 && list[j].Card.Gone.Equal(h.since); j-- {
			h.since = list[j].Card.First // only something about it changed
		}
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b holder) int {
		if a.Member != b.Member {
			if a.Member {
				return -1
			}
			return 1
		}
		return cmp.Or(a.since.Compare(b.since), strings.Compare(a.Node, b.Node))
	})
	return out
}

// Colleague is another node of the same owner that is quarantined.
type Colleague struct {
	Node  string
	Cause control.Cause
}

// Owner judges a newcomer by what its owner has: nodes whose quarantine waits for a
// person. One for slow results says nothing about its owner.
func Owner(node, owner string, others []Colleague) []Finding {
	var waits []string
	for _, o := range others {
		if o.Node != node && (o.Cause == control.CauseHard || o.Cause == control.CauseHeld || o.Cause == control.CausePerson) {
			waits = append(waits, o.Node)
		}
	}
	if len(waits) == 0 {
		return nil
	}
	slices.Sort(waits)
	return []Finding{found(node, control.FindOwner, "owner "+owner,
		fmt.Sprintf("its owner %s has %d nodes whose quarantine waits for a person, as %s", owner, len(waits), strings.Join(waits[:min(3, len(waits))], ", ")))}
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }
