package control

import (
	"math"
	"slices"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// Basis is what a score is a share of.
type Basis string

// The bases. Without one there is no score but that of stability.
const (
	BasisNone      Basis = ""
	BasisOwn       Basis = "own"       // the node's own accepted baseline
	BasisPeers     Basis = "peers"     // the median of admitted peers
	BasisCatalogue Basis = "catalogue" // the maker's figures: a starting score
)

// Checks that the server makes itself, from the run.
const (
	CheckEngineMeasured = "engine.measured"
	CheckHostClient     = "host.client"
	CheckRunFresh       = "run.fresh" // the run is the answer to its command
)

// Bounds of what is kept of a report.
const (
	maxFound  = 256
	maxChecks = 256
	maxName   = 80
)

// Measured is what a report says, without any threshold: a policy judges it, and
// another policy may judge it again.
type Measured struct {
	Run   string    `json:"run"`   // id of the run, or its hash
	Began time.Time `json:"began"` // by the server's clock
	// Answers is the id of the command that asked for it; empty: none did.
	Answers string `json:"answers,omitempty"`

	GPUs   int                   `json:"gpus"` // that the node has
	Checks map[string]CheckFound `json:"checks,omitempty"`
	Found  []Found               `json:"found,omitempty"`

	// Overall is the score, Lower the low end of its interval; null: unknown.
	Overall *float64 `json:"overall"`
	Lower   *float64 `json:"lower"`
	Basis   Basis    `json:"basis,omitempty"`
	// Why says why there is no lower bound.
	Why string `json:"why,omitempty"`
}

// CheckFound is a check over all devices: its worst verdict, and of how many.
type CheckFound struct {
	Verdict assay.Verdict `json:"verdict"`
	Devices int           `json:"devices"`
}

// Found is a finding of the health report.
type Found struct {
	Rule    string        `json:"rule"`
	Verdict assay.Verdict `json:"verdict"`
	Hard    bool          `json:"hard,omitempty"`
}

// Report is what [Measure] reduces. Health is the server's own, scored with a
// baseline that it chose.
type Report struct {
	Run     string
	Began   time.Time
	Answers string

	Health  assay.Health
	Summary assay.Summary
	Checks  []assay.Check
	Basis   Basis // of the baseline that was chosen; BasisNone: there was none
	Fresh   assay.Verdict
}

// Measure reduces a report to what a policy looks at.
func Measure(r Report) Measured {
	m := Measured{
		Run: foreign.Line(r.Run, 200), Began: r.Began, Answers: foreign.Line(r.Answers, 100),
		GPUs: len(r.Health.GPUs), Checks: map[string]CheckFound{},
	}
	devices := map[string]map[string]bool{}
	for _, c := range r.Checks {
		name := foreign.Line(c.Name, maxName)
		had, ok := m.Checks[name]
		if !ok && len(m.Checks) >= maxChecks {
			continue // more than any policy can name
		}
		if devices[name] == nil {
			devices[name] = map[string]bool{}
		}
		devices[name][c.Device] = true
		verdict := worst(had.Verdict, c.Verdict)
		if !ok {
			verdict = known(c.Verdict)
		}
		m.Checks[name] = CheckFound{Verdict: verdict, Devices: len(devices[name])}
	}
	m.Checks[CheckEngineMeasured] = CheckFound{Verdict: engineMeasured(r), Devices: 1}
	m.Checks[CheckHostClient] = CheckFound{Verdict: hostClient(r.Summary.Client), Devices: 1}
	m.Checks[CheckRunFresh] = CheckFound{Verdict: known(r.Fresh), Devices: 1}
	for _, f := range foundFirst(r.Health.Findings) {
		m.Found = append(m.Found, Found{Rule: foreign.Line(f.Rule, maxName), Verdict: known(f.Verdict), Hard: f.Hard})
	}
	m.score(r)
	return m
}

// score takes the interval of the overall score. A score without an interval has
// no lower bound: it might be anything.
func (m *Measured) score(r Report) {
	s := r.Health.Score
	m.Basis = r.Basis
	if m.Basis == BasisNone && s.Against == assay.AgainstCatalogue {
		m.Basis = BasisCatalogue
	}
	m.Overall = share(s.Overall)
	switch i, ok := s.Intervals["overall"]; {
	case m.Overall == nil:
		m.Why = foreign.Line("there is no overall score: "+s.Unknown["overall"], 300)
	case !ok:
		m.Why = foreign.Line("the score has no interval: "+s.Unknown["intervals"], 300)
	default:
		// An interval above its own estimate is no lower bound of it.
		low := min(i.Low, *m.Overall)
		if m.Lower = share(&low); m.Lower == nil {
			m.Why = "the score's interval is no number"
		}
	}
}

// foundFirst bounds findings; hard ones come first, so that none is lost.
func foundFirst(found []assay.Finding) []assay.Finding {
	out := slices.Clone(found)
	slices.SortStableFunc(out, func(a, b assay.Finding) int { return severity(b) - severity(a) })
	return out[:min(len(out), maxFound)]
}

func severity(f assay.Finding) int {
	if f.Hard {
		return 10
	}
	return int(known(f.Verdict))
}

// engineMeasured passes when the run ended by itself and has a rate of tokens.
func engineMeasured(r Report) assay.Verdict {
	rate := r.Health.Performance.OutputTokensPerSecond
	if r.Summary.Status == assay.StatusComplete && rate != nil && *rate > 0 && !math.IsInf(*rate, 0) {
		return assay.Pass
	}
	return assay.Unknown
}

// hostClient passes when the numbers are about the server.
func hostClient(c assay.ClientSummary) assay.Verdict {
	if c.Certificate == assay.Certified || c.Certificate == assay.DegradedBy {
		return assay.Pass
	}
	return assay.Unknown
}

// worst is the worse of two verdicts on one check: one card that failed fails
// the check, and one of which nothing is known leaves it unknown.
func worst(a, b assay.Verdict) assay.Verdict {
	a, b = known(a), known(b)
	for _, v := range []assay.Verdict{assay.Fail, assay.Unknown, assay.Degraded} {
		if a == v || b == v {
			return v
		}
	}
	return assay.Pass
}

// known takes a verdict of a later version for unknown.
func known(v assay.Verdict) assay.Verdict {
	if v > assay.Fail {
		return assay.Unknown
	}
	return v
}

// share takes what is no number from 0 to 1 for unknown.
func share(p *float64) *float64 {
	if p == nil || !(*p >= 0 && *p <= 1) {
		return nil
	}
	v := *p
	return &v
}
