package control

import (
	"flag"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/assay-bench/assay"
)

// nature is what a generated report is, by construction: the oracle looks at it,
// and never at Judge.
type nature struct {
	name string
	make func(*Measured)
	hard bool
	// passes: a verification by it is good; based: and needs no approval.
	passes, based bool
	starting      bool // for newcomers
}

var natures = []nature{
	{"good", func(*Measured) {}, false, true, true, false},
	{"good", func(*Measured) {}, false, true, true, false}, // twice as often
	{"starting", func(m *Measured) { m.Basis, m.Lower = BasisCatalogue, ptr(0.4) }, false, true, true, true},
	{"unbased", func(m *Measured) { m.Basis, m.Lower = BasisNone, nil }, false, true, false, false},
	{"low start", func(m *Measured) { m.Basis, m.Lower = BasisCatalogue, ptr(0.1) }, false, true, false, false},
	{"fair", func(m *Measured) { m.Lower = ptr(0.75) }, false, false, true, false},
	{"poor", func(m *Measured) { m.Lower = ptr(0.6) }, false, false, true, false},
	{"severe", func(m *Measured) { m.Lower = ptr(0.2) }, false, false, true, false},
	{"severe", func(m *Measured) { m.Lower = ptr(0.2) }, false, false, true, false},
	{"no interval", func(m *Measured) { m.Lower = nil }, false, false, true, false},
	{"no number", func(m *Measured) { m.Lower = ptr(math.NaN()) }, false, false, true, false},
	{"unbased, a check failed", func(m *Measured) {
		m.Basis, m.Lower, m.Checks["compute.golden"] = BasisNone, nil, CheckFound{assay.Fail, 1}
	}, false, false, false, false},
	{"unbased, a check is unknown", func(m *Measured) {
		m.Basis, m.Lower, m.Checks["compute.golden"] = BasisNone, nil, CheckFound{assay.Unknown, 1}
	}, false, false, false, false},
	{"a check is missing", func(m *Measured) { delete(m.Checks, "compute.challenge") }, false, false, true, false},
	{"one GPU of two", func(m *Measured) { m.GPUs = 2 }, false, false, true, false},
	{"a check failed", func(m *Measured) { m.Checks[CheckHostClient] = CheckFound{assay.Fail, 1} }, false, false, true, false},
	{"no engine", func(m *Measured) { delete(m.Checks, CheckEngineMeasured) }, false, false, true, false},
	{"a finding fails", func(m *Measured) { m.Found = []Found{{Rule: "errors", Verdict: assay.Fail}} }, false, false, true, false},
	{"hard", func(m *Measured) { m.Found = []Found{{Rule: "xid", Verdict: assay.Fail, Hard: true}} }, true, false, true, false},
	{"hard by policy", func(m *Measured) { m.Found = []Found{{Rule: "lost", Verdict: assay.Fail}} }, true, false, true, false},
}

// watched is a node with what an onlooker knows of it.
type watched struct {
	Node
	asked    time.Time // when the last verification was asked for
	approved bool      // since the last quarantine
	latest   time.Time // when the last report that counted began
	unbased  bool      // that report would pass with approval
	goods    int       // good reports in a row
	was      bool      // in rotation, at least once
}

// netModel is a network of nodes under generated events.
type netModel struct {
	p     Policy
	nodes []*watched
	b     Breaker
	now   time.Time
	rows  map[string]bool
	seen  map[string]int
}

// casesEach is how many networks each property is tried on.
const casesEach = 600

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue && !testing.Short() {
		if err := f.Value.Set(fmt.Sprint(casesEach)); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func newNet(t *rapid.T, rows map[string]bool, seen map[string]int) *netModel {
	p := Default()
	p.Version = 1
	p.Breaker.Share = rapid.SampledFrom([]float64{0.01, 0.1, 0.34, 0.5}).Draw(t, "share")
	p.Results = Results{rapid.IntRange(1, 3).Draw(t, "bad"), rapid.IntRange(1, 3).Draw(t, "good"), rapid.IntRange(1, 3).Draw(t, "unknown")}
	p.Flaps.Limit = rapid.IntRange(1, 6).Draw(t, "flaps")
	p.Readmission.Steps = rapid.IntRange(0, 3).Draw(t, "steps")
	m := &netModel{p: p, now: askedAt, rows: rows, seen: seen}
	for range rapid.IntRange(1, 8).Draw(t, "nodes") {
		m.nodes = append(m.nodes, &watched{})
		m.step(t, len(m.nodes)-1, Event{Kind: EventEnrolled}, nil)
	}
	// Most sequences would otherwise never see a node in rotation.
	for i := range m.nodes {
		if rapid.IntRange(0, 2).Draw(t, "admitted") > 0 {
			m.now = m.now.Add(time.Second)
			m.step(t, i, Event{Kind: EventReport, Report: goodReport(m.now)}, &natures[0])
		}
	}
	return m
}

// often are kinds that are drawn more often than the others.
var often = []Kind{
	EventReport, EventReport, EventReport, EventReport, EventReport, EventTick, EventTick,
	EventVerificationStarted, EventVerificationStarted, EventOverrideSet, EventApprove,
}

var hardAnomaly = map[string]bool{"lost": true}

// act draws one event for one node.
func (m *netModel) act(t *rapid.T) {
	i := rapid.IntRange(0, len(m.nodes)-1).Draw(t, "node")
	switch rapid.IntRange(0, 3).Draw(t, "clock") {
	case 0:
		m.now = m.now.Add(time.Duration(rapid.IntRange(0, 7200).Draw(t, "seconds")) * time.Second)
	case 1:
		if d := Due(m.p, m.nodes[i].Node); d.After(m.now) && d.Sub(m.now) < 100*time.Hour {
			m.now = d
		}
	}
	e := Event{
		Kind: rapid.SampledFrom(append(Kinds(), often...)).Draw(t, "kind"),
	}
	if e.Kind == EventRetire && rapid.IntRange(0, 9).Draw(t, "retire") > 0 {
		e.Kind = EventTick
	}
	e.Actor.Kind = rapid.SampledFrom([]ActorKind{ActorPerson, ActorPerson, ActorServer, ActorNode}).Draw(t, "actor")
	e.Reason = rapid.SampledFrom([]string{"", "because", "because"}).Draw(t, "reason")
	e.Override = rapid.SampledFrom([]OverrideKind{OverrideKeep, OverrideOut, OverrideOut, "admit"}).Draw(t, "override")
	if rapid.Bool().Draw(t, "until?") {
		e.Until = m.now.Add(time.Duration(rapid.IntRange(-3600, 80*3600).Draw(t, "until")) * time.Second)
	}
	var of *nature
	switch e.Kind {
	case EventAnomaly:
		e.Anomaly = rapid.SampledFrom([]string{"lost", "gpu_changed", "clock_skew", "slow_inference", "new"}).Draw(t, "anomaly")
	case EventReport:
		of = &natures[rapid.IntRange(0, len(natures)-1).Draw(t, "nature")]
		at := m.now.Add(-time.Duration(rapid.SampledFrom([]int{0, 0, 0, 0, 60, 3600, 90_000, -30, -120}).Draw(t, "age")) * time.Second)
		e.Report = goodReport(at)
		of.make(e.Report)
		e.Report.Answers = rapid.SampledFrom([]string{"", "", "", "verify-1", "verify-3"}).Draw(t, "answers")
	}
	m.step(t, i, e, of)
}

// step gives an event to a node and checks all that must hold.
func (m *netModel) step(t *rapid.T, i int, e Event, of *nature) {
	w := m.nodes[i]
	before, breaker := w.Node, m.b
	e.At = m.now
	out := Step(m.p, before, breaker, e, m.now)
	if again := Step(m.p, before, breaker, e, m.now); !reflect.DeepEqual(out, again) {
		t.Fatalf("two steps differ: %+v and %+v", out, again)
	}
	fail := func(format string, args ...any) {
		t.Fatalf("%s\n%s by %s, nature %+v\nbefore %+v\nafter %+v\nbreaker %+v\nwhy %s", fmt.Sprintf(format, args...), e.Kind, e.Actor.Kind, of, before, out.Node, breaker, out.Why)
	}
	if out.Why == "" {
		fail("no reason")
	}
	if !out.Node.Valid() {
		fail("the state is not valid")
	}
	m.facts(fail, before, out)
	m.admission(fail, w, e, of, out)
	m.breaking(fail, before, breaker, e, of, out)
	m.timely(fail, out.Node)
	m.remember(w, e, of, out)
	w.Node, m.b = out.Node, out.Breaker
	w.was = w.was || w.Admission == Admitted
	members, gone := 0, 0
	for _, x := range m.nodes {
		if x.was && x.Intent != Retired {
			members++
			if x.Admission != Admitted && x.Admission != Degraded {
				gone++
			}
		}
	}
	if m.b.Members != members || m.b.Out != gone {
		fail("the breaker counts %d of %d, there are %d of %d", m.b.Out, m.b.Members, gone, members)
	}
}

type failing = func(format string, args ...any)

// facts: every change is a transition, and every transition a row of the page.
func (m *netModel) facts(fail failing, before Node, out Outcome) {
	f := before.Facts
	for _, tr := range out.Transitions {
		from := map[Fact]string{FactAdmission: string(f.Admission), FactIntent: string(f.Intent), FactContact: string(f.Contact)}[tr.Fact]
		if tr.From != from || tr.From == tr.To {
			fail("transition %+v begins at %q", tr, from)
		}
		switch tr.Fact {
		case FactAdmission:
			f.Admission = Admission(tr.To)
		case FactIntent:
			f.Intent = Intent(tr.To)
		case FactContact:
			f.Contact = Contact(tr.To)
		}
		key := tr.From + "|" + string(tr.Event) + "|" + tr.To
		m.seen[key]++
		if !m.rows[key] {
			fail("docs/admission.md has no transition from %q by %s to %q", tr.From, tr.Event, tr.To)
		}
	}
	if before.Facts == (Facts{}) {
		f.Intent, f.Contact = Serve, Seen
	}
	if f != out.Node.Facts {
		fail("the transitions lead to %+v", f)
	}
	if (len(out.Transitions) > 0) && out.Node.Version != before.Version+1 {
		fail("a transition without a new version")
	}
}

// admission: nothing is admitted without a passing verification, nothing leaves
// quarantine without a re-verification, and hard failures leave rotation.
func (m *netModel) admission(fail failing, w *watched, e Event, of *nature, out Outcome) {
	now := w.Admission
	for _, tr := range out.Transitions {
		if tr.Fact != FactAdmission {
			continue
		}
		switch from, to := Admission(tr.From), Admission(tr.To); {
		case from == Quarantined && to != Reverifying:
			fail("left quarantine for %s", to)
		case to == Reverifying && (from != Quarantined || !w.asks(out)):
			fail("re-verifying without having been asked for")
		case to == Admitted && from == Degraded:
			if !w.good(of) || w.goods+1 < m.p.Results.Good {
				fail("from degraded after %d good reports", w.goods)
			}
		case to == Admitted && tr.Event == EventApprove:
			if e.Actor.Kind != ActorPerson || !w.unbased || !w.latest.After(w.asked) {
				fail("approval admitted a node whose verification had not passed otherwise")
			}
		case to == Admitted:
			if !w.good(of) || !e.Report.Began.After(w.asked) {
				fail("admitted without a passing verification that began after %s", w.asked)
			}
		}
		now = Admission(tr.To)
	}
	hard := e.Kind == EventAnomaly && hardAnomaly[e.Anomaly] || of != nil && of.hard && m.counts(w, e)
	if ok, _ := Routable(out.Node.Facts); hard && ok {
		fail("a hard failure is in rotation as %s", now)
	}
}

// good says whether a report by its nature is one that leads up.
func (w *watched) good(of *nature) bool {
	return of != nil && of.passes && (w.approved || of.based && !(of.starting && w.Member))
}

// asks says whether a verification was asked for in this step.
func (w *watched) asks(out Outcome) bool {
	return slices.ContainsFunc(out.Commands, func(c Command) bool { return c.Kind == CommandVerify })
}

// counts says whether a report is later than all before, and of our time.
func (m *netModel) counts(w *watched, e Event) bool {
	return w.Intent != Retired && e.Report.Began.After(w.latest) && !e.Report.Began.After(m.now.Add(time.Minute))
}

// breaking: a soft quarantine of a node in rotation is within the share.
func (m *netModel) breaking(fail failing, before Node, b Breaker, e Event, of *nature, out Outcome) {
	from := before.Admission
	for _, tr := range out.Transitions {
		if tr.Fact == FactAdmission && tr.To == string(Quarantined) && (from == Admitted || from == Degraded) {
			person := tr.Event == EventQuarantine || tr.Event == EventOverrideSet
			hard := tr.Event == EventReport && of.hard || tr.Event == EventAnomaly && hardAnomaly[e.Anomaly]
			most := max(1, int(m.p.Breaker.Share*float64(b.Members)+1e-9))
			if !person && !hard && !m.now.Before(b.LiftedUntil) && (b.Out+1 > most || b.Mass) {
				fail("%d of %d were out, %d may be, and one more was quarantined", b.Out, b.Members, most)
			}
		}
		if tr.Fact == FactAdmission {
			from = Admission(tr.To)
		}
		if tr.Fact == FactContact && tr.To == string(Silent) && b.Mass && !m.now.Before(b.LiftedUntil) {
			fail("became silent while the breaker was tripped by mass silence")
		}
	}
}

// timely: what was to end has ended, and a tick leads on.
func (m *netModel) timely(fail failing, n Node) {
	if n.Intent == Retired {
		return
	}
	if n.Override != nil && !m.now.Before(n.Override.Until) {
		fail("the override is over since %s", n.Override.Until)
	}
	if n.Override != nil && n.Override.Until.Sub(m.now) > time.Duration(m.p.Override.Max) {
		fail("an override of %s", n.Override.Until.Sub(m.now))
	}
	if n.Intent == Draining && !m.now.Before(n.DrainBy) {
		fail("still draining")
	}
	if n.Verification.open() && !m.now.Before(n.Verification.Deadline) {
		fail("the verification is over")
	}
	if d := Due(m.p, n); !d.IsZero() {
		at := latest(d, m.now)
		after := Step(m.p, n, m.b, Event{Kind: EventTick, Actor: Actor{Kind: ActorServer}}, at)
		if next := Due(m.p, after.Node); !next.IsZero() && !next.After(at) {
			fail("a tick when it was due, at %s, leaves something due at %s: %+v", at, next, after.Node)
		}
	}
	if n.Quarantine != nil && n.Quarantine.Cause == CauseOverride && n.Override != nil && n.Contact == Seen && n.Admission == Quarantined {
		after := Step(m.p, n, m.b, Event{Kind: EventOverrideExpired, Actor: Actor{Kind: ActorServer}}, n.Override.Until)
		if after.Node.Admission != Reverifying {
			fail("after the override it is %s: %s", after.Node.Admission, after.Why)
		}
	}
}

// remember keeps what an onlooker knows after a step.
func (m *netModel) remember(w *watched, e Event, of *nature, out Outcome) {
	moves := func(due bool) {
		for _, tr := range out.Transitions {
			if tr.Fact == FactAdmission && (tr.Event == EventTick) == due {
				w.approved = w.approved && tr.To != string(Quarantined)
				w.goods = 0
			}
		}
	}
	moves(true) // what was due comes before the event
	counted := of != nil && !out.Refused && out.Node.Last != nil && out.Node.Last.Began.Equal(e.Report.Began) && e.Report.Began.After(w.latest)
	if counted {
		w.latest, w.unbased = e.Report.Began, of.passes && !of.based
		w.goods++
		if !w.good(of) {
			w.goods = 0
		}
	}
	if e.Kind == EventApprove && e.Actor.Kind == ActorPerson && !out.Refused {
		w.approved = true
	}
	moves(false)
	if w.asks(out) {
		w.asked = m.now
	}
}

// pageRows are the transitions of docs/admission.md.
func pageRows(t *testing.T) map[string]bool {
	rows := map[string]bool{}
	for _, heading := range []string{"Transitions of admission", "Transitions of intent and contact"} {
		for _, r := range rowsOf(t, heading) {
			if r.from == "(new)" {
				r.from = ""
			}
			rows[r.from+"|"+r.event+"|"+r.to] = true
		}
	}
	return rows
}

func TestPropertyNoSequenceOfEventsBreaksTheRules(t *testing.T) {
	rows, seen := pageRows(t), map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		m := newNet(t, rows, seen)
		for range rapid.IntRange(1, 120).Draw(t, "events") {
			switch rapid.IntRange(0, 39).Draw(t, "other") {
			case 0:
				m.b, _ = m.b.Lift(m.p, Actor{Kind: rapid.SampledFrom([]ActorKind{ActorPerson, ActorServer}).Draw(t, "lifter")}, m.now.Add(time.Hour), m.now)
			case 1:
				m.b, _ = m.b.trip("mass silence", true, m.now)
			case 2:
				m.b = m.b.clear()
			}
			m.act(t)
		}
	})
	// The generator has to get everywhere for this to mean anything.
	for key := range rows {
		if seen[key] == 0 {
			t.Logf("never reached: %s", key)
		}
	}
	if len(seen) < len(rows)*4/5 {
		t.Errorf("only %d of %d transitions were reached", len(seen), len(rows))
	}
}
