package control

import (
	"strings"
	"testing"
	"time"
)

// happens has events happen to a node, a minute apart.
func happens(t *testing.T, n Node, b Breaker, events ...Event) Outcome {
	t.Helper()
	p := Default()
	p.Version = 1
	var out Outcome
	for i, e := range events {
		out = Step(p, n, b, e, atNow.Add(time.Duration(i)*time.Minute))
		n, b = out.Node, out.Breaker
	}
	return out
}

func anomaly(kind, subject string) Event {
	return Event{Kind: EventAnomaly, Anomaly: kind, Subject: subject, Reason: "two nodes show it", Actor: Actor{Kind: ActorServer}}
}

func report(g Grade, at time.Time) Event { return Event{Kind: EventReport, Report: graded(g, at)} }

// A newcomer that is held stays pending however good it is, until a person decides.
func TestAHeldNewcomerWaitsForAPerson(t *testing.T) {
	approve := Event{Kind: EventApprove, Actor: person, Reason: "the card was moved"}
	out := happens(t, nodeIn(Verifying), Breaker{}, anomaly(FindShared, "gpu x"), report(GradeGood, began))
	if out.Node.Admission != Pending || !out.Node.WaitsForPerson() || !strings.Contains(strings.Join(out.Node.Reasons, " "), "gpu_shared: two nodes show it") {
		t.Fatalf("it is %s: %q", out.Node.Admission, out.Node.Reasons)
	}
	next := began.Add(2 * time.Minute)
	if again := happens(t, out.Node, Breaker{}, report(GradeGood, next)); again.Node.Admission != Pending {
		t.Errorf("the next good report makes it %s", again.Node.Admission)
	}
	out = happens(t, out.Node, Breaker{}, approve)
	if out.Node.Admission != Admitted || len(out.Node.Held()) != 0 {
		t.Fatalf("approved, it is %s: %s", out.Node.Admission, out.Why)
	}
	// The same finding has no consequence any more, and one about another card has.
	if same := happens(t, out.Node, Breaker{Members: 100}, anomaly(FindShared, "gpu x")); same.Node.Admission != Admitted || len(same.Notices) != 0 {
		t.Errorf("what a person decided on makes it %s", same.Node.Admission)
	}
	if other := happens(t, out.Node, Breaker{Members: 100}, anomaly(FindShared, "gpu y")); other.Node.Admission != Quarantined {
		t.Errorf("another card leaves it %s", other.Node.Admission)
	}
}

// Approval that was given before says nothing about what is found later.
func TestApprovalIsNotAheadOfFindings(t *testing.T) {
	n := nodeIn(Verifying)
	n.Approval = &Approval{By: person}
	if out := happens(t, n, Breaker{}, anomaly(FindTainted, "gpu x"), report(GradeUnbased, began)); out.Node.Admission != Pending {
		t.Errorf("it is %s", out.Node.Admission)
	}
}

// Who is held out of rotation comes back by a person's word and a verification.
func TestHeldQuarantineWaitsForAPerson(t *testing.T) {
	for _, from := range []Admission{Admitted, Degraded, Reverifying, Quarantined} {
		out := happens(t, nodeIn(from), Breaker{Members: 100}, anomaly(FindAltered, "gpu x"))
		q := out.Node.Quarantine
		if out.Node.Admission != Quarantined || q == nil || q.Cause != CauseHeld || !q.RetryAt.IsZero() {
			t.Fatalf("from %s: %s, %+v", from, out.Node.Admission, q)
		}
		p := Default()
		p.Version = 1
		if late := Step(p, out.Node, out.Breaker, Event{Kind: EventTick}, atNow.AddDate(0, 1, 0)); late.Node.Admission != Quarantined {
			t.Errorf("from %s: a month makes it %s", from, late.Node.Admission)
		}
		if said := happens(t, out.Node, out.Breaker, Event{Kind: EventApprove, Actor: person, Reason: "explained"}); said.Node.Admission != Quarantined || !strings.Contains(said.Why, "readmits") {
			t.Errorf("from %s: approved it is %s, and nobody is told what brings it back: %s", from, said.Node.Admission, said.Why)
		}
		back := happens(t, out.Node, out.Breaker, Event{Kind: EventReadmit, Actor: person, Reason: "explained"})
		if back.Node.Admission != Reverifying || len(back.Node.Held()) != 0 {
			t.Errorf("from %s: readmitted it is %s, held by %v", from, back.Node.Admission, back.Node.Held())
		}
	}
}

// The breaker holds such a quarantine back, and good reports do not end the doubt.
func TestHeldBehindTheBreaker(t *testing.T) {
	out := happens(t, nodeIn(Admitted), Breaker{Members: 100, Out: 10}, anomaly(FindMounted, "driver"))
	if out.Node.Admission != Degraded || len(out.Node.Held()) != 1 {
		t.Fatalf("it is %s", out.Node.Admission)
	}
	n := out.Node
	n.Good = 5
	if out = happens(t, n, out.Breaker, report(GradeGood, began)); out.Node.Admission != Degraded {
		t.Errorf("good reports make it %s", out.Node.Admission)
	}
	// Once there is room, whatever happens to it next takes it out; a person who keeps
	// or approves it comes first.
	if late := happens(t, n, Breaker{Members: 100, Out: 9}, Event{Kind: EventTick}); late.Node.Admission != Quarantined || late.Node.Quarantine.Cause != CauseHeld || late.Breaker.Out != 10 {
		t.Errorf("with room it is %s", late.Node.Admission)
	}
	if said := happens(t, n, Breaker{Members: 100, Out: 9}, Event{Kind: EventApprove, Actor: person, Reason: "it is ours"}, Event{Kind: EventTick}); said.Node.Admission != Degraded || len(said.Node.Held()) != 0 {
		t.Errorf("approved it is %s", said.Node.Admission)
	}
	n.Override = &Override{Kind: OverrideKeep, Until: atNow.Add(time.Hour), By: person}
	if kept := happens(t, n, Breaker{Members: 100, Out: 9}, Event{Kind: EventTick}); kept.Node.Admission != Degraded {
		t.Errorf("kept by a person it is %s", kept.Node.Admission)
	}
}

// Nothing follows for who was there first, whatever a policy wants.
func TestNothingFollowsForTheFirst(t *testing.T) {
	out := happens(t, nodeIn(Admitted), Breaker{Members: 100}, anomaly(FindClaimed, "gpu x"))
	if out.Node.Admission != Admitted || len(out.Commands) != 0 {
		t.Errorf("it is %s, and asked for %v", out.Node.Admission, out.Commands)
	}
	p := Default()
	delete(p.Anomalies, FindClaimed)
	p.Anomalies["default"] = []Action{ActionQuarantine}
	if a := p.actions(FindClaimed); len(a) != 1 || a[0] != ActionNote {
		t.Errorf("a policy that does not name it does %v", a)
	}
	p.Anomalies[FindClaimed] = []Action{ActionHold}
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "only note and page") {
		t.Errorf("a policy that holds it: %v", err)
	}
	p = Default()
	p.HardFailures = append(p.HardFailures, FindClaimed)
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "did nothing") {
		t.Errorf("a policy that calls it hard: %v", err)
	}
}

// However many findings come, a state has room for some.
func TestHoldsAreBounded(t *testing.T) {
	n := nodeIn(Pending)
	for i := range 3 * maxHolds {
		out := happens(t, n, Breaker{}, anomaly(FindShared, "gpu "+time.Duration(i).String()))
		if n = out.Node; i%2 == 0 {
			n = happens(t, n, Breaker{}, Event{Kind: EventApprove, Actor: person, Reason: "r"}).Node
		}
	}
	if len(n.Holds) > maxHolds {
		t.Errorf("it has %d", len(n.Holds))
	}
}
