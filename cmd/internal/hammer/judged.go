package hammer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
)

// judged holds the objectives: of a search for the highest load its answer
// counts, otherwise every stage, or, where steps of a search led to it, the
// stage that was held.
func judged(sum assay.Summary) error {
	if f := sum.FindMax; f != nil {
		if f.Load.Known() {
			return nil
		}
		return cli.Unknown(fmt.Errorf("no answer: %s", f.Load.Why))
	}
	held := slices.ContainsFunc(sum.Stages, func(st assay.StageSummary) bool { return !st.Plan.Probe })
	var broken, unknown []string
	for _, st := range sum.Stages {
		if len(st.Objectives) == 0 || held && st.Plan.Probe {
			continue
		}
		switch st.Kept {
		case assay.Pass:
		case assay.Fail:
			broken = append(broken, because(st, assay.Fail))
		default:
			unknown = append(unknown, because(st, assay.Unknown))
		}
	}
	switch {
	case len(broken) > 0:
		return cli.Failed(errors.New("an objective was not kept: " + some(broken)))
	case len(unknown) > 0:
		return cli.Unknown(errors.New("an objective could not be decided: " + some(unknown)))
	}
	return nil
}

// because names the first objective of a stage with that verdict, and what was
// measured of it.
func because(st assay.StageSummary, v assay.Verdict) string {
	for _, h := range st.Objectives {
		if h.Verdict != v {
			continue
		}
		text := fmt.Sprintf("%s at %s", h.Objective, st.Name)
		if h.Measured.Known() {
			unit := " ms"
			value := h.Measured.Est
			if h.Objective.Metric == "error_rate" {
				unit, value = " %", 100*value
			}
			text += fmt.Sprintf(" is %.4g%s", value, unit)
		}
		if h.Measured.Why != "" {
			text += ": " + h.Measured.Why
		}
		return text
	}
	switch {
	case st.BacklogGrows || st.NeverSent+st.Censored > 0:
		return fmt.Sprintf("the engine did not keep up with the load at %s", st.Name)
	case st.ErrorRate > 0:
		return fmt.Sprintf("%.3g %% of requests failed at %s", 100*st.ErrorRate, st.Name)
	}
	return st.Name
}

// some are the first of several reasons.
func some(reasons []string) string {
	const most = 2
	if n := len(reasons) - most; n > 0 {
		return fmt.Sprintf("%s; and %d more stages", strings.Join(reasons[:most], "; "), n)
	}
	return strings.Join(reasons, "; ")
}
