package control

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
)

// Bounds of what a node remembers and of what a transition cites.
const (
	maxReasons  = 16
	maxEvidence = 64
	maxFlaps    = 64
	maxText     = 300
	maxCount    = 1 << 20
)

// Step says what an event makes of a node. docs/admission.md has every
// transition.
func Step(p Policy, n Node, b Breaker, e Event, now time.Time) Outcome {
	s := step{p: p, n: copyOf(n), b: b, now: now, host: e.Host, out: Outcome{Why: "nothing changes"}}
	if s.ready(e.Kind) {
		s.src = Event{Kind: EventTick, At: now, Actor: Actor{Kind: ActorServer}}
		s.due()
		if !e.Kind.personal() { // who decides on a hold finds the node as it is
			s.takeOutHeld()
		}
		s.src = e
		if e.Kind.timer() {
			s.src.Kind = EventTick
		}
		s.event(e)
	}
	s.finish(n, b)
	return s.out
}

// step is an event under way.
type step struct {
	p   Policy
	n   Node
	b   Breaker
	now time.Time
	// host is what the node of a replica brings; nil: it is a node.
	host *Host
	src  Event // what transitions are due to
	out  Outcome
}

// ready refuses nodes that take no event.
func (s *step) ready(k Kind) bool {
	enrolled := s.n.Facts != Facts{}
	switch {
	case !enrolled && k != EventEnrolled:
		s.refuse("the node is not enrolled")
	case enrolled && !s.n.Valid():
		s.refuse("the node's state is not known to this version; use a newer one")
	case s.n.Intent == Retired:
		s.refuse("the node is retired; enrol it again as another one")
	}
	return !s.out.Refused
}

// event does what the event itself leads to.
func (s *step) event(e Event) {
	if e.Kind.personal() && e.Actor.Kind != ActorPerson {
		s.refuse("%s is a person's decision", e.Kind)
		return
	}
	switch e.Kind {
	case EventEnrolled:
		s.enrolled()
	case EventReport:
		s.report(e.Report)
	case EventAnomaly:
		s.anomaly(e.Anomaly)
	case EventHeartbeat:
		s.heartbeat()
	case EventSilence:
		s.silence()
	case EventVerificationRequested:
		s.verificationRequested(e)
	case EventVerificationStarted:
		s.verificationStarted()
	case EventDrain:
		s.drain(e)
	case EventDrained:
		s.drained()
	case EventUndrain:
		s.undrain()
	case EventRetire:
		s.retire()
	case EventQuarantine:
		s.quarantineByPerson(e)
	case EventReadmit:
		s.readmit(e)
	case EventApprove:
		s.approve(e)
	case EventOverrideSet:
		s.override(e)
	case EventTick, EventVerificationTimedOut, EventOverrideExpired, EventDrainDeadline, EventPolicyChanged:
		s.tick()
	default:
		s.refuse("%q is no event that this version knows", foreign.Line(e.Kind, 40))
	}
}

// finish gives versions to what has changed.
func (s *step) finish(before Node, breaker Breaker) {
	s.b, s.out.Notices = settled(s.b, s.p, s.out.Notices)
	if s.b != breaker {
		s.b.Version++
	}
	if !reflect.DeepEqual(s.n, before) {
		s.n.Version++
	}
	for i := range s.out.Transitions {
		s.out.Transitions[i].NodeVersion = s.n.Version
	}
	s.out.Node, s.out.Breaker = s.n, s.b
}

func settled(b Breaker, p Policy, notices []Notice) (Breaker, []Notice) {
	b, more := b.settle(p)
	return b, append(notices, more...)
}

func (s *step) refuse(format string, args ...any) {
	s.out.Refused = true
	s.why(format, args...)
}

func (s *step) why(format string, args ...any) {
	s.out.Why = foreign.Line(fmt.Sprintf(format, args...), maxText)
}

// moveTo changes admission, and the breaker's counts with it. It is the only
// place that does.
func (s *step) moveTo(to Admission, reasons []string) {
	from := s.n.Admission
	s.counting(func() {
		s.n.Admission, s.n.AdmissionSince, s.n.Reasons = to, s.now, bounded(reasons)
		if to == Admitted {
			s.n.Member = true
		}
	})
	s.transition(FactAdmission, string(from), string(to), s.n.Reasons)
}

// intend changes intent, and the breaker's counts with it.
func (s *step) intend(to Intent, reasons ...string) {
	from := s.n.Intent
	s.counting(func() { s.n.Intent, s.n.IntentSince = to, s.now })
	s.transition(FactIntent, string(from), string(to), bounded(reasons))
}

func (s *step) touch(to Contact, reason string) {
	from := s.n.Contact
	s.n.Contact, s.n.ContactSince = to, s.now
	s.transition(FactContact, string(from), string(to), bounded([]string{reason}))
}

func (s *step) counting(change func()) {
	m0, o0 := counted(s.n)
	change()
	m1, o1 := counted(s.n)
	s.b.Members, s.b.Out = max(0, s.b.Members+m1-m0), max(0, s.b.Out+o1-o0)
}

func (s *step) transition(fact Fact, from, to string, reasons []string) {
	evidence := slices.Clone(s.src.Evidence[:min(len(s.src.Evidence), maxEvidence)])
	if r := s.src.Report; r != nil && r.Run != "" && !slices.Contains(evidence, r.Run) {
		evidence = append(evidence, r.Run)
	}
	s.out.Transitions = append(s.out.Transitions, Transition{
		Fact: fact, From: from, To: to, Event: s.src.Kind, At: s.now, Actor: s.src.Actor,
		Reasons: reasons, Evidence: evidence, PolicyVersion: s.p.Version,
	})
	what := to
	if len(reasons) > 0 {
		what += ": " + reasons[0]
	}
	s.why("%s", what)
}

// notice tells people what the node or the replica does, is or has.
func (s *step) notice(kind NoticeKind, key, format string, args ...any) {
	s.out.Notices = append(s.out.Notices, Notice{Kind: kind, Key: key, Text: foreign.Line(s.subject()+fmt.Sprintf(format, args...), maxText)})
}

func (s *step) resolved(key, text string) {
	s.out.Notices = append(s.out.Notices, Notice{Kind: NoticeNote, Key: key, Resolved: true, Text: s.subject() + text})
}

func (s *step) subject() string {
	if s.host != nil {
		return "the replica "
	}
	return "the node "
}

func bounded(reasons []string) []string {
	out := make([]string, 0, min(len(reasons), maxReasons))
	for _, r := range reasons[:min(len(reasons), maxReasons)] {
		if r = foreign.Line(r, maxText); r != "" {
			out = append(out, r)
		}
	}
	return out
}

// copyOf shares nothing with n, so that whoever called keeps what they have.
func copyOf(n Node) Node {
	n.Reasons, n.Flaps = slices.Clone(n.Reasons), slices.Clone(n.Flaps)
	n.Holds = slices.Clone(n.Holds) // what a person said stays as it is
	n.Verification, n.Last = pointer(n.Verification), pointer(n.Last)
	n.Quarantine, n.Approval, n.Override = pointer(n.Quarantine), pointer(n.Approval), pointer(n.Override)
	return n
}

func pointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// reached says whether a time has come; the zero time never comes.
func (s *step) reached(t time.Time) bool { return !t.IsZero() && !s.now.Before(t) }
