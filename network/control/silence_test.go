package control

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func viewsOf(n int, seen time.Time) (out []View) {
	for i := range n {
		out = append(out, View{ID: fmt.Sprintf("n%02d", i), Facts: Facts{Admitted, Serve, Seen}, LastSeen: seen, ContactSince: askedAt.Add(-24 * time.Hour)})
	}
	return out
}

var longUp = Up{Server: askedAt.Add(-24 * time.Hour), Database: askedAt.Add(-24 * time.Hour)}

func TestWhoBecomesSilent(t *testing.T) {
	p := Default()
	views := viewsOf(10, askedAt)
	late := askedAt.Add(90 * time.Second)
	for i := range views {
		views[i].LastSeen = late.Add(-time.Second)
	}
	views[3].LastSeen = askedAt                      // three heart-beats ago
	views[4].LastSeen = askedAt.Add(time.Nanosecond) // not quite
	views[5].LastSeen, views[5].Contact = askedAt.Add(-time.Hour), Silent
	views[6].LastSeen, views[6].Intent = askedAt.Add(-time.Hour), Retired
	got := Silence(p, Breaker{}, views, longUp, late)
	if !slices.Equal(got.Silent, []string{"n03"}) || got.Breaker.Tripped || got.Why == "" {
		t.Errorf("%+v", got)
	}
}

func TestNobodyIsSilentAfterAReturn(t *testing.T) {
	p := Default()
	now := askedAt
	views := viewsOf(3, now.Add(-time.Hour)) // nobody was heard while the server was away
	views[1].LastSeen, views[2].LastSeen = now, now
	for name, up := range map[string]Up{
		"the server":   {now.Add(-149 * time.Second), longUp.Database},
		"the database": {longUp.Server, now.Add(-149 * time.Second)},
		"unknown":      {Server: longUp.Server},
		"both unknown": {},
		"the future":   {now.Add(time.Hour), longUp.Database},
	} {
		if got := Silence(p, Breaker{}, views, up, now); len(got.Silent) != 0 || got.Breaker.Tripped {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := Silence(p, Breaker{}, views, Up{now.Add(-150 * time.Second), longUp.Database}, now); !slices.Equal(got.Silent, []string{"n00"}) {
		t.Errorf("two heart-beats to come back, and three missed: %+v", got)
	}
	// Three missed it is, even by a policy that would not be read.
	hasty := p
	hasty.Silence.Missed = 1
	if got := Silence(hasty, Breaker{}, views, Up{now.Add(-149 * time.Second), longUp.Database}, now); len(got.Silent) != 0 {
		t.Errorf("%+v", got)
	}
	// A policy with more missed heart-beats waits for as many after the return.
	p.Silence.Missed = 5
	if got := Silence(p, Breaker{}, views, Up{now.Add(-200 * time.Second), longUp.Database}, now); len(got.Silent) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestMassSilenceTripsTheBreaker(t *testing.T) {
	p := Default()
	now := askedAt
	views := viewsOf(10, now)
	for i := range 4 {
		views[i].LastSeen = now.Add(-time.Hour)
	}
	got := Silence(p, Breaker{Members: 10, Version: 3}, views, longUp, now)
	if len(got.Silent) != 0 || !got.Breaker.Mass || got.Breaker.Version != 4 || len(got.Notices) != 1 || got.Notices[0].Kind != NoticePage {
		t.Fatalf("%+v", got)
	}
	again := Silence(p, got.Breaker, views, longUp, now.Add(time.Second))
	if len(again.Silent) != 0 || len(again.Notices) != 0 || again.Breaker != got.Breaker {
		t.Errorf("told twice: %+v", again)
	}
	// While it is tripped, a decision of another server takes nobody out.
	n := nodeIn(Admitted)
	if out := Step(p, n, got.Breaker, Event{Kind: EventSilence}, now); !out.Refused || out.Node.Contact != Seen {
		t.Errorf("%+v", out)
	}
	n.Severe, n.Bad, n.PolicyVersion = 1, 1, p.Version
	if out := Step(p, n, got.Breaker, Event{Kind: EventReport, Report: graded(GradeSevere, now)}, now); out.Node.Admission != Degraded {
		t.Errorf("a soft quarantine passes: %s", out.Why)
	}
	if out := Step(p, n, got.Breaker, Event{Kind: EventReport, Report: graded(GradeHard, now)}, now); out.Node.Admission != Quarantined {
		t.Errorf("a hard failure is held: %s", out.Why)
	}
	// One is heard again: the rest become silent.
	views[0].LastSeen = now
	back := Silence(p, got.Breaker, views, longUp, now)
	if len(back.Silent) != 3 || back.Breaker.Tripped || len(back.Notices) != 1 || !back.Notices[0].Resolved {
		t.Errorf("%+v", back)
	}
	// They are really gone, and a person says so.
	views[0].LastSeen = now.Add(-time.Hour)
	lifted, err := got.Breaker.Lift(p, person, now.Add(time.Hour), now)
	if err != nil {
		t.Fatal(err)
	}
	if got := Silence(p, lifted, views, longUp, now); len(got.Silent) != 4 || got.Breaker.Tripped || len(got.Notices) != 1 || !strings.Contains(got.Notices[0].Text, "lifted until") {
		t.Errorf("%+v", got)
	}
}

// Heart-beats of an outage end one after the other; what became silent a moment
// ago counts too.
func TestPropertyAnOutageTakesOutAShare(t *testing.T) {
	p := Default()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 60).Draw(t, "nodes")
		p.Silence.Share = rapid.SampledFrom([]float64{0.05, 0.3, 0.5}).Draw(t, "share")
		views := viewsOf(n, askedAt)
		for i := range views { // the last heart-beats before the cut
			views[i].LastSeen = askedAt.Add(time.Duration(rapid.IntRange(-30, 0).Draw(t, "last")) * time.Second)
		}
		var b Breaker
		every := time.Duration(rapid.IntRange(1, 40).Draw(t, "every")) * time.Second
		for now := askedAt; now.Before(askedAt.Add(4 * time.Minute)); now = now.Add(every) {
			out := Silence(p, b, views, longUp, now)
			b = out.Breaker
			for i := range views {
				if slices.Contains(out.Silent, views[i].ID) {
					views[i].Contact, views[i].ContactSince = Silent, now
				}
			}
		}
		silent := 0
		for _, v := range views {
			if v.Contact == Silent {
				silent++
			}
		}
		if most := max(1, int(p.Silence.Share*float64(n)+1e-9)); silent > most {
			t.Fatalf("%d of %d became silent, %d may", silent, n, most)
		}
		if !b.Mass {
			t.Fatal("the breaker did not trip")
		}
	})
}

func TestTheBreakersLimit(t *testing.T) {
	for _, c := range []struct {
		share   float64
		members int
		want    int
	}{{0.1, 0, 1}, {0.1, 1, 1}, {0.1, 9, 1}, {0.1, 10, 1}, {0.1, 19, 1}, {0.1, 20, 2}, {0.1, 30, 3}, {0.3, 10, 3}, {1, 7, 7}, {0.1, 10_000, 1000}} {
		p := Default()
		p.Breaker.Share = c.share
		if got := (Breaker{Members: c.members}).Limit(p); got != c.want {
			t.Errorf("%v of %d: %d, want %d", c.share, c.members, got, c.want)
		}
	}
}

func TestTheBreakerPagesOnceAndLetsGo(t *testing.T) {
	w := walkFrom(t, nodeIn(Admitted))
	w.b.Out = 10
	w.report(GradeSevere).report(GradeSevere).is(Degraded)
	if !w.b.Tripped || !w.tells(NoticePage, KeyBreaker, false) {
		t.Fatalf("%+v %+v", w.b, w.out.Notices)
	}
	if w.report(GradeSevere).is(Degraded); w.tells(NoticePage, KeyBreaker, false) {
		t.Error("it pages for each report")
	}
	// Another node comes back: there is room, and the next report tries again.
	tripped := w.b
	other := walkFrom(t, nodeIn(Reverifying))
	other.b = tripped
	if other.report(GradeGood).is(Admitted); other.b.Out != 9 || other.b.Tripped || !other.tells(NoticePage, KeyBreaker, true) {
		t.Errorf("%+v %+v", other.b, other.out.Notices)
	}
	w.b = other.b
	w.report(GradeSevere).is(Quarantined)
	if w.b.Out != 10 {
		t.Errorf("%+v", w.b)
	}
}

func TestHardFailuresPassTheBreakerAndCount(t *testing.T) {
	b, p := Breaker{Members: 10}, Default()
	for i := range 4 {
		n := nodeIn(Admitted)
		out := Step(p, n, b, Event{Kind: EventReport, Report: graded(GradeHard, atNow)}, atNow)
		if b = out.Breaker; out.Node.Admission != Quarantined || b.Out != i+1 {
			t.Errorf("%d: %+v", i, out)
		}
	}
	if !b.Tripped {
		t.Error("four of ten are out, and the breaker has not tripped")
	}
}

// Whoever enrols bad machines does not use up the room of the breaker.
func TestNewcomersThatFailDoNotCount(t *testing.T) {
	b, p := Breaker{Members: 10}, Default()
	for range 100 {
		n := Step(p, Node{}, b, Event{Kind: EventEnrolled}, askedAt).Node
		out := Step(p, n, b, Event{Kind: EventReport, Report: graded(GradeHard, began)}, atNow)
		if b = out.Breaker; out.Node.Admission != Quarantined {
			t.Fatal(out.Why)
		}
	}
	if b.Members != 10 || b.Out != 0 || b.Tripped {
		t.Errorf("%+v", b)
	}
}

func TestLiftingTheBreaker(t *testing.T) {
	p, b := Default(), Breaker{Members: 10, Out: 1, Tripped: true}
	for name, lift := range map[string]func() (Breaker, error){
		"a server": func() (Breaker, error) { return b.Lift(p, Actor{Kind: ActorServer}, atNow.Add(time.Hour), atNow) },
		"past":     func() (Breaker, error) { return b.Lift(p, person, atNow, atNow) },
		"too long": func() (Breaker, error) { return b.Lift(p, person, atNow.Add(73*time.Hour), atNow) },
	} {
		if got, err := lift(); err == nil || got != b {
			t.Errorf("%s lifts it", name)
		}
	}
	got, err := b.Lift(p, person, atNow.Add(time.Hour), atNow)
	if err != nil || got.Tripped || got.Version != b.Version+1 {
		t.Fatal(err)
	}
	if holds, _ := got.Holds(p, atNow.Add(time.Hour-1)); holds {
		t.Error("it holds while it is lifted")
	}
	if holds, why := got.Holds(p, atNow.Add(time.Hour)); !holds || why == "" {
		t.Error("it does not hold afterwards")
	}
}
