package control

import (
	"slices"
	"strings"
	"time"
)

// in says whether the node has one of the values.
func (s *step) in(values ...Admission) bool { return slices.Contains(values, s.n.Admission) }

// kept says whether a person wants the node to stay where it is.
func (s *step) kept() bool { return s.n.Override != nil && s.n.Override.Kind == OverrideKeep }

// admit puts a node into rotation. Who calls it has a passing verification, or a
// row of good reports of a degraded node.
func (s *step) admit(reasons []string) {
	from := s.n.Admission
	s.n.Good, s.n.Bad, s.n.Severe, s.n.Unknown = 0, 0, 0, 0
	s.n.Quarantine, s.n.Retries, s.n.AskAgain = nil, 0, time.Time{}
	if from == Reverifying {
		s.n.ReadmissionStep, s.n.StepSince = min(1, max(0, s.p.Readmission.Steps)), s.now
	}
	s.moveTo(Admitted, reasons)
	switch from {
	case Degraded:
		s.resolved(KeyDegraded, "is admitted again")
	case Reverifying:
		s.resolved(KeyQuarantine, "is admitted again, in steps")
	default:
		s.resolved(KeyApproval, "is admitted")
	}
}

// degrade leaves a node in rotation with reservations.
func (s *step) degrade(reasons []string) {
	if s.kept() {
		s.why("would be degraded, and is kept: %s", strings.Join(reasons, "; "))
		return
	}
	if s.n.Admission != Admitted {
		return
	}
	s.flap()
	s.n.Good = 0
	s.moveTo(Degraded, reasons)
	s.notice(NoticeNote, KeyDegraded, "is degraded: %s", strings.Join(reasons, "; "))
}

// quarantineSoft takes a node out of rotation if neither a person nor the breaker
// holds that back. Who is not in rotation is not held back: nothing is lost.
func (s *step) quarantineSoft(reasons []string) { s.quarantineGently(CauseSoft, reasons) }

// quarantineGently is quarantineSoft for a cause.
func (s *step) quarantineGently(cause Cause, reasons []string) {
	if !s.in(Admitted, Degraded) {
		s.quarantine(cause, reasons)
		return
	}
	if s.kept() {
		s.why("would be quarantined, and is kept: %s", strings.Join(reasons, "; "))
		return
	}
	if holds, why := s.b.Holds(s.p, s.now); holds {
		var notices []Notice
		s.b, notices = s.b.trip(why, false, s.now)
		s.out.Notices = append(s.out.Notices, notices...)
		s.why("would be quarantined, and the breaker holds: %s", why)
		s.degrade(append(slices.Clone(reasons), "the breaker holds the quarantine back: "+why))
		return
	}
	s.quarantine(cause, reasons)
}

// quarantine takes a node out, whatever the breaker says.
func (s *step) quarantine(cause Cause, reasons []string) {
	from := s.n.Admission
	if from == Admitted || from == Degraded {
		s.flap()
	}
	if from == Reverifying {
		s.n.Retries = min(s.n.Retries+1, maxCount)
		if q := s.n.Quarantine; q != nil && stricter(q.Cause, cause) {
			cause = q.Cause // a try that failed does not turn a hard cause into a soft one
		}
	}
	s.n.Quarantine = &Quarantine{Cause: cause, At: s.now}
	if cause == CauseSoft {
		s.n.Quarantine.RetryAt = s.now.Add(s.wait())
	}
	s.n.Good, s.n.Bad, s.n.Severe, s.n.Unknown, s.n.ReadmissionStep = 0, 0, 0, 0, 0
	s.n.Approval, s.n.Verification, s.n.AskAgain = nil, nil, time.Time{}
	if s.kept() {
		s.n.Override = nil
	}
	s.moveTo(Quarantined, reasons)
	s.announce(cause, strings.Join(reasons, "; "))
	if now := s.now; cause == CauseHard && s.b.Out > s.b.Limit(s.p) && !now.Before(s.b.LiftedUntil) {
		var notices []Notice
		s.b, notices = s.b.trip("hard failures took more than the breaker's share out of rotation", false, now)
		s.out.Notices = append(s.out.Notices, notices...)
	}
}

func (s *step) announce(cause Cause, why string) {
	kind := NoticeTicket
	switch cause {
	case CauseHard:
		kind = NoticePage
	case CausePerson, CauseOverride:
		kind = NoticeNote
	}
	s.notice(kind, KeyQuarantine, "is quarantined: %s", why)
}

// harden makes a quarantine wait for a person.
func (s *step) harden(cause Cause, why string) {
	if q := s.n.Quarantine; q != nil && !stricter(cause, q.Cause) {
		return
	}
	s.n.Quarantine = &Quarantine{Cause: cause, At: s.now}
	s.announce(cause, why)
}

// stricter says whether a waits for more than b.
func stricter(a, b Cause) bool { return strictness(a) > strictness(b) }

func strictness(c Cause) int {
	return slices.Index([]Cause{CauseSoft, CauseOverride, CauseHeld, CausePerson, CauseHard}, c)
}

// wait is how long a soft quarantine lasts: twice as long after each try.
func (s *step) wait() time.Duration {
	d, most := time.Duration(s.p.Quarantine.Retry), time.Duration(s.p.Quarantine.MaxRetry)
	for range min(s.n.Retries, 32) {
		if d >= most/2 {
			return most
		}
		d *= 2
	}
	return min(d, most)
}

// flap counts a move down.
func (s *step) flap() {
	s.n.Flaps = append(s.n.Flaps, s.now)
	s.n.Flaps = s.n.Flaps[max(0, len(s.n.Flaps)-maxFlaps):]
}

// flapping says whether the node may not move up by itself, and tells it once.
func (s *step) flapping() bool {
	if len(s.n.Flaps) < max(1, s.p.Flaps.Limit) {
		return false
	}
	if !s.n.FlapHeld {
		s.n.FlapHeld = true
		s.notice(NoticeTicket, KeyFlapping, "went down %d times within %s, and stays as it is until that is over or a person readmits it", len(s.n.Flaps), s.p.Flaps.Window)
	}
	s.why("stays as it is: it went down %d times within %s", len(s.n.Flaps), s.p.Flaps.Window)
	return true
}
