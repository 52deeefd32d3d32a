package control

import (
	"fmt"
	"slices"
	"time"
)

// due does what the time has brought, with any event.
func (s *step) due() {
	n := &s.n
	if n.Facts == (Facts{}) {
		return
	}
	if n.PolicyVersion != s.p.Version {
		n.PolicyVersion = s.p.Version
		n.Good, n.Bad, n.Severe, n.Unknown = 0, 0, 0, 0 // counted by other thresholds
	}
	if n.Override != nil && !s.now.Before(n.Override.Until) {
		n.Override = nil
	}
	n.Flaps = slices.DeleteFunc(n.Flaps, func(t time.Time) bool { return s.now.Sub(t) >= time.Duration(s.p.Flaps.Window) })
	if len(n.Flaps) == 0 {
		n.Flaps = nil
	}
	if n.FlapHeld && len(n.Flaps) < max(1, s.p.Flaps.Limit) {
		n.FlapHeld = false
		s.resolved(KeyFlapping, "may move up again")
	}
	if n.Intent == Draining && (n.DrainBy.IsZero() || s.reached(n.DrainBy)) {
		n.DrainBy = time.Time{}
		s.intend(Drained, "the deadline has come; something may be running still")
	}
	if n.Verification.open() && s.reached(n.Verification.Deadline) {
		s.timedOut()
	}
}

func (s *step) timedOut() {
	n := &s.n
	why := fmt.Sprintf("the verification %s timed out", n.Verification.ID)
	n.Verification.Deadline, n.AskAgain = time.Time{}, s.now.Add(time.Duration(s.p.Verification.Retry))
	switch n.Admission {
	case Verifying:
		s.moveTo(Pending, []string{why})
	case Reverifying:
		s.quarantineSoft([]string{why})
	case Admitted, Degraded:
		if n.Contact == Seen { // who is silent is out of rotation for that
			s.tally(GradeUnknown)
			s.unknown([]string{why})
		}
	}
}

// tick asks for what is wanted by now.
func (s *step) tick() {
	n := &s.n
	if n.Contact != Seen {
		return // it would not hear
	}
	if n.Admission == Quarantined {
		if q := n.Quarantine; n.Override == nil && q != nil && s.reached(q.RetryAt) && (q.Cause == CauseOverride || !s.flapping()) {
			s.moveTo(Reverifying, []string{"it is time for another try"})
			s.ask("re-verification after quarantine")
		}
		return
	}
	switch {
	case n.Verification.open():
	case s.reached(n.AskAgain):
		s.ask("asked for again")
	case s.reached(overdue(s.p, *n)):
		s.ask("no report could be judged for " + s.p.Verification.MaxAge.String())
	}
}

// overdue is when a node in rotation is asked because nothing can be said of it
// any more; zero: never.
func overdue(p Policy, n Node) time.Time {
	if n.Admission != Admitted && n.Admission != Degraded || !n.AskAgain.IsZero() {
		return time.Time{}
	}
	at := latest(n.LastJudged, n.AdmissionSince).Add(time.Duration(p.Verification.MaxAge))
	if n.Verification != nil {
		at = latest(at, n.Verification.Asked.Add(time.Duration(p.Verification.MinInterval)))
	}
	return at
}

// ask asks for a verification. Who is quarantined gets none: only re-verifying
// leads out. It says whether one is under way now.
func (s *step) ask(why string) bool {
	if s.n.Admission == Quarantined {
		return false
	}
	if s.n.Verification.open() {
		return true
	}
	s.n.AskAgain = time.Time{}
	if v := s.shared(); v != nil {
		s.n.Verification = &Verification{ID: v.ID, Asked: s.now, Deadline: v.Deadline, Why: why}
		return true
	}
	id := fmt.Sprintf("verify-%d", s.n.Version+1)
	until := s.now.Add(time.Duration(s.p.Verification.Timeout))
	s.n.Verification = &Verification{ID: id, Asked: s.now, Deadline: until, Why: why}
	s.out.Commands = append(s.out.Commands, Command{ID: id, Kind: CommandVerify, Expires: until, Why: why})
	return true
}

// shared is the verification of a replica's node that answers for the replica too:
// one that was asked for and has not begun. Nil: there is none.
func (s *step) shared() *Verification {
	if s.host == nil {
		return nil
	}
	if v := s.host.Verification; v.open() && v.Began.IsZero() && s.now.Before(v.Deadline) {
		return v
	}
	return nil
}

// askSoon asks unless one was asked for within the shortest interval.
func (s *step) askSoon(why string) {
	if v := s.n.Verification; v != nil && !s.reached(v.Asked.Add(time.Duration(s.p.Verification.MinInterval))) {
		s.why("a verification was asked for less than %s ago", s.p.Verification.MinInterval)
		return
	}
	s.ask(why)
}

// Due is when a node next needs a tick; zero: when something happens to it.
func Due(p Policy, n Node) time.Time {
	if n.Facts == (Facts{}) || !n.Valid() || n.Intent == Retired {
		return time.Time{}
	}
	var next time.Time
	at := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	at(n.DrainBy)
	if n.Override != nil {
		at(n.Override.Until)
	}
	if n.Verification.open() {
		at(n.Verification.Deadline)
	}
	if n.Contact != Seen {
		return next
	}
	switch {
	case n.Admission == Quarantined:
		at(retryAt(p, n))
	case n.Verification.open():
	case !n.AskAgain.IsZero():
		at(n.AskAgain)
	default:
		at(overdue(p, n))
	}
	return next
}

// retryAt is when a quarantine is tried again by itself.
func retryAt(p Policy, n Node) time.Time {
	q := n.Quarantine
	if q == nil || q.RetryAt.IsZero() {
		return time.Time{}
	}
	at := q.RetryAt
	if over := len(n.Flaps) - max(1, p.Flaps.Limit); over >= 0 && q.Cause != CauseOverride {
		at = latest(at, n.Flaps[over].Add(time.Duration(p.Flaps.Window)))
	}
	if n.Override != nil {
		at = latest(at, n.Override.Until)
	}
	return at
}
