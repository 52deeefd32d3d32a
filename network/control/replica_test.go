package control

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRecount: counts that were made anew take the place of those that were kept,
// and the same ones change nothing.
func TestRecount(t *testing.T) {
	b := Breakers{Breaker: Breaker{Members: 99, Version: 4}, Replicas: Breaker{Out: 3}}
	got := b.Recount(Counts{4, 2}, Counts{5, 1})
	if got.Members != 4 || got.Out != 2 || got.Replicas.Members != 5 || got.Replicas.Out != 1 || got.Version != 5 {
		t.Errorf("%+v", got)
	}
	if again := got.Recount(Counts{4, 2}, Counts{5, 1}); again != got {
		t.Errorf("%+v", again)
	}
}

// TestBreakersAreTwo: replicas and nodes are counted apart; mass silence and a
// person's word are of both, and are kept once.
func TestBreakersAreTwo(t *testing.T) {
	p := Default()
	p.Version = 1
	b := Breakers{Breaker: Breaker{Version: 7, Members: 100, Out: 10}, Replicas: Breaker{Members: 20}}
	if holds, _ := b.For(false).Holds(p, atNow); !holds {
		t.Error("10 of 100 nodes are out, and the breaker does not hold")
	}
	r := b.For(true)
	if holds, why := r.Holds(p, atNow); holds || r.Version != 7 {
		t.Errorf("no replica is out, and theirs holds: %s, version %d", why, r.Version)
	}
	for range 3 {
		n := nodeIn(Admitted)
		n.Severe, n.Bad = 5, 5
		out := Step(p, n, b.For(true), Event{Kind: EventReport, Report: graded(GradeSevere, began), Host: &Host{}}, atNow)
		b = b.With(true, out.Breaker)
	}
	if b.Replicas.Out != 2 || !b.Replicas.Tripped || b.Out != 10 || b.Tripped || b.Version <= 7 || b.Replicas.Version != 0 {
		t.Errorf("after three severe replicas of 20: %+v", b)
	}
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	var read Breakers
	if err := json.Unmarshal(text, &read); err != nil || !reflect.DeepEqual(read, b) {
		t.Errorf("%s reads as %+v: %v", text, read, err)
	}
	var old Breaker // a program of before replicas had one
	if err := json.Unmarshal(text, &old); err != nil || old != b.Breaker {
		t.Errorf("%s reads as %+v: %v", text, old, err)
	}
	mass := b
	mass.Breaker, _ = mass.trip("mass silence", true, atNow)
	if holds, why := mass.For(true).Holds(p, atNow); !holds || why != "mass silence" {
		t.Errorf("mass silence does not hold replicas: %s", why)
	}
	if again := mass.With(true, mass.For(true)); again != mass {
		t.Errorf("mass silence became the replicas' own: %+v", again)
	}
	lifted, err := mass.Lift(p, person, atNow.Add(time.Hour), atNow)
	if err != nil {
		t.Fatal(err)
	}
	if holds, why := lifted.For(true).Holds(p, atNow); holds || lifted.Replicas.Tripped || lifted.Mass {
		t.Errorf("it was lifted: %s, %+v", why, lifted)
	}
	if _, err := mass.Lift(p, Actor{Kind: ActorServer}, atNow.Add(time.Hour), atNow); err == nil {
		t.Error("a server lifted it")
	}
}

// askedRows makes each row of the page's table about replicas true: the node's
// verification, and what asks.
var (
	hostRows = map[string]func() *Host{
		"none under way": func() *Host { return &Host{Verification: &Verification{ID: "node", Asked: askedAt}} },
		"waits for its agent": func() *Host {
			return &Host{Verification: &Verification{ID: "node", Asked: askedAt, Deadline: atNow.Add(time.Minute)}}
		},
		"has begun": func() *Host {
			return &Host{Verification: &Verification{ID: "node", Asked: askedAt, Began: began, Deadline: atNow.Add(time.Minute)}}
		},
		"past its deadline": func() *Host {
			return &Host{Verification: &Verification{ID: "node", Asked: askedAt, Deadline: atNow}}
		},
	}
	wantedRows = map[string]func() (Node, Event){
		"becomes known": func() (Node, Event) { return Node{}, Event{Kind: EventEnrolled} },
		"is to be verified": func() (Node, Event) {
			n := nodeIn(Quarantined)
			return n, Event{Kind: EventReadmit, Actor: person}
		},
	}
)

// TestReplicaSharesAVerification reads the page's table.
func TestReplicaSharesAVerification(t *testing.T) {
	rows := rowsOf(t, "Replicas")
	seen := map[string]bool{}
	for _, r := range rows { // node, replica, asked, answered by a run that began
		if r.from == "the node's verification" {
			continue // the heading
		}
		if hostRows[r.from] == nil || wantedRows[r.event] == nil {
			t.Errorf("no test makes %q and %q true", r.from, r.event)
			continue
		}
		seen[r.from+"|"+r.event] = true
		n, e := wantedRows[r.event]()
		e.Host = hostRows[r.from]()
		out := Step(Default(), n, Breaker{Members: 100}, e, atNow)
		v := out.Node.Verification
		asks := slices.ContainsFunc(out.Commands, func(c Command) bool { return c.Kind == CommandVerify })
		if own := r.when == "one of its own"; v == nil || !v.open() || asks != own || (v.ID == "node") == own {
			t.Errorf("%+v: %+v, commands %+v", r, v, out.Commands)
			continue
		}
		since := atNow
		if r.to == "after the node was asked" {
			since = askedAt
		} else if r.to != "after the replica was asked" {
			t.Errorf("%+v: the page says nothing about since when", r)
		}
		for _, at := range []time.Time{since, since.Add(time.Second)} {
			m := goodReport(at)
			m.Answers = v.ID
			got := Step(Default(), out.Node, out.Breaker, Event{Kind: EventReport, Report: m, Host: &Host{}}, atNow.Add(2*time.Second))
			if admitted := got.Node.Admission == Admitted; admitted != at.After(since) {
				t.Errorf("%+v: a run of %s makes it %s: %s", r, at, got.Node.Admission, got.Why)
			}
		}
	}
	if len(seen) != len(hostRows)*len(wantedRows) {
		t.Errorf("the page has %d of %d cases: %v", len(seen), len(hostRows)*len(wantedRows), seen)
	}
}

// TestApprovalOfANodeIsOfItsReplicas: one that becomes known later needs no second
// person, and what is required of it is required still.
func TestApprovalOfANodeIsOfItsReplicas(t *testing.T) {
	h := &Host{Approval: &Approval{By: person, At: askedAt}}
	for grade, want := range map[Grade]Admission{GradeUnbased: Admitted, GradeUnknown: Pending, GradeSevere: Quarantined} {
		n := Step(Default(), Node{}, Breaker{}, Event{Kind: EventEnrolled, Host: h}, askedAt).Node
		out := Step(Default(), n, Breaker{}, Event{Kind: EventReport, Report: graded(grade, began), Host: &Host{}}, atNow)
		if out.Node.Admission != want {
			t.Errorf("%s makes it %s, not %s: %s", grade, out.Node.Admission, want, out.Why)
		}
	}
	if h.Approval.By != person {
		t.Error("the node's was changed")
	}
}

// TestWaitsForPerson: it is said of a newcomer without a baseline, and of nobody else.
func TestWaitsForPerson(t *testing.T) {
	for _, g := range []Grade{GradeHard, GradeSevere, GradePoor, GradeUnknown, GradeUnbased, GradeFair, GradeGood} {
		out := Step(Default(), nodeIn(Verifying), Breaker{}, Event{Kind: EventReport, Report: graded(g, began)}, atNow)
		if got := out.Node.WaitsForPerson(); got != (g == GradeUnbased) {
			t.Errorf("%s: waits %v, it is %s", g, got, out.Node.Admission)
		}
		if n := Step(Default(), out.Node, Breaker{}, Event{Kind: EventApprove, Actor: person}, atNow).Node; n.WaitsForPerson() {
			t.Errorf("%s: it waits after the approval", g)
		}
	}
}

// TestPropertyReplicaIsRoutedWithItsNodeOnly: a node and its replica get the same
// reports, and events of their own. Whatever comes, the replica is routed only while
// both have passed a verification and are not out, drained or silent, and a hard
// failure takes both out.
func TestPropertyReplicaIsRoutedWithItsNodeOnly(t *testing.T) {
	routed, apart := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := Default()
		p.Version, p.Breaker.Share = 1, 0.5
		b := Breakers{Breaker: Breaker{Members: 10}, Replicas: Breaker{Members: 10}}
		now := askedAt
		node := Step(p, Node{}, b.For(false), Event{Kind: EventEnrolled}, now).Node
		var replica Node
		passed := map[bool]bool{} // since the last quarantine, by whether it is the replica
		step := func(isReplica bool, e Event) {
			n := &node
			if isReplica {
				n = &replica
				e.Host = &Host{Verification: node.Verification, Approval: node.Approval}
				if n.Facts != (Facts{}) {
					n.Contact = node.Contact
				}
			}
			before := b.For(isReplica)
			out := Step(p, *n, before, e, now)
			soft := e.Kind == EventReport && len(e.Report.Found) == 0 || e.Kind.timer()
			for _, tr := range out.Transitions {
				switch {
				case tr.To == string(Admitted):
					passed[isReplica] = true
				case tr.To == string(Quarantined):
					passed[isReplica] = false
					if from := Admission(tr.From); soft && (from == Admitted || from == Degraded) && before.Out+1 > before.Limit(p) {
						t.Fatalf("%d of %d were out, and one more was taken out: %s", before.Out, before.Members, out.Why)
					}
				}
			}
			*n, b = out.Node, b.With(isReplica, out.Breaker)
		}
		step(true, Event{Kind: EventEnrolled})
		kinds := append(Kinds(), EventReport, EventReport, EventReport, EventReport, EventReport, EventReport, EventTick)
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.IntRange(1, 3600).Draw(t, "seconds")) * time.Second)
			kind := rapid.SampledFrom(kinds).Draw(t, "kind")
			if kind == EventReport {
				of := natures[rapid.IntRange(0, len(natures)-1).Draw(t, "nature")]
				m := goodReport(now.Add(-time.Second))
				of.make(m)
				step(false, Event{Kind: EventReport, Report: m})
				step(true, Event{Kind: EventReport, Report: m})
				if ok, _ := RoutableReplica(node.Facts, replica.Facts); of.hard && ok {
					t.Fatalf("a hard failure is routed: node %+v, replica %+v", node.Facts, replica.Facts)
				}
			} else {
				replicas := rapid.Bool().Draw(t, "replica")
				if replicas && (kind == EventSilence || kind == EventHeartbeat) {
					replicas = false // one agent speaks for both
				}
				step(replicas, Event{
					Kind: kind, Actor: person, Reason: "because", Anomaly: "gpu_changed",
					Override: rapid.SampledFrom([]OverrideKind{OverrideKeep, OverrideOut}).Draw(t, "override"), Until: now.Add(time.Hour),
				})
			}
			replica.Contact = node.Contact
			ok, why := RoutableReplica(node.Facts, replica.Facts)
			if !ok {
				if alone, _ := Routable(replica.Facts); alone && !strings.HasPrefix(why, "its node") {
					t.Fatalf("the node is why, and it says %q", why)
				} else if alone {
					apart++
				}
				continue
			}
			routed++
			if !passed[true] || !passed[false] || node.Intent != Serve || replica.Intent != Serve || node.Contact != Seen {
				t.Fatalf("routed: node %+v, replica %+v", node, replica)
			}
		}
	})
	if routed == 0 || apart == 0 {
		t.Errorf("routed %d times, held by its node %d times: the generator gets nowhere", routed, apart)
	}
}
