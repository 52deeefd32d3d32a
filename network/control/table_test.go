package control

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

var (
	askedAt = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	began   = askedAt.Add(5 * time.Minute)
	atNow   = askedAt.Add(10 * time.Minute)
	person  = Actor{Kind: ActorPerson, ID: "p1"}
)

func ptr[T any](v T) *T { return &v }

// good is a report that passes under the default policy.
func goodReport(at time.Time) *Measured {
	return &Measured{
		Run: "run-" + at.Format("150405"), Began: at, GPUs: 1,
		Checks: map[string]CheckFound{
			"identity.sources": {assay.Pass, 1}, "compute.golden": {assay.Pass, 1}, "compute.challenge": {assay.Pass, 1},
			CheckEngineMeasured: {assay.Pass, 1}, CheckHostClient: {assay.Pass, 1},
		},
		Overall: ptr(0.95), Lower: ptr(0.9), Basis: BasisPeers,
	}
}

// graded is a report with a grade under the default policy.
func graded(g Grade, at time.Time) *Measured {
	m := goodReport(at)
	switch g {
	case GradeHard:
		m.Found = []Found{{Rule: "xid", Verdict: assay.Fail, Hard: true}}
	case GradeSevere:
		m.Lower = ptr(0.4)
	case GradePoor:
		m.Lower = ptr(0.6)
	case GradeFair:
		m.Lower = ptr(0.75)
	case GradeUnknown:
		m.Checks["compute.golden"] = CheckFound{assay.Unknown, 1}
	case GradeUnbased:
		m.Basis, m.Lower, m.Overall = BasisNone, nil, nil
	}
	return m
}

// nodeIn is a node with a value of admission; a verification is under way where
// one leads on.
func nodeIn(a Admission) Node {
	n := Node{
		Facts: Facts{a, Serve, Seen}, Version: 7, PolicyVersion: 1,
		AdmissionSince: askedAt, IntentSince: askedAt, ContactSince: askedAt, LastJudged: askedAt,
	}
	v := &Verification{ID: "verify-7", Asked: askedAt, Deadline: askedAt.Add(30 * time.Minute)}
	switch a {
	case Pending, Verifying:
		n.Verification = v
	case Reverifying:
		n.Verification, n.Member = v, true
		n.Quarantine = &Quarantine{Cause: CauseSoft, At: askedAt}
	case Quarantined:
		n.Member = true
		n.Quarantine = &Quarantine{Cause: CauseSoft, At: askedAt, RetryAt: askedAt.Add(time.Hour)}
	default:
		n.Member = true
	}
	return n
}

// setting is what a row of the page is tried with.
type setting struct {
	p   Policy
	n   Node
	b   Breaker
	e   Event
	now time.Time
}

func settingOf(n Node) *setting {
	s := &setting{p: Default(), n: n, b: Breaker{Members: 100}, now: atNow}
	s.p.Version = 1
	_, s.b.Out = counted(n)
	return s
}

func (s *setting) holding() { s.b.Out = 10 }

func (s *setting) reported(g Grade) {
	s.e.Report = graded(g, began)
}

func (s *setting) late() { s.now = askedAt.Add(30 * time.Minute) }

// admissionRows makes each condition of the page's first table true.
var admissionRows = map[string]func(*setting){
	"enrolled|–":                     func(s *setting) { s.n, s.b = Node{}, Breaker{Members: 100} },
	"verification_started|asked for": func(*setting) {},
	"report|passes":                  func(s *setting) { s.reported(GradeGood) },
	"report|hard":                    func(s *setting) { s.reported(GradeHard); s.holding() },
	"report|severe, poor or fair":    func(s *setting) { s.reported(GradeFair); s.holding() },
	"report|unknown":                 func(s *setting) { s.reported(GradeUnknown) },
	"report|passes, and is held": func(s *setting) {
		s.n.Holds = []Hold{{Kind: FindShared}}
		s.reported(GradeGood)
	},
	"approve|last verification passed, and was held": func(s *setting) {
		s.n.Holds = []Hold{{Kind: FindShared}}
		s.n.Last = &LastReport{Run: "r", Began: began, Grade: GradeGood, PolicyVersion: 1}
	},
	"anomaly|the policy says hold": func(s *setting) { s.e.Anomaly = FindAltered },
	"anomaly|the policy says hold, breaker holds": func(s *setting) {
		s.e.Anomaly = FindAltered
		s.holding()
	},
	"report|unbased, not approved":    func(s *setting) { s.reported(GradeUnbased) },
	"report|anything else":            func(s *setting) { s.reported(GradeUnbased); s.holding() },
	"tick|timed out":                  func(s *setting) { s.late() },
	"anomaly|hard":                    func(s *setting) { s.e.Anomaly = "lost"; s.holding() },
	"anomaly|the policy says degrade": func(s *setting) { s.e.Anomaly = "clock_skew" },
	"quarantine|–":                    func(s *setting) { s.holding() },
	"readmit|–":                       func(s *setting) { s.holding(); s.n.Quarantine.Cause = CauseHard },
	"approve|last verification was unbased, and nothing else": func(s *setting) {
		s.n.Last = &LastReport{Run: "r", Began: began, Grade: GradeUnbased, PolicyVersion: 1}
	},
	"anomaly|hard, or the policy says quarantine": func(s *setting) { s.e.Anomaly = "gpu_changed"; s.holding() },
	"report|`results.bad` bad ones in a row": func(s *setting) {
		s.n.Bad = 1
		s.reported(GradePoor)
	},
	"report|`results.unknown` unknown ones in a row": func(s *setting) {
		s.n.Unknown = 2
		s.reported(GradeUnknown)
	},
	"report|`results.bad` severe ones in a row, breaker holds": func(s *setting) {
		s.n.Bad, s.n.Severe = 1, 1
		s.reported(GradeSevere)
		s.holding()
	},
	"report|`results.bad` severe ones in a row": func(s *setting) {
		s.n.Bad, s.n.Severe = 1, 1
		s.reported(GradeSevere)
	},
	"report|severe during re-admission": func(s *setting) {
		s.n.ReadmissionStep = 2
		s.reported(GradeSevere)
	},
	"report|twice `results.unknown` unknown ones in a row": func(s *setting) {
		s.n.Unknown = 5
		s.reported(GradeUnknown)
	},
	"report|`results.good` good ones in a row, below the flap limit": func(s *setting) {
		s.n.Good, s.n.Flaps = 2, []time.Time{askedAt, askedAt, askedAt}
		s.reported(GradeGood)
	},
	"tick|timed out, `results.unknown` unknown ones in a row": func(s *setting) {
		s.n.Verification = &Verification{ID: "v", Asked: askedAt, Deadline: atNow}
		s.n.Unknown = 2
	},
	"tick|timed out, twice `results.unknown` unknown ones in a row": func(s *setting) {
		s.n.Verification = &Verification{ID: "v", Asked: askedAt, Deadline: atNow}
		s.n.Unknown = 5
	},
	"anomaly|the policy says quarantine, breaker holds": func(s *setting) {
		s.e.Anomaly = "gpu_changed"
		s.holding()
	},
	"anomaly|the policy says quarantine": func(s *setting) { s.e.Anomaly = "gpu_changed" },
	"tick|time for another try, below the flap limit": func(s *setting) {
		s.now = s.n.Quarantine.RetryAt
		s.n.Flaps = []time.Time{askedAt, askedAt, askedAt}
	},
	"override_set|out": func(s *setting) {
		s.e.Override, s.e.Until, s.e.Reason = OverrideOut, atNow.Add(time.Hour), "the rack is being moved"
		s.holding()
	},
}

// otherRows does the same for the second table.
var otherRows = map[string]func(*setting){
	"drain|–":                    func(*setting) {},
	"drained|nothing is running": func(*setting) {},
	"tick|the deadline has come": func(s *setting) { s.now = s.n.DrainBy },
	"undrain|–":                  func(*setting) {},
	"retire|–":                   func(*setting) {},
	"heartbeat|–":                func(*setting) {},
	"silence|the breaker is not tripped by mass silence": func(s *setting) { s.b.Tripped = true },
}

type row struct{ from, event, when, to string }

// rowsOf reads the table below a heading; from may list several values.
func rowsOf(t *testing.T, heading string) (rows []row) {
	t.Helper()
	page, err := os.ReadFile("../../docs/admission.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "## "+heading+"\n")
	if !found {
		t.Fatalf("docs/admission.md has no %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		c := strings.Split(strings.TrimSpace(line), "|")
		if len(c) != 6 || strings.Contains(line, "---") || strings.TrimSpace(c[1]) == "from" {
			continue
		}
		for from := range strings.SplitSeq(c[1], ",") {
			rows = append(rows, row{strings.TrimSpace(from), strings.TrimSpace(c[2]), strings.TrimSpace(c[3]), strings.TrimSpace(c[4])})
		}
	}
	if len(rows) < 5 {
		t.Fatalf("%q has %d rows: the reader misses most of them", heading, len(rows))
	}
	return rows
}

// try runs a row and says what is wrong with what came out.
func (r row) try(t *testing.T, s *setting, fact Fact, make func(*setting)) {
	t.Helper()
	s.e.Kind, s.e.Actor = Kind(r.event), person
	make(s)
	from := r.from
	if from == "(new)" {
		from = ""
	}
	out := Step(s.p, s.n, s.b, s.e, s.now)
	// A replica goes the same ways.
	s.e.Host = &Host{}
	if r := Step(s.p, s.n, s.b, s.e, s.now); !reflect.DeepEqual(r.Transitions, out.Transitions) || !reflect.DeepEqual(r.Node, out.Node) {
		t.Errorf("%+v: of a replica it makes %+v", r, r.Transitions)
	}
	var got []Transition
	for _, tr := range out.Transitions {
		if tr.Fact == fact {
			got = append(got, tr)
		}
	}
	if len(got) != 1 || got[0].From != from || got[0].To != r.to || string(got[0].Event) != r.event {
		t.Errorf("%+v: got %+v (%s)", r, out.Transitions, out.Why)
		return
	}
	if len(got[0].Reasons) == 0 || got[0].PolicyVersion != 1 || got[0].NodeVersion != out.Node.Version || out.Node.Version != s.n.Version+1 {
		t.Errorf("%+v: a transition without reasons or versions: %+v", r, got[0])
	}
	if s.e.Report != nil && len(got[0].Evidence) == 0 {
		t.Errorf("%+v: it cites no evidence", r)
	}
}

func TestEveryTransitionOfThePage(t *testing.T) {
	used := map[string]bool{}
	for _, r := range rowsOf(t, "Transitions of admission") {
		key := r.event + "|" + r.when
		make := admissionRows[key]
		if make == nil {
			t.Errorf("no test makes %q true", key)
			continue
		}
		used[key] = true
		r.try(t, settingOf(nodeIn(Admission(r.from))), FactAdmission, make)
	}
	for key := range admissionRows {
		if !used[key] {
			t.Errorf("docs/admission.md has no row %q", key)
		}
	}
}

func TestEveryTransitionOfIntentAndContact(t *testing.T) {
	used := map[string]bool{}
	for _, r := range rowsOf(t, "Transitions of intent and contact") {
		key := r.event + "|" + r.when
		make := otherRows[key]
		if make == nil {
			t.Errorf("no test makes %q true", key)
			continue
		}
		used[key] = true
		n, fact := nodeIn(Admitted), FactIntent
		if Contact(r.from).Valid() {
			n.Contact, fact = Contact(r.from), FactContact
		} else {
			n.Intent, n.DrainBy = Intent(r.from), atNow.Add(time.Minute)
		}
		r.try(t, settingOf(n), fact, make)
	}
	for key := range otherRows {
		if !used[key] {
			t.Errorf("docs/admission.md has no row %q", key)
		}
	}
}
