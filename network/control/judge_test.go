package control

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

func TestGrades(t *testing.T) {
	check := func(name string, v assay.Verdict) func(*Measured) {
		return func(m *Measured) { m.Checks[name] = CheckFound{v, 1} }
	}
	lower := func(v float64) func(*Measured) { return func(m *Measured) { m.Lower = &v } }
	found := func(f Found) func(*Measured) { return func(m *Measured) { m.Found = append(m.Found, f) } }
	for _, c := range []struct {
		name string
		make func(*Measured)
		want Grade
		says string
	}{
		{"good", func(*Measured) {}, GradeGood, "0.9, at least 0.8 (against the median of its peers)"},
		{"at the threshold", lower(0.8), GradeGood, ""},
		{"below it", lower(0.79), GradeFair, "0.79, below 0.8"},
		{"at degrade", lower(0.7), GradeFair, ""},
		{"below it", lower(0.69), GradePoor, "0.69, below 0.7"},
		{"at quarantine", lower(0.5), GradePoor, ""},
		{"below it", lower(0.49), GradeSevere, "0.49, below 0.5"},
		{"zero is a score", lower(0), GradeSevere, ""},
		{"no interval", func(m *Measured) { m.Lower, m.Why = nil, "too short" }, GradeUnknown, "too short"},
		{"not a number", lower(math.NaN()), GradeUnknown, ""},
		{"above one", lower(1.5), GradeUnknown, ""},
		{"no baseline", func(m *Measured) { m.Basis, m.Lower = BasisNone, nil }, GradeUnbased, "no baseline"},
		{"stability alone is no score", func(m *Measured) { m.Basis = BasisNone }, GradeUnbased, "no baseline"},
		{"a basis of a later version", func(m *Measured) { m.Basis = "model" }, GradeUnknown, "does not know"},
		{"a starting score", func(m *Measured) { m.Basis, m.Lower = BasisCatalogue, ptr(0.3) }, GradeGood, "a starting score"},
		{"a low one fails nobody", func(m *Measured) { m.Basis, m.Lower = BasisCatalogue, ptr(0.01) }, GradeUnbased, "below 0.3"},
		{"one without an interval", func(m *Measured) { m.Basis, m.Lower = BasisCatalogue, nil }, GradeUnbased, ""},
		{"a check failed", check("compute.golden", assay.Fail), GradeSevere, "compute.golden failed"},
		{"a check is degraded", check("compute.golden", assay.Degraded), GradePoor, "compute.golden is degraded"},
		{"a check is unknown", check("compute.golden", assay.Unknown), GradeUnknown, "compute.golden is unknown"},
		{"a verdict of a later version", check("compute.golden", 9), GradeUnknown, ""},
		{"a check is missing", func(m *Measured) { delete(m.Checks, "host.client") }, GradeUnknown, "host.client was not made"},
		{"no checks", func(m *Measured) { m.Checks = nil }, GradeUnknown, "identity.sources was not made"},
		{"one card of eight", func(m *Measured) { m.GPUs = 8 }, GradeUnknown, "1 of 8 GPUs"},
		{"a check that is not required", check("memory.pattern", assay.Fail), GradeGood, ""},
		{"but is found", found(Found{"check.memory.pattern", assay.Fail, false}), GradeSevere, "check.memory.pattern failed"},
		{"a finding that fails", found(Found{"power_brake", assay.Fail, false}), GradeSevere, "power_brake failed"},
		{"a degraded one", found(Found{"drift", assay.Degraded, false}), GradePoor, "drift is degraded"},
		{"a note", found(Found{"baseline_differs", assay.Unknown, false}), GradeGood, ""},
		{"the report's own rule about the score", found(Found{"score", assay.Fail, false}), GradeGood, ""},
		{"a hard one", found(Found{"xid", assay.Fail, true}), GradeHard, "hard failure: xid"},
		{"hard by policy", found(Found{"lost", assay.Fail, false}), GradeHard, "hard failure: lost"},
		{"what did not fail is not hard", found(Found{"lost", assay.Unknown, true}), GradeGood, ""},
		{"hard before unknown", func(m *Measured) { m.Checks = nil; m.Found = []Found{{"xid", assay.Fail, true}} }, GradeHard, ""},
		{"severe before unknown", func(m *Measured) { delete(m.Checks, "host.client"); m.Lower = ptr(0.1) }, GradeSevere, ""},
		{"unknown before unbased", func(m *Measured) { delete(m.Checks, "host.client"); m.Basis = BasisNone }, GradeUnknown, ""},
		{"failed before unbased", func(m *Measured) { m.Checks["compute.golden"] = CheckFound{assay.Fail, 1}; m.Basis = BasisNone }, GradeSevere, ""},
	} {
		m := goodReport(began)
		c.make(m)
		j := Judge(Default(), *m)
		if j.Grade != c.want || !strings.Contains(strings.Join(j.Reasons, "; "), c.says) {
			t.Errorf("%s: %s because %q, want %s because %q", c.name, j.Grade, j.Reasons, c.want, c.says)
		}
		if len(j.Reasons) == 0 {
			t.Errorf("%s: no reason", c.name)
		}
	}
}

func TestWithoutAGPUOnlyEngineAndHostAreRequired(t *testing.T) {
	m := goodReport(began)
	m.GPUs = 0
	for name := range m.Checks {
		if strings.HasPrefix(name, "compute.") || strings.HasPrefix(name, "identity.") {
			delete(m.Checks, name)
		}
	}
	p := Default()
	if j := Judge(p, *m); j.Grade != GradeUnknown {
		t.Errorf("with gpu: required a node without a card is %s", j.Grade)
	}
	p.GPU = GPUNone
	if j := Judge(p, *m); j.Grade != GradeGood {
		t.Errorf("with gpu: none it is %s: %v", j.Grade, j.Reasons)
	}
	delete(m.Checks, CheckEngineMeasured)
	if j := Judge(p, *m); j.Grade != GradeUnknown {
		t.Errorf("without a measured engine it is %s", j.Grade)
	}
}

// Each grade of the page is one of the code's, and the other way round.
func TestThePageHasTheGrades(t *testing.T) {
	page, err := os.ReadFile("../../docs/admission.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "| grade | when |")
	var got []Grade
	for line := range strings.Lines(text) {
		if c := strings.Split(line, "|"); len(c) > 3 && strings.Contains(c[1], "`") {
			got = append(got, Grade(strings.Trim(strings.TrimSpace(c[1]), "`")))
		} else if strings.TrimSpace(line) == "" && len(got) > 0 {
			break
		}
	}
	if want := []Grade{GradeHard, GradeSevere, GradePoor, GradeUnknown, GradeUnbased, GradeFair, GradeGood}; !slices.Equal(got, want) {
		t.Errorf("the page has the grades %v, want %v", got, want)
	}
}

func health() Report {
	return Report{
		Run: "01RUN", Began: began, Basis: BasisOwn,
		Health: assay.Health{
			GPUs:        []assay.GPUHealth{{UUID: "a"}, {UUID: "b"}},
			Score:       assay.HealthScore{Overall: ptr(0.9), Intervals: map[string]assay.Interval{"overall": {Low: 0.85, High: 0.95}}, Against: assay.AgainstBaseline},
			Performance: assay.PerformanceMetrics{OutputTokensPerSecond: ptr(100.0)},
		},
		Summary: assay.Summary{Status: assay.StatusComplete, Client: assay.ClientSummary{Certificate: assay.Certified}},
		Checks: []assay.Check{
			{Name: "compute.golden", Device: "a", Verdict: assay.Pass}, {Name: "compute.golden", Device: "b", Verdict: assay.Pass},
			{Name: "compute.golden", Device: "b", Verdict: assay.Pass}, // once more is not one card more
		},
	}
}

func TestMeasure(t *testing.T) {
	m := Measure(health())
	if c := m.Checks["compute.golden"]; c != (CheckFound{assay.Pass, 2}) {
		t.Errorf("compute.golden: %+v", c)
	}
	if m.GPUs != 2 || m.Lower == nil || *m.Lower != 0.85 || *m.Overall != 0.9 || m.Basis != BasisOwn || m.Run != "01RUN" || !m.Began.Equal(began) {
		t.Errorf("%+v", m)
	}
	if m.Checks[CheckEngineMeasured].Verdict != assay.Pass || m.Checks[CheckHostClient].Verdict != assay.Pass {
		t.Errorf("our own checks: %+v", m.Checks)
	}
	for _, c := range []struct {
		name string
		make func(*Report)
		want func(Measured) bool
	}{
		{"one card failed", func(r *Report) { r.Checks[1].Verdict = assay.Fail }, func(m Measured) bool { return m.Checks["compute.golden"].Verdict == assay.Fail }},
		{"one card is unknown", func(r *Report) { r.Checks[0].Verdict = assay.Unknown }, func(m Measured) bool { return m.Checks["compute.golden"].Verdict == assay.Unknown }},
		{"failed and unknown", func(r *Report) { r.Checks[0].Verdict, r.Checks[1].Verdict = assay.Unknown, assay.Fail }, func(m Measured) bool { return m.Checks["compute.golden"].Verdict == assay.Fail }},
		{"a verdict of a later version", func(r *Report) { r.Checks = r.Checks[:1]; r.Checks[0].Verdict = 77 }, func(m Measured) bool { return m.Checks["compute.golden"].Verdict == assay.Unknown }},
		{"no interval", func(r *Report) { r.Health.Score.Intervals = nil }, func(m Measured) bool { return m.Lower == nil && strings.Contains(m.Why, "no interval") }},
		{"no score", func(r *Report) { r.Health.Score.Overall = nil }, func(m Measured) bool { return m.Lower == nil && strings.Contains(m.Why, "no overall") }},
		{"an interval above the score", func(r *Report) { r.Health.Score.Intervals["overall"] = assay.Interval{Low: 0.99, High: 1} }, func(m Measured) bool { return *m.Lower == 0.9 }},
		{"an interval of nonsense", func(r *Report) { r.Health.Score.Intervals["overall"] = assay.Interval{Low: math.NaN()} }, func(m Measured) bool { return m.Lower == nil }},
		{"a starting score", func(r *Report) { r.Basis, r.Health.Score.Against = BasisNone, assay.AgainstCatalogue }, func(m Measured) bool { return m.Basis == BasisCatalogue }},
		{"nothing to compare with", func(r *Report) { r.Basis, r.Health.Score.Against = BasisNone, "" }, func(m Measured) bool { return m.Basis == BasisNone }},
		{"an interrupted run", func(r *Report) { r.Summary.Status = assay.StatusPartial }, func(m Measured) bool { return m.Checks[CheckEngineMeasured].Verdict == assay.Unknown }},
		{"no tokens", func(r *Report) { r.Health.Performance.OutputTokensPerSecond = nil }, func(m Measured) bool { return m.Checks[CheckEngineMeasured].Verdict == assay.Unknown }},
		{"a client that was the bottleneck", func(r *Report) { r.Summary.Client.Certificate = assay.Invalid }, func(m Measured) bool { return m.Checks[CheckHostClient].Verdict == assay.Unknown }},
		{"no client", func(r *Report) { r.Summary.Client.Certificate = "" }, func(m Measured) bool { return m.Checks[CheckHostClient].Verdict == assay.Unknown }},
		{"our names claimed by the node", func(r *Report) {
			r.Summary.Status = assay.StatusPartial
			r.Checks = append(r.Checks, assay.Check{Name: CheckEngineMeasured, Verdict: assay.Pass})
		}, func(m Measured) bool { return m.Checks[CheckEngineMeasured].Verdict == assay.Unknown }},
		{"a hard finding behind a thousand notes", func(r *Report) {
			r.Health.Findings = append(make([]assay.Finding, 1000), assay.Finding{Rule: "xid", Verdict: assay.Fail, Hard: true})
		}, func(m Measured) bool { return len(m.Found) == maxFound && m.Found[0].Hard }},
		{"a thousand checks", func(r *Report) {
			for i := range 1000 {
				r.Checks = append(r.Checks, assay.Check{Name: "x" + time.Duration(i).String(), Verdict: assay.Pass})
			}
		}, func(m Measured) bool { return len(m.Checks) <= maxChecks+3 && m.Checks["compute.golden"].Devices == 2 }},
		{"a name with controls", func(r *Report) { r.Health.Findings = []assay.Finding{{Rule: "a\x1b[31m\nb", Verdict: assay.Fail}} }, func(m Measured) bool { return !strings.ContainsAny(m.Found[0].Rule, "\x1b\n") }},
	} {
		r := health()
		c.make(&r)
		if m := Measure(r); !c.want(m) {
			t.Errorf("%s: %+v", c.name, m)
		}
	}
}

func TestPeerBaseline(t *testing.T) {
	like := assay.Baseline{GPUModel: "NVIDIA H100", GPUCount: 8, Engine: "vllm", Model: "m", Load: assay.LoadClosed, At: 16}
	peer := func(rate float64) assay.Baseline {
		b := like
		b.OutputTokensPerSecond = &rate
		return b
	}
	peers := []assay.Baseline{peer(100), peer(300), peer(110)}
	got, ok := PeerBaseline(like, peers, 3)
	if !ok || *got.OutputTokensPerSecond != 110 || got.TTFTp99MS != nil || got.Model != "m" || got.At != 16 {
		t.Errorf("%v, %+v", ok, got)
	}
	for name, change := range map[string]func(*assay.Baseline){
		"another GPU":    func(b *assay.Baseline) { b.GPUModel = "NVIDIA A100" },
		"fewer GPUs":     func(b *assay.Baseline) { b.GPUCount = 4 },
		"another engine": func(b *assay.Baseline) { b.Engine = "sglang" },
		"another model":  func(b *assay.Baseline) { b.Model = "n" },
		"another load":   func(b *assay.Baseline) { b.At = 32 },
		"no number":      func(b *assay.Baseline) { b.OutputTokensPerSecond = ptr(math.NaN()) },
		"no speed":       func(b *assay.Baseline) { b.OutputTokensPerSecond = ptr(0.0) },
		"infinite speed": func(b *assay.Baseline) { b.OutputTokensPerSecond = ptr(math.Inf(1)) },
	} {
		three := slices.Clone(peers)
		change(&three[1])
		if b, ok := PeerBaseline(like, three, 3); ok {
			t.Errorf("%s is taken for a peer: %+v", name, b)
		}
	}
	nameless := like
	nameless.Model = ""
	if _, ok := PeerBaseline(nameless, []assay.Baseline{nameless, nameless, nameless}, 1); ok {
		t.Error("nodes without a model are peers")
	}
	if _, ok := PeerBaseline(like, nil, 0); ok {
		t.Error("no peers give a baseline")
	}
}

func TestChooseBaseline(t *testing.T) {
	p := Default()
	like := assay.Baseline{GPUModel: "NVIDIA H100", GPUCount: 1, Engine: "vllm", Model: "m", Load: assay.LoadClosed, At: 16}
	own, peer := like, like
	own.Name, own.At = "own", 8 // at another load: score says what that means
	own.OutputTokensPerSecond, peer.OutputTokensPerSecond = ptr(90.0), ptr(100.0)
	peers := []assay.Baseline{peer, peer, peer}
	if b, basis := ChooseBaseline(p, like, &own, peers); basis != BasisOwn || b.Name != "own" {
		t.Errorf("%s %+v", basis, b)
	}
	if b, basis := ChooseBaseline(p, like, nil, peers); basis != BasisPeers || *b.OutputTokensPerSecond != 100 {
		t.Errorf("%s %+v", basis, b)
	}
	other := own
	other.Model = "n" // it serves something else now
	if _, basis := ChooseBaseline(p, like, &other, peers); basis != BasisPeers {
		t.Errorf("its baseline of another model is taken: %s", basis)
	}
	if b, basis := ChooseBaseline(p, like, &other, peers[:2]); basis != BasisNone || b != nil {
		t.Errorf("two peers are enough: %s", basis)
	}
}
