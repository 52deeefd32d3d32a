package control

import (
	"slices"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
)

// Kinds of findings about who a node is: what the policy's table of anomalies
// names. docs/identity.md says how each is found.
const (
	FindShared   = "gpu_shared"         // it shows a card that another node showed first
	FindClaimed  = "gpu_claimed"        // another node shows a card that this one showed first
	FindTainted  = "gpu_quarantined"    // it shows a card that is quarantined on another node
	FindOwner    = "owner_quarantined"  // its owner has nodes whose quarantine waits for a person
	FindChanged  = "gpu_changed"        // another card is in a slot
	FindAltered  = "identity_changed"   // what cannot change about a card did
	FindMounted  = "driver_mounted"     // the driver's files are mounts, and it is no container
	FindMismatch = "identity_mismatch"  // the kernel shows another card than the driver
	FindPhysics  = "beyond_physics"     // results better than the card can be
	FindReplayed = "challenge_replayed" // an answer to an old challenge
)

// bystander says whether a kind is about a node that did nothing. Whoever claims
// another's card would take it out of rotation if anything followed by itself.
func bystander(kind string) bool { return kind == FindClaimed }

// maxHolds bounds what is remembered of findings that wait for a person.
const maxHolds = 32

// Hold is a finding that waits for a person, or did.
type Hold struct {
	Kind    string    `json:"kind"`
	Subject string    `json:"subject,omitempty"`
	Text    string    `json:"text,omitempty"`
	At      time.Time `json:"at"`
	// Cleared is a person's word that the node may go on in spite of it; nil: it
	// waits. The same finding about the same subject has no consequence any more.
	Cleared *Approval `json:"cleared,omitempty"`
}

// Held is what waits for a person.
func (n Node) Held() []Hold {
	return slices.DeleteFunc(slices.Clone(n.Holds), func(h Hold) bool { return h.Cleared != nil })
}

// cleared says whether a person has decided on a finding. One without a subject is
// decided on each time.
func (s *step) cleared(kind, subject string) bool {
	return subject != "" && slices.ContainsFunc(s.n.Holds, func(h Hold) bool {
		return h.Cleared != nil && h.Kind == kind && h.Subject == subject
	})
}

// hold has a node wait for a person: a newcomer stays pending whatever it measures,
// one in rotation is taken out, and no time leads back.
func (s *step) hold(kind string, reasons []string) {
	h := Hold{Kind: kind, Subject: foreign.Line(s.src.Subject, maxText), Text: foreign.Line(s.src.Reason, maxText), At: s.now}
	if !s.remember(h) {
		return
	}
	switch s.n.Admission {
	case Pending, Verifying:
		s.n.Reasons = bounded(reasons)
		s.notice(NoticeTicket, KeyHold, "waits for a person: %s", h.words())
		s.why("it is held: %s", h.words())
	case Quarantined:
		s.harden(CauseHeld, h.words())
	case Reverifying:
		s.quarantine(CauseHeld, reasons)
	default:
		s.quarantineGently(CauseHeld, reasons)
	}
}

// takeOutHeld takes a node out whose hold the breaker has held back, once there is
// room: else who trips the breaker first could cheat afterwards.
func (s *step) takeOutHeld() {
	if !s.in(Admitted, Degraded) || s.kept() {
		return
	}
	if held := s.held(); len(held) > 0 {
		if holds, _ := s.b.Holds(s.p, s.now); !holds {
			s.quarantine(CauseHeld, held)
		}
	}
}

// remember adds a hold, and says whether it is new. Where there are too many the
// oldest that was decided on is forgotten; one more that waits changes nothing.
func (s *step) remember(h Hold) bool {
	same := func(o Hold) bool { return o.Cleared == nil && o.Kind == h.Kind && o.Subject == h.Subject }
	if slices.ContainsFunc(s.n.Holds, same) {
		s.why("it is held already: %s", h.words())
		return false
	}
	if len(s.n.Holds) >= maxHolds {
		i := slices.IndexFunc(s.n.Holds, func(o Hold) bool { return o.Cleared != nil })
		if i < 0 {
			s.why("it is held already, by %d findings", len(s.n.Holds))
			return false
		}
		s.n.Holds = slices.Delete(s.n.Holds, i, i+1)
	}
	s.n.Holds = append(s.n.Holds, h)
	return true
}

func (h Hold) words() string {
	if h.Text == "" {
		return h.Kind
	}
	return h.Kind + ": " + h.Text
}

// held says whether something waits for a person, and what in words.
func (s *step) held() (reasons []string) {
	for _, h := range s.n.Held() {
		reasons = append(reasons, "held until a person decides: "+h.words())
	}
	return reasons
}

// decide takes a person's word on all that waits for one, and says whether there
// was something.
func (s *step) decide(e Event) bool {
	any := false
	for i := range s.n.Holds {
		if h := &s.n.Holds[i]; h.Cleared == nil {
			h.Cleared = &Approval{By: e.Actor, At: s.now, Reason: foreign.Line(e.Reason, maxText)}
			any = true
		}
	}
	if any {
		s.resolved(KeyHold, "is not held any more")
	}
	return any
}
