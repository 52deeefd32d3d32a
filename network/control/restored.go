package control

import (
	"slices"
	"time"
)

// Restored is a node as later transitions say that it was: n comes from a backup,
// and the transitions were signed after it. Those that n has already count no
// second time.
//
// It is in the state that the last of them led to, and in none that is better. What
// they do not tell is taken at its worst: who is out waits for a person, what was
// counted counts from nothing, nobody is kept in by an override, and everybody else
// is verified again.
func Restored(p Policy, n Node, later []Transition, now time.Time) Node {
	n = copyOf(n)
	later = slices.DeleteFunc(slices.Clone(later), func(t Transition) bool { return t.NodeVersion <= n.Version })
	if len(later) == 0 {
		return n
	}
	slices.SortStableFunc(later, func(a, b Transition) int { return int(a.NodeVersion - b.NodeVersion) })
	was := n.Admission
	if n.Facts == (Facts{}) {
		n.Facts = Facts{Pending, Serve, Seen}
		n.AdmissionSince, n.IntentSince, n.ContactSince = now, now, now
	}
	for _, t := range later {
		n.follow(t)
	}
	n.Good, n.Bad, n.Severe, n.Unknown = 0, 0, 0, 0
	n.Verification, n.AskAgain = nil, now
	if n.Override != nil && n.Override.Kind == OverrideKeep {
		n.Override = nil
	}
	switch n.Admission {
	case Quarantined, Reverifying:
		if n.Quarantine == nil || stricter(CausePerson, n.Quarantine.Cause) {
			n.Quarantine = &Quarantine{Cause: CausePerson, At: n.AdmissionSince}
		}
		n.Quarantine.RetryAt = time.Time{}
		n.Approval, n.ReadmissionStep = nil, 0
	default:
		n.Quarantine = nil
		if n.Admission == Admitted && was != Admitted {
			n.ReadmissionStep, n.StepSince = min(1, max(0, p.Readmission.Steps)), now
		}
	}
	if n.Intent == Draining {
		n.DrainBy = now // until when it was to last is not known
	}
	n.Version = later[len(later)-1].NodeVersion + 1
	return n
}

// follow takes a transition over. One to a value that this version does not know
// makes the node one that takes no event.
func (n *Node) follow(t Transition) {
	switch t.Fact {
	case FactAdmission:
		n.Admission, n.AdmissionSince, n.Reasons = Admission(t.To), t.At, bounded(t.Reasons)
		n.Member = n.Member || n.Admission == Admitted
	case FactIntent:
		n.Intent, n.IntentSince = Intent(t.To), t.At
	case FactContact:
		n.Contact, n.ContactSince = Contact(t.To), t.At
	}
}
