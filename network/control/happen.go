package control

import (
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
)

// enrolled begins a node's life.
func (s *step) enrolled() {
	if s.n.Facts != (Facts{}) {
		s.refuse("the node is enrolled already")
		return
	}
	s.n = Node{
		Facts: Facts{Pending, Serve, Seen}, Version: s.n.Version, PolicyVersion: s.p.Version,
		AdmissionSince: s.now, IntentSince: s.now, ContactSince: s.now, Reasons: []string{"enrolled"},
	}
	s.transition(FactAdmission, "", string(Pending), s.n.Reasons)
	if h := s.host; h != nil {
		s.n.Approval = pointer(h.Approval)
		if v := h.Verification; v.open() && s.now.Before(v.Deadline) {
			// The node's is about its engine, and was asked for by us: a replica that
			// becomes known while it is under way needs no other.
			s.n.Verification = pointer(v)
			return
		}
	}
	s.ask("verification of a newcomer")
}

func (s *step) heartbeat() {
	if s.n.Contact == Seen {
		return
	}
	gone := s.now.Sub(s.n.ContactSince)
	s.touch(Seen, "a heart-beat after "+gone.Round(time.Second).String())
	if gone >= time.Duration(s.p.Silence.VerifyAfter) {
		s.askSoon("it was silent for " + gone.Round(time.Second).String())
	}
}

func (s *step) silence() {
	switch {
	case s.n.Contact == Silent:
	case s.b.Tripped && s.b.Mass && !s.now.Before(s.b.LiftedUntil):
		s.refuse("nobody becomes silent while the breaker is tripped: %s", s.b.Why)
	default:
		s.touch(Silent, "no heart-beat")
	}
}

func (s *step) verificationRequested(e Event) {
	why := foreign.Line(e.Reason, maxText)
	switch {
	case s.n.Admission == Quarantined:
		s.refuse("it is quarantined; readmit it to have it re-verified")
	case s.n.Verification.open():
		s.why("a verification is under way: %s", s.n.Verification.ID)
	case e.Actor.Kind == ActorPerson:
		s.ask(why)
	default:
		s.askSoon(why)
	}
}

func (s *step) verificationStarted() {
	v := s.n.Verification
	if !v.open() {
		s.why("no verification is asked for")
		return
	}
	if v.Began.IsZero() { // only the first start moves the deadline
		v.Began, v.Deadline = s.now, s.now.Add(time.Duration(s.p.Verification.Timeout))
	}
	if s.n.Admission == Pending {
		s.moveTo(Verifying, []string{"the verification " + v.ID + " has started"})
	}
}

// anomaly does what the policy's table says.
func (s *step) anomaly(kind string) {
	if kind = foreign.Line(kind, maxName); kind == "" {
		s.refuse("an anomaly without a kind")
		return
	}
	if s.cleared(kind, s.src.Subject) {
		s.why("a person has decided on %s of %s", kind, foreign.Line(s.src.Subject, maxText))
		return
	}
	reasons := []string{"anomaly: " + kind}
	if s.src.Reason != "" {
		reasons = append(reasons, s.src.Reason)
	}
	if slices.Contains(s.p.Resets, kind) {
		s.notice(NoticeReset, KeyReset, "asks for a reset: %s", kind)
	}
	if slices.Contains(s.p.HardFailures, kind) {
		if s.n.Admission == Quarantined {
			s.harden(CauseHard, reasons[0])
			return
		}
		s.quarantine(CauseHard, reasons)
		return
	}
	for _, a := range s.p.actions(kind) {
		s.act(a, kind, reasons)
	}
}

func (s *step) act(a Action, kind string, reasons []string) {
	switch a {
	case ActionNote:
		s.notice(NoticeNote, KeyAnomaly, "has an %s", strings.Join(reasons, ": "))
	case ActionPage:
		s.notice(NoticePage, KeyAnomaly, "has an %s", strings.Join(reasons, ": "))
	case ActionReverify:
		if s.in(Admitted, Degraded) {
			s.askSoon(reasons[0])
		}
	case ActionDegrade:
		s.degrade(reasons)
	case ActionHold:
		s.hold(kind, reasons)
	case ActionQuarantine:
		if s.n.Admission != Quarantined {
			s.quarantineSoft(reasons)
		}
	}
}
