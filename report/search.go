package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
)

// findMax is the answer of a search, and what it rests on.
func findMax(f assay.FindMax) string {
	unit := "requests/s"
	if f.Of == "concurrency" {
		unit = "streams"
	}
	var b strings.Builder
	switch {
	case !f.Load.Known():
		fmt.Fprintf(&b, "Highest %s that keeps the objectives: unknown: %s.", f.Of, f.Load.Why)
	case f.Edge:
		fmt.Fprintf(&b, "Highest %s that keeps the objectives: %s %s, an edge: %s; %s.",
			f.Of, streams(f.Load.Est), unit, f.Load.Why, ends(f.Load))
	default:
		fmt.Fprintf(&b, "Highest %s that keeps the objectives: %s %s; %s.", f.Of, streams(f.Load.Est), unit, ends(f.Load))
		if f.Load.Why != "" {
			fmt.Fprintf(&b, " %s.", strings.ToUpper(f.Load.Why[:1])+f.Load.Why[1:])
		}
	}
	var aside []string
	pooled := false
	for _, l := range f.Levels {
		pooled = pooled || len(l.Stages) > 1
		if l.SetAside != "" {
			aside = append(aside, l.SetAside)
		}
	}
	if pooled {
		b.WriteString(" Steps at one load are judged together, so one of them alone may look otherwise.")
	}
	if len(aside) > 0 {
		fmt.Fprintf(&b, " Set aside, as all violations lie within half of the stage: %s.", strings.Join(aside, ", "))
	}
	return b.String()
}

// ends says between which loads the answer lies.
func ends(q assay.Quantity) string {
	kept, broken := "kept at no load below", "broken at none"
	if !math.IsNaN(q.Lo) {
		kept = "kept at " + streams(q.Lo)
	}
	if !math.IsNaN(q.Hi) {
		broken = "broken at " + streams(q.Hi)
	}
	return kept + ", " + broken
}

// undecided says of the objectives that are neither kept nor broken what they
// lack, stage by stage; empty when there are none, and in a search, whose answer
// says it.
func undecided(s assay.Summary) string {
	if s.FindMax != nil {
		return ""
	}
	held := slices.ContainsFunc(s.Stages, func(st assay.StageSummary) bool { return !st.Plan.Probe })
	var lines []string
	for _, st := range s.Stages {
		for _, h := range st.Objectives {
			if h.Verdict == assay.Unknown && !(held && st.Plan.Probe) {
				lines = append(lines, fmt.Sprintf("%s at %s is unknown: %s.", h.Objective, st.Name, h.Measured.Why))
			}
		}
	}
	const most = 5
	if n := len(lines) - most; n > 0 {
		lines = append(lines[:most], fmt.Sprintf("and %d more.", n))
	}
	return strings.Join(lines, "\n")
}
