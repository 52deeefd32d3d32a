package control

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// walk gives events to one node, and keeps what comes out.
type walk struct {
	t   *testing.T
	p   Policy
	n   Node
	b   Breaker
	now time.Time
	out Outcome
}

func walkFrom(t *testing.T, n Node) *walk {
	s := settingOf(n)
	return &walk{t: t, p: s.p, n: n, b: s.b, now: atNow}
}

func (w *walk) do(e Event) *walk {
	w.t.Helper()
	if e.Actor.Kind == "" {
		e.Actor = person
	}
	w.out = Step(w.p, w.n, w.b, e, w.now)
	w.n, w.b = w.out.Node, w.out.Breaker
	return w
}

// later lets time pass.
func (w *walk) later(d time.Duration) *walk { w.now = w.now.Add(d); return w }

func (w *walk) report(g Grade) *walk {
	w.t.Helper()
	w.now = w.now.Add(time.Minute)
	return w.do(Event{Kind: EventReport, Report: graded(g, w.now)})
}

func (w *walk) is(a Admission) *walk {
	w.t.Helper()
	if w.n.Admission != a {
		w.t.Errorf("it is %s, want %s (%s)", w.n.Admission, a, w.out.Why)
	}
	return w
}

func (w *walk) tells(kind NoticeKind, key string, resolved bool) bool {
	return slices.ContainsFunc(w.out.Notices, func(n Notice) bool { return n.Kind == kind && n.Key == key && n.Resolved == resolved })
}

func (w *walk) verify() (Command, bool) {
	for _, c := range w.out.Commands {
		if c.Kind == CommandVerify {
			return c, true
		}
	}
	return Command{}, false
}

func TestRoutable(t *testing.T) {
	values := func(a Admission, i Intent, c Contact) Facts { return Facts{a, i, c} }
	routed := 0
	for _, a := range []Admission{Pending, Verifying, Admitted, Degraded, Quarantined, Reverifying, "", "new"} {
		for _, i := range []Intent{Serve, Draining, Drained, Retired, "", "new"} {
			for _, c := range []Contact{Seen, Silent, "", "new"} {
				ok, why := Routable(values(a, i, c))
				if want := (a == Admitted || a == Degraded) && i == Serve && c == Seen; ok != want || why == "" {
					t.Errorf("%s %s %s: %v, %q", a, i, c, ok, why)
				}
				if ok {
					routed++
				}
			}
		}
	}
	if routed != 2 {
		t.Errorf("%d combinations are routed", routed)
	}
}

func TestFactsOfALaterVersionAreRefused(t *testing.T) {
	var n Node
	if err := json.Unmarshal([]byte(`{"admission":"promoted","intent":"serve","contact":"seen"}`), &n); err == nil {
		t.Error("admission promoted is read")
	}
	if err := json.Unmarshal([]byte(`{"admission":"admitted","intent":"serve","contact":"seen"}`), &n); err != nil || n.Admission != Admitted {
		t.Error(err)
	}
}

// What is stored is what was decided.
func TestANodeSurvivesJSON(t *testing.T) {
	w := walkFrom(t, nodeIn(Admitted)).report(GradePoor).report(GradePoor).is(Degraded)
	w.do(Event{Kind: EventOverrideSet, Override: OverrideOut, Until: w.now.Add(time.Hour), Reason: "r"}).is(Quarantined)
	text, err := json.Marshal(w.n)
	if err != nil {
		t.Fatal(err)
	}
	var back Node
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, w.n) {
		t.Errorf("%v\n%+v\n%+v\n%s", err, w.n, back, text)
	}
}

func TestTheFirstNodeOfANetwork(t *testing.T) {
	w := &walk{t: t, p: Default(), now: atNow}
	w.do(Event{Kind: EventEnrolled, Actor: Actor{Kind: ActorServer}}).is(Pending)
	command, ok := w.verify()
	if !ok || command.ID == "" || !command.Expires.Equal(w.now.Add(30*time.Minute)) {
		t.Fatalf("%+v", w.out.Commands)
	}
	w.later(time.Second).do(Event{Kind: EventVerificationStarted, Actor: Actor{Kind: ActorNode}}).is(Verifying)
	w.report(GradeUnbased).is(Pending)
	if !w.tells(NoticeTicket, KeyApproval, false) {
		t.Errorf("nobody is told that it waits: %+v", w.out.Notices)
	}
	w.do(Event{Kind: EventApprove, Actor: Actor{Kind: ActorNode}}).is(Pending)
	if !w.out.Refused {
		t.Error("a node approves itself")
	}
	w.do(Event{Kind: EventApprove, Reason: "our first"}).is(Admitted)
	if tr := w.out.Transitions[0]; len(tr.Evidence) != 1 || tr.Actor != person || !slices.Contains(tr.Reasons, "our first") {
		t.Errorf("%+v", tr)
	}
	if w.b.Members != 1 || w.b.Out != 0 {
		t.Errorf("%+v", w.b)
	}
	// The approval stands for the baseline from then on, too.
	w.report(GradeUnbased).report(GradeUnbased).report(GradeUnbased).report(GradeUnbased).is(Admitted)
	// The floor of the breaker is one node.
	w.report(GradeSevere).report(GradeSevere).is(Quarantined)
	if w.n.Approval != nil {
		t.Error("the approval outlives the quarantine")
	}
}

func TestApprovalReplacesABaselineAndNothingElse(t *testing.T) {
	for _, g := range []Grade{GradeHard, GradeSevere, GradePoor, GradeFair, GradeUnknown} {
		// Approved before the report.
		w := walkFrom(t, nodeIn(Verifying)).do(Event{Kind: EventApprove}).report(g)
		if w.n.Admission == Admitted {
			t.Errorf("%s is admitted by an approval before it", g)
		}
		// And after it.
		w = walkFrom(t, nodeIn(Verifying)).report(g).do(Event{Kind: EventApprove})
		if w.n.Admission == Admitted {
			t.Errorf("%s is admitted by an approval after it", g)
		}
	}
	walkFrom(t, nodeIn(Verifying)).do(Event{Kind: EventApprove}).report(GradeUnbased).is(Admitted)
	// An approval for what another policy has judged, or long ago, waits.
	w := walkFrom(t, nodeIn(Verifying)).report(GradeUnbased).is(Pending)
	w.p.Version = 2
	w.do(Event{Kind: EventApprove}).is(Pending)
	w = walkFrom(t, nodeIn(Verifying)).report(GradeUnbased).later(25 * time.Hour).do(Event{Kind: EventApprove}).is(Pending)
	if _, ok := w.verify(); !ok {
		t.Error("it is not verified again")
	}
	w.report(GradeUnbased).is(Admitted)
	// So does one for a report from before the verification that is under way.
	w = walkFrom(t, nodeIn(Verifying)).report(GradeUnbased).later(time.Minute)
	w.do(Event{Kind: EventVerificationRequested, Reason: "the engine was changed"}).do(Event{Kind: EventApprove}).is(Pending)
	w.report(GradeUnbased).is(Admitted)
}

func TestAReportThatBeganBeforeItWasAskedForVerifiesNothing(t *testing.T) {
	for _, a := range []Admission{Pending, Verifying, Reverifying} {
		for _, at := range []time.Time{askedAt.Add(-time.Second), askedAt} {
			w := walkFrom(t, nodeIn(a)).do(Event{Kind: EventReport, Report: graded(GradeGood, at)}).is(a)
			if len(w.out.Transitions) != 0 {
				t.Errorf("%+v", w.out.Transitions)
			}
		}
		m := graded(GradeGood, began)
		m.Answers = "verify-3" // another command's
		walkFrom(t, nodeIn(a)).do(Event{Kind: EventReport, Report: m}).is(a)
		m.Answers, m.Began = "verify-7", began.Add(time.Second)
		walkFrom(t, nodeIn(a)).do(Event{Kind: EventReport, Report: m}).is(Admitted)
	}
}

func TestReportsThatDoNotCount(t *testing.T) {
	first := func() *walk { return walkFrom(t, nodeIn(Admitted)).report(GradePoor).is(Admitted) }
	w := first()
	again := graded(GradePoor, w.n.Last.Began)
	for range 5 {
		w.do(Event{Kind: EventReport, Report: again})
	}
	if w.n.Bad != 1 || w.n.Admission != Admitted {
		t.Errorf("one report counted %d times", w.n.Bad)
	}
	for name, at := range map[string]time.Time{
		"earlier": atNow.Add(-time.Hour), "future": atNow.Add(5 * time.Minute), "zero": {},
	} {
		if w := first().do(Event{Kind: EventReport, Report: graded(GradePoor, at)}); w.n.Bad != 1 {
			t.Errorf("%s: counted %d", name, w.n.Bad)
		}
	}
	// A day late: only what is hard counts.
	w = walkFrom(t, nodeIn(Admitted)).later(48 * time.Hour)
	w.n.LastJudged = w.now
	w.do(Event{Kind: EventReport, Report: graded(GradeSevere, askedAt.Add(time.Hour))})
	if w.n.Severe != 0 {
		t.Error("a stale report counts")
	}
	w.do(Event{Kind: EventReport, Report: graded(GradeHard, askedAt.Add(time.Hour))}).is(Quarantined)
	if w := first().do(Event{Kind: EventReport}); !w.out.Refused {
		t.Error("a report of nothing is taken")
	}
}

func TestHysteresis(t *testing.T) {
	w := walkFrom(t, nodeIn(Admitted))
	for range 20 {
		w.report(GradePoor).report(GradeFair).report(GradeSevere).report(GradeGood).is(Admitted)
	}
	w.report(GradePoor).report(GradeUnknown).is(Admitted).report(GradePoor).is(Degraded) // unknown ends no bad count
	for range 20 {
		w.report(GradeGood).report(GradeGood).report(GradeFair).is(Degraded)
	}
	w.report(GradeGood).report(GradeGood).report(GradeUnknown).report(GradeGood).report(GradeGood).is(Degraded)
	w.report(GradeGood).is(Admitted)
	if w.n.Good != 0 || !w.tells(NoticeNote, KeyDegraded, true) {
		t.Errorf("%+v %+v", w.n, w.out.Notices)
	}
	// A poor result between severe ones: bad in a row, but not severe.
	walkFrom(t, nodeIn(Admitted)).report(GradeSevere).report(GradePoor).is(Degraded).report(GradeSevere).is(Degraded).report(GradeSevere).is(Quarantined)
	// Another policy counts anew.
	w = walkFrom(t, nodeIn(Admitted)).report(GradePoor)
	w.p.Version = 2
	w.report(GradePoor).is(Admitted).report(GradePoor).is(Degraded)
}

func TestWhoCannotBeJudgedLeaves(t *testing.T) {
	w := walkFrom(t, nodeIn(Admitted)).report(GradeUnknown).report(GradeUnbased).is(Admitted).report(GradeUnknown).is(Degraded)
	w.report(GradeUnknown).report(GradeUnknown).is(Degraded).report(GradeUnknown).is(Quarantined)
	// One that never answers.
	w = walkFrom(t, nodeIn(Admitted))
	w.now = w.n.LastJudged.Add(24*time.Hour - time.Second)
	if w.do(Event{Kind: EventTick}); len(w.out.Commands) != 0 {
		t.Error("asked too early")
	}
	for i := 0; w.n.Admission != Quarantined && i < 100; i++ {
		w.now = Due(w.p, w.n)
		w.do(Event{Kind: EventTick})
	}
	w.is(Quarantined)
	// One that is silent is not judged for it.
	w = walkFrom(t, nodeIn(Admitted)).do(Event{Kind: EventVerificationRequested, Reason: "r"}).do(Event{Kind: EventSilence})
	w.later(time.Hour).do(Event{Kind: EventTick}).is(Admitted)
	if w.n.Unknown != 0 {
		t.Error("silence counts as an unknown result")
	}
}

func TestFlapping(t *testing.T) {
	w := walkFrom(t, nodeIn(Admitted))
	for range 3 {
		w.report(GradePoor).report(GradePoor).is(Degraded).report(GradeGood).report(GradeGood).report(GradeGood).is(Admitted)
	}
	w.report(GradePoor).report(GradePoor).is(Degraded).report(GradeGood).report(GradeGood).report(GradeGood).is(Degraded)
	if !w.tells(NoticeTicket, KeyFlapping, false) {
		t.Errorf("%+v", w.out.Notices)
	}
	if w.report(GradeGood).is(Degraded); w.tells(NoticeTicket, KeyFlapping, false) {
		t.Error("it is told twice")
	}
	held := *w
	w.do(Event{Kind: EventReadmit}).is(Degraded)
	if _, asked := w.verify(); !asked {
		t.Error("a readmitted degraded node is not asked")
	}
	w.report(GradeGood).is(Admitted)
	// Or the window passes.
	held.later(24 * time.Hour)
	held.n.LastJudged = held.now
	held.report(GradeGood).is(Admitted)
	// Down is always possible, and then nothing leads out without a person.
	w = walkFrom(t, nodeIn(Degraded))
	w.n.Flaps = []time.Time{atNow, atNow, atNow}
	w.report(GradeSevere).report(GradeSevere).is(Quarantined).later(2 * time.Hour).do(Event{Kind: EventTick}).is(Quarantined)
	if due := Due(w.p, w.n); !due.Equal(atNow.Add(24 * time.Hour)) {
		t.Errorf("due at %s", due)
	}
	w.now = Due(w.p, w.n)
	w.do(Event{Kind: EventTick}).is(Reverifying)
}

func TestWhatWaitsForAPerson(t *testing.T) {
	for name, e := range map[string]Event{
		"a hard report":  {Kind: EventReport, Report: graded(GradeHard, began)},
		"a hard anomaly": {Kind: EventAnomaly, Anomaly: "lost"},
		"a person":       {Kind: EventQuarantine, Reason: "smoke"},
	} {
		for _, from := range []Admission{Admitted, Quarantined, Reverifying} {
			w := walkFrom(t, nodeIn(from)).do(e).is(Quarantined)
			for range 100 {
				w.later(time.Hour).do(Event{Kind: EventTick}).is(Quarantined)
			}
			if !Due(w.p, w.n).IsZero() {
				t.Errorf("%s from %s: due at %s", name, from, Due(w.p, w.n))
			}
			w.do(Event{Kind: EventReadmit, Actor: Actor{Kind: ActorServer}}).is(Quarantined)
			w.do(Event{Kind: EventReadmit}).is(Reverifying)
			// A try that fails softly does not make it soft.
			w.report(GradeUnknown).is(Quarantined).later(100 * time.Hour).do(Event{Kind: EventTick}).is(Quarantined)
		}
	}
}

func TestQuarantineIsTriedAgainAfterLongerWaits(t *testing.T) {
	w := walkFrom(t, nodeIn(Admitted)).report(GradeSevere).report(GradeSevere).is(Quarantined)
	if !w.tells(NoticeTicket, KeyQuarantine, false) {
		t.Errorf("%+v", w.out.Notices)
	}
	var waits []time.Duration
	for range 7 {
		waits = append(waits, Due(w.p, w.n).Sub(w.now))
		w.now = Due(w.p, w.n).Add(-time.Second)
		w.do(Event{Kind: EventTick}).is(Quarantined)
		w.later(time.Second).do(Event{Kind: EventTick}).is(Reverifying)
		if _, asked := w.verify(); !asked {
			t.Fatal("nobody was asked")
		}
		w.report(GradeSevere).is(Quarantined)
	}
	h := time.Hour
	if want := []time.Duration{h, 2 * h, 4 * h, 8 * h, 16 * h, 24 * h, 24 * h}; !slices.Equal(waits, want) {
		t.Errorf("waited %v", waits)
	}
	w.now = Due(w.p, w.n)
	w.do(Event{Kind: EventTick}).report(GradeGood).is(Admitted)
	if w.n.Retries != 0 || !w.tells(NoticeNote, KeyQuarantine, true) {
		t.Errorf("%+v", w.out)
	}
}

func TestReadmissionInSteps(t *testing.T) {
	w := walkFrom(t, nodeIn(Reverifying)).report(GradeGood).is(Admitted)
	var steps []int
	for range 7 {
		steps = append(steps, w.n.ReadmissionStep)
		w.report(GradeGood) // too early for the next step
		w.later(30 * time.Minute).report(GradeGood)
	}
	if want := []int{1, 2, 3, 4, 0, 0, 0}; !slices.Equal(steps, want) {
		t.Errorf("steps %v", steps)
	}
	w = walkFrom(t, nodeIn(Reverifying)).report(GradeGood).report(GradeFair).is(Admitted).report(GradeSevere).is(Quarantined)
	if w.n.ReadmissionStep != 0 {
		t.Error("still in steps")
	}
	w = walkFrom(t, nodeIn(Reverifying))
	w.p.Readmission.Steps = 0
	if w.report(GradeGood).is(Admitted); w.n.ReadmissionStep != 0 {
		t.Error("a policy without steps has one")
	}
}

func TestOverrides(t *testing.T) {
	keep := func(w *walk) *walk {
		return w.do(Event{Kind: EventOverrideSet, Override: OverrideKeep, Until: w.now.Add(time.Hour), Reason: "a demonstration"})
	}
	w := keep(walkFrom(t, nodeIn(Admitted)))
	w.report(GradeSevere).report(GradeSevere).report(GradeSevere).is(Admitted)
	w.do(Event{Kind: EventAnomaly, Anomaly: "clock_skew"}).is(Admitted).do(Event{Kind: EventAnomaly, Anomaly: "gpu_changed"}).is(Admitted)
	w.later(time.Hour).report(GradeSevere).is(Quarantined) // what was counted meanwhile
	keep(walkFrom(t, nodeIn(Admitted))).report(GradeHard).is(Quarantined)
	keep(walkFrom(t, nodeIn(Admitted))).do(Event{Kind: EventQuarantine}).is(Quarantined)
	keep(walkFrom(t, nodeIn(Degraded))).report(GradeGood).report(GradeGood).report(GradeGood).is(Degraded)

	w = walkFrom(t, nodeIn(Admitted))
	w.do(Event{Kind: EventOverrideSet, Override: OverrideOut, Until: w.now.Add(50 * time.Hour), Reason: "moved"}).is(Quarantined)
	w.n.Flaps = []time.Time{atNow, atNow, atNow, atNow, atNow.Add(49 * time.Hour), atNow.Add(49 * time.Hour), atNow.Add(49 * time.Hour), atNow.Add(49 * time.Hour)}
	w.later(49 * time.Hour).do(Event{Kind: EventTick}).report(GradeGood).is(Quarantined)
	w.later(time.Hour).do(Event{Kind: EventOverrideExpired, Actor: Actor{Kind: ActorServer}}).is(Reverifying)
	w.report(GradeGood).is(Admitted)

	for name, e := range map[string]Event{
		"no reason":    {Override: OverrideKeep, Until: atNow.Add(time.Hour)},
		"no end":       {Override: OverrideKeep, Reason: "r"},
		"past":         {Override: OverrideKeep, Reason: "r", Until: atNow},
		"too long":     {Override: OverrideKeep, Reason: "r", Until: atNow.Add(73 * time.Hour)},
		"one to admit": {Override: "admit", Reason: "r", Until: atNow.Add(time.Hour)},
		"by a server":  {Override: OverrideKeep, Reason: "r", Until: atNow.Add(time.Hour), Actor: Actor{Kind: ActorServer}},
	} {
		e.Kind = EventOverrideSet
		if w := walkFrom(t, nodeIn(Admitted)).do(e); !w.out.Refused || w.n.Override != nil || w.out.Why == "" {
			t.Errorf("%s is taken", name)
		}
	}
	if w := keep(walkFrom(t, nodeIn(Pending))); !w.out.Refused {
		t.Error("a pending node is kept")
	}
}

func TestDrains(t *testing.T) {
	w := walkFrom(t, nodeIn(Admitted)).do(Event{Kind: EventDrain, Reason: "kernel"})
	if w.n.Intent != Draining || !w.n.DrainBy.Equal(w.now.Add(10*time.Minute)) || len(w.out.Commands) != 1 || w.out.Commands[0].Kind != CommandDrain {
		t.Errorf("%+v", w.out)
	}
	if ok, _ := Routable(w.n.Facts); ok {
		t.Error("a draining node is routed")
	}
	w.later(10*time.Minute - time.Second).do(Event{Kind: EventDrainDeadline, Actor: Actor{Kind: ActorServer}})
	if w.n.Intent != Draining {
		t.Error("a timer that fired early ended the drain")
	}
	w.later(time.Second).do(Event{Kind: EventHeartbeat, Actor: Actor{Kind: ActorNode}})
	if w.n.Intent != Drained || w.out.Transitions[0].Event != EventTick || w.out.Transitions[0].Actor.Kind != ActorServer {
		t.Errorf("%+v", w.out.Transitions)
	}
	// The facts are independent: it may be judged and go silent meanwhile.
	w.report(GradeSevere).report(GradeSevere).is(Quarantined).do(Event{Kind: EventSilence}).do(Event{Kind: EventUndrain}).is(Quarantined)
	if w.n.Facts != (Facts{Quarantined, Serve, Silent}) {
		t.Errorf("%+v", w.n.Facts)
	}
	for name, until := range map[string]time.Time{"past": atNow, "too long": atNow.Add(25 * time.Hour)} {
		if w := walkFrom(t, nodeIn(Admitted)).do(Event{Kind: EventDrain, Until: until}); !w.out.Refused {
			t.Errorf("a drain until %s is taken", name)
		}
	}
	// A refused event does what is due all the same.
	w = walkFrom(t, nodeIn(Admitted)).do(Event{Kind: EventDrain}).later(time.Hour).do(Event{Kind: EventDrain, Actor: Actor{Kind: ActorNode}})
	if !w.out.Refused || w.n.Intent != Drained {
		t.Errorf("%+v", w.out)
	}
	w.do(Event{Kind: EventRetire})
	before := w.n
	for _, k := range Kinds() {
		if w.do(Event{Kind: k, Report: graded(GradeGood, w.now)}); !w.out.Refused || !reflect.DeepEqual(w.n, before) {
			t.Errorf("a retired node takes %s", k)
		}
	}
}

func TestAnomalies(t *testing.T) {
	w := walkFrom(t, nodeIn(Admitted)).do(Event{Kind: EventAnomaly, Anomaly: "never heard of"}).is(Admitted)
	if _, asked := w.verify(); !asked || !w.tells(NoticeNote, KeyAnomaly, false) {
		t.Errorf("%+v", w.out)
	}
	for range 50 { // a storm
		if w.later(time.Second).do(Event{Kind: EventAnomaly, Anomaly: "slow_inference"}); len(w.out.Commands) != 0 {
			t.Fatal("asked again")
		}
	}
	w.report(GradeGood)
	if w.later(20 * time.Second).do(Event{Kind: EventAnomaly, Anomaly: "slow_inference"}); len(w.out.Commands) != 0 {
		t.Error("asked again within the shortest interval")
	}
	if w.later(10 * time.Minute).do(Event{Kind: EventAnomaly, Anomaly: "slow_inference"}); len(w.out.Commands) != 1 {
		t.Error("not asked after it")
	}
	w.do(Event{Kind: EventAnomaly, Anomaly: "gpu_changed", Reason: "another \x1b[31mUUID"}).is(Quarantined)
	if !w.tells(NoticePage, KeyAnomaly, false) || strings.Contains(strings.Join(w.n.Reasons, ""), "\x1b") {
		t.Errorf("%+v", w.out)
	}
	if w := walkFrom(t, nodeIn(Admitted)).do(Event{Kind: EventAnomaly, Anomaly: "lost"}); !w.tells(NoticeReset, KeyReset, false) || !w.tells(NoticePage, KeyQuarantine, false) {
		t.Errorf("%+v", w.out.Notices)
	}
	if w := walkFrom(t, nodeIn(Admitted)).do(Event{Kind: EventAnomaly}); !w.out.Refused {
		t.Error("an anomaly of no kind is taken")
	}
}

func TestVerificationsOfNodesInRotation(t *testing.T) {
	w := walkFrom(t, nodeIn(Admitted)).do(Event{Kind: EventVerificationRequested, Reason: "curious"}).is(Admitted)
	c, ok := w.verify()
	if !ok || c.Why != "curious" {
		t.Fatalf("%+v", w.out.Commands)
	}
	if ok, _ := Routable(w.n.Facts); !ok {
		t.Error("asking takes a node out of rotation")
	}
	if w.do(Event{Kind: EventVerificationRequested}); len(w.out.Commands) != 0 {
		t.Error("asked twice")
	}
	w.later(20 * time.Minute).do(Event{Kind: EventVerificationStarted})
	first := w.n.Verification.Deadline
	w.later(20 * time.Minute).do(Event{Kind: EventVerificationStarted})
	if !w.n.Verification.Deadline.Equal(first) || !first.Equal(atNow.Add(50*time.Minute)) {
		t.Errorf("starting again moves the deadline to %s", w.n.Verification.Deadline)
	}
	if w := walkFrom(t, nodeIn(Quarantined)).do(Event{Kind: EventVerificationRequested}); !w.out.Refused {
		t.Error("a quarantined node is verified without being readmitted")
	}
	// After a long silence.
	w = walkFrom(t, nodeIn(Admitted)).do(Event{Kind: EventSilence}).later(59 * time.Minute).do(Event{Kind: EventHeartbeat})
	if len(w.out.Commands) != 0 {
		t.Error("asked after a short silence")
	}
	w.do(Event{Kind: EventSilence}).later(time.Hour).do(Event{Kind: EventHeartbeat})
	if len(w.out.Commands) != 1 {
		t.Error("not asked after a long silence")
	}
	if ids := []string{c.ID, w.out.Commands[0].ID}; ids[0] == ids[1] {
		t.Errorf("two commands have the id %s", ids[0])
	}
}

// TestRoutableReplica: a replica is routed where it and its node are, over all
// values of both.
func TestRoutableReplica(t *testing.T) {
	admissions := []Admission{Pending, Verifying, Admitted, Degraded, Quarantined, Reverifying, "", "new"}
	intents := []Intent{Serve, Draining, Drained, Retired, "", "new"}
	contacts := []Contact{Seen, Silent, "", "new"}
	var all []Facts
	for _, a := range admissions {
		for _, i := range intents {
			for _, c := range contacts {
				all = append(all, Facts{a, i, c})
			}
		}
	}
	in := func(f Facts) bool {
		return (f.Admission == Admitted || f.Admission == Degraded) && f.Intent == Serve && f.Contact == Seen
	}
	for _, n := range all {
		for _, r := range all {
			ok, why := RoutableReplica(n, r)
			if ok != (in(n) && in(r)) || why == "" {
				t.Fatalf("node %+v, replica %+v: %v, %q", n, r, ok, why)
			}
			if !in(n) && !strings.HasPrefix(why, "its node") {
				t.Fatalf("node %+v, replica %+v: %q does not say that it is the node", n, r, why)
			}
		}
	}
}
