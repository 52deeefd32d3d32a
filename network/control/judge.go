package control

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// Grade is what a policy makes of a report.
type Grade string

// The grades, from the worst to the best. The empty Grade is none of them.
const (
	GradeHard    Grade = "hard"    // a hard failure
	GradeSevere  Grade = "severe"  // bad enough for quarantine
	GradePoor    Grade = "poor"    // bad enough to be degraded
	GradeUnknown Grade = "unknown" // cannot be judged
	GradeUnbased Grade = "unbased" // good as far as can be told, without a baseline
	GradeFair    Grade = "fair"    // good enough to stay, not to come
	GradeGood    Grade = "good"
)

// Judgement is a report under a policy.
type Judgement struct {
	Grade Grade `json:"grade"`
	// Names of findings and checks.
	Hard     []string `json:"hard,omitempty"`
	Failed   []string `json:"failed,omitempty"`
	Degraded []string `json:"degraded,omitempty"`
	Unknown  []string `json:"unknown,omitempty"`
	Passed   []string `json:"passed,omitempty"`
	Lower    *float64 `json:"lower"`
	Basis    Basis    `json:"basis,omitempty"`
	// Reasons say why it has its grade, in words.
	Reasons []string `json:"reasons"`
}

// Judge gives a report its grade. docs/admission.md has the table.
func Judge(p Policy, m Measured) Judgement {
	j := Judgement{Lower: share(m.Lower), Basis: m.Basis}
	unknown := j.checks(p, m)
	j.findings(p, m)
	grade, why := j.score(p, m)
	switch {
	case len(j.Hard) > 0:
		j.Grade, j.Reasons = GradeHard, each("hard failure: %s", j.Hard)
	case len(j.Failed) > 0 || grade == GradeSevere:
		j.Grade, j.Reasons = GradeSevere, each("%s failed", j.Failed)
	case len(j.Degraded) > 0 || grade == GradePoor:
		j.Grade, j.Reasons = GradePoor, each("%s is degraded", j.Degraded)
	case len(j.Unknown) > 0:
		j.Grade, j.Reasons = GradeUnknown, unknown
	default:
		j.Grade = grade
	}
	if grade == j.Grade {
		j.Reasons = append(j.Reasons, why)
	}
	return j
}

// checks sorts the required checks by their verdict, and says of each unknown one
// why it is.
func (j *Judgement) checks(p Policy, m Measured) (unknown []string) {
	add := func(names []string, ofEach int) {
		for _, name := range names {
			c, made := m.Checks[name]
			verdict, why := known(c.Verdict), name+" is unknown"
			switch {
			case !made:
				verdict, why = assay.Unknown, name+" was not made"
			case verdict != assay.Fail && verdict != assay.Unknown && c.Devices < ofEach:
				verdict, why = assay.Unknown, fmt.Sprintf("%s is of %d of %d GPUs", name, c.Devices, ofEach)
			}
			switch verdict {
			case assay.Pass:
				j.Passed = append(j.Passed, name)
			case assay.Degraded:
				j.Degraded = append(j.Degraded, name)
			case assay.Fail:
				j.Failed = append(j.Failed, name)
			default:
				j.Unknown = append(j.Unknown, name)
				unknown = append(unknown, why)
			}
		}
	}
	if p.GPU != GPUNone {
		add(p.Checks.GPU, max(1, m.GPUs))
	}
	add(p.Checks.Engine, 1)
	add(p.Checks.Host, 1)
	return unknown
}

// findings sorts what the health report found. Its own rule about the score is
// not counted: the policy has thresholds of its own.
func (j *Judgement) findings(p Policy, m Measured) {
	sets := map[*[]string]map[string]bool{&j.Hard: {}, &j.Failed: {}, &j.Degraded: {}}
	for _, f := range m.Found {
		hard := f.Hard || slices.Contains(p.HardFailures, f.Rule)
		var to *[]string
		switch verdict := known(f.Verdict); {
		case hard && verdict == assay.Fail:
			to = &j.Hard
		case f.Rule == "score":
			continue
		case verdict == assay.Fail:
			to = &j.Failed
		case verdict == assay.Degraded:
			to = &j.Degraded
		default:
			continue // a note
		}
		sets[to][foreign.Line(f.Rule, maxName)] = true
	}
	for to, set := range sets {
		for _, name := range *to {
			delete(set, "check."+name) // the check itself is there
		}
		*to = append(*to, slices.Sorted(maps.Keys(set))...)
	}
}

// score grades the lower bound of the score alone.
func (j *Judgement) score(p Policy, m Measured) (Grade, string) {
	at := func(limit float64, words string) string {
		return fmt.Sprintf("the score's lower bound is %s, %s %s (%s)", number(*j.Lower), words, number(limit), basisWords[m.Basis])
	}
	switch m.Basis {
	case BasisOwn, BasisPeers:
	case BasisCatalogue:
		switch {
		case j.Lower == nil:
			return GradeUnbased, "there is no baseline, and no starting score: " + foreign.Line(m.Why, 300)
		case *j.Lower < p.Score.Starting:
			return GradeUnbased, at(p.Score.Starting, "below")
		}
		return GradeGood, at(p.Score.Starting, "at least")
	case BasisNone:
		return GradeUnbased, "there is no baseline, and no starting score"
	default:
		return GradeUnknown, fmt.Sprintf("the score is against %q, which this version does not know", foreign.Line(m.Basis, 40))
	}
	switch {
	case j.Lower == nil:
		j.Unknown = append(j.Unknown, "score")
		return GradeUnknown, foreign.Line(m.Why, 300)
	case *j.Lower < p.Score.Quarantine:
		return GradeSevere, at(p.Score.Quarantine, "below")
	case *j.Lower < p.Score.Degrade:
		return GradePoor, at(p.Score.Degrade, "below")
	case *j.Lower < p.Score.Admit:
		return GradeFair, at(p.Score.Admit, "below")
	}
	return GradeGood, at(p.Score.Admit, "at least")
}

var basisWords = map[Basis]string{
	BasisOwn: "against its own baseline", BasisPeers: "against the median of its peers", BasisCatalogue: "a starting score",
}

func each(format string, names []string) (out []string) {
	for _, n := range names {
		out = append(out, fmt.Sprintf(format, n))
	}
	return out
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
