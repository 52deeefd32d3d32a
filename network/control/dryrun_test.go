package control

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// A node that falls to 0.65 and stays there, beside one that is always good.
func historyOf(hours int) []History {
	var slow, fine History
	slow.ID, fine.ID = "slow", "fine"
	add := func(h *History, e Event) { h.Events = append(h.Events, e) }
	for _, h := range []*History{&slow, &fine} {
		add(h, Event{Kind: EventEnrolled, At: askedAt})
	}
	for i := 1; i <= hours; i++ {
		at := askedAt.Add(time.Duration(i) * time.Hour)
		g := GradeGood
		if i > 3 {
			g = GradePoor
		}
		// Commands of then have ids that no verification of a trial has.
		one, two := graded(g, at.Add(-time.Minute)), graded(GradeGood, at.Add(-time.Minute))
		one.Answers, two.Answers = "01M7HPN90HJGRQAV9FWGF8BA5J", "01M7HPN90HJGRQAV9FWGF8BA5K"
		add(&slow, Event{Kind: EventReport, At: at, Report: one})
		add(&fine, Event{Kind: EventReport, At: at, Report: two})
	}
	return []History{slow, fine}
}

func TestDryRunSaysWherePoliciesDiffer(t *testing.T) {
	old, next := Default(), Default()
	next.Score.Degrade, next.Score.Quarantine = 0.65, 0.62
	history := historyOf(10)
	got := DryRun(old, next, history)
	if got.Nodes != 2 || got.Events != 22 || got.Reports != 20 || !got.To.Equal(askedAt.Add(10*time.Hour)) {
		t.Errorf("counted %+v", got)
	}
	if len(got.Differences) != 1 || got.Differences[0].ID != "slow" {
		t.Fatalf("differences: %+v", got.Differences)
	}
	d := got.Differences[0]
	// 0.6 is poor for the old policy and severe for the new one.
	if d.OldEnd != Degraded || d.NewEnd != Reverifying && d.NewEnd != Quarantined {
		t.Errorf("the old policy ends at %s, the new one at %s", d.OldEnd, d.NewEnd)
	}
	ends := func(ts []Transition) (out []string) {
		for _, tr := range ts {
			out = append(out, tr.To)
		}
		return out
	}
	if want := []string{"pending", "admitted", "degraded"}; !slices.Equal(ends(d.Old), want) {
		t.Errorf("old: %v", ends(d.Old))
	}
	// After an hour the quarantine is tried again, by a tick that the dry run made.
	if got := ends(d.New); len(got) < 5 || !slices.Equal(got[:5], []string{"pending", "admitted", "quarantined", "re-verifying", "quarantined"}) {
		t.Errorf("new: %v", got)
	}
	if got.Old.Counts[Admitted] != 1 || got.Old.Counts[Degraded] != 1 || got.New.Tickets == 0 {
		t.Errorf("%+v, %+v", got.Old.Counts, got.New)
	}
	if again := DryRun(old, next, history); !reflect.DeepEqual(got, again) {
		t.Error("two dry runs differ")
	}
	slices.Reverse(history)
	if again := DryRun(old, next, history); !reflect.DeepEqual(got.Differences, again.Differences) {
		t.Error("the order of the nodes makes a difference")
	}
	if same := DryRun(old, old, history); len(same.Differences) != 0 {
		t.Errorf("a policy differs from itself: %+v", same.Differences)
	}
}

func TestDryRunOfNothing(t *testing.T) {
	if got := DryRun(Default(), Default(), nil); got.Nodes != 0 || len(got.Differences) != 0 {
		t.Errorf("%+v", got)
	}
	// Events that make no sense are refused and counted.
	junk := []History{{ID: "x", Events: []Event{{Kind: "?"}, {Kind: EventReport, At: askedAt}}}}
	if got := DryRun(Default(), Default(), junk); got.Events != 2 || len(got.Old.Transitions) != 0 {
		t.Errorf("%+v", got)
	}
}

// Over history the breaker holds as it does live: of ten nodes that fail
// together one is quarantined.
func TestDryRunHasTheBreaker(t *testing.T) {
	var history []History
	for i := range 10 {
		h := History{ID: string(rune('a' + i)), Events: []Event{{Kind: EventEnrolled, At: askedAt}}}
		for k := 1; k <= 4; k++ {
			at := askedAt.Add(time.Duration(k)*10*time.Minute + time.Duration(i)*time.Second)
			g := GradeGood
			if k > 1 {
				g = GradeSevere
			}
			h.Events = append(h.Events, Event{Kind: EventReport, At: at, Report: graded(g, at)})
		}
		history = append(history, h)
	}
	next := Default()
	next.Breaker.Share = 1
	got := DryRun(Default(), next, history)
	if got.Old.Counts[Quarantined] != 1 || got.Old.Counts[Degraded] != 9 || got.Old.Trips != 1 || got.Old.Pages != 1 {
		t.Errorf("with a breaker: %+v", got.Old)
	}
	if got.New.Counts[Quarantined] != 10 || got.New.Trips != 0 {
		t.Errorf("without: %+v, %d trips", got.New.Counts, got.New.Trips)
	}
}

// TestDryRunEnds: times that are no times of one history are cut off, and said to be.
func TestDryRunEnds(t *testing.T) {
	p := Default()
	at := func(when time.Time, kind Kind) Event { return Event{Kind: kind, At: when, Actor: person} }
	ancient := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	never := time.Unix(1<<55, 0) // a thousand million years
	bad := at(askedAt.Add(time.Minute), EventReport)
	bad.Report = graded(GradeSevere, askedAt.Add(time.Minute))
	history := []History{
		{ID: "a", Events: []Event{at(ancient, EventEnrolled), at(askedAt, EventTick), at(never, EventHeartbeat)}},
		{ID: "b", Events: []Event{at(askedAt, EventEnrolled), bad, at(never, EventHeartbeat)}},
	}
	done := make(chan Trial, 1)
	go func() { done <- DryRun(p, p, history) }()
	select {
	case got := <-done:
		if !got.Cut {
			t.Error("all of time was tried to its end")
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("it does not end")
	}
	if got := DryRun(p, p, []History{{ID: "b", Events: history[1].Events[:2]}}); got.Cut {
		t.Error("a minute was cut")
	}
}
