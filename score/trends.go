package score

import (
	"fmt"
	"strings"

	"github.com/assay-bench/assay"
)

// trendsOf picks the trends that are about a device; those of a device that is
// not in the list belong to the node, as do those of none.
func trendsOf(all []assay.Trend, device string, devices map[string]bool) []assay.Trend {
	return filter(all, func(t assay.Trend) bool {
		if device == "" {
			return !devices[t.Device]
		}
		return t.Device == device
	})
}

func judgeLeaks(g gpu) []assay.Finding { return leaks(g.trends) }

func judgeDrifts(g gpu) []assay.Finding {
	return drifts(filter(g.trends, func(t assay.Trend) bool { return t.Cause != "" }))
}

// leaks are the memories that were found rising.
func leaks(trends []assay.Trend) []assay.Finding {
	var out []assay.Finding
	for _, t := range trends {
		if t.Kind == "leak" && t.Found == assay.Fail {
			out = append(out, one(assay.Degraded, false, fmt.Sprintf("%s rises by %s a minute under steady load: a leak", clip(t.Of), amount(t.Of, t.Slope)),
				"restart the engine before the memory is full, and tell its makers", slopeValues(t))...)
		}
	}
	return out
}

// drifts are the figures that were found to grow worse, and those of which the
// cause was seen.
func drifts(trends []assay.Trend) []assay.Finding {
	var out []assay.Finding
	for _, t := range trends {
		if t.Kind != "drift" || t.Found != assay.Fail && t.Cause == "" {
			continue
		}
		text, action := clip(t.Of)+" grows worse", "look at what else ran on the node meanwhile"
		// Of a change that came at one moment, a slope says nothing.
		if t.Slope.Known() && t.ChangedAt == nil {
			text += " by " + share(abs(t.Slope.Est)) + " a minute"
		}
		switch t.Cause {
		case "":
		case "gpu_clocks":
			text += "; the cause is throttling: the GPU's clocks fell at the same time"
			action = "see the reasons for low clocks: cooling and power come first"
		default:
			text += "; at the same time changed: " + clip(t.Cause)
		}
		if t.Why != "" {
			text += " (" + clip(t.Why) + ")"
		}
		out = append(out, one(assay.Degraded, false, text, action, slopeValues(t))...)
	}
	return out
}

func slopeValues(t assay.Trend) map[string]float64 {
	v := map[string]float64{"slope_per_minute": t.Slope.Est, "min_effect_per_minute": t.MinEffect}
	if t.P != nil {
		v["p"] = *t.P
	}
	return v
}

func amount(of string, q assay.Quantity) string {
	switch {
	case !q.Known():
		return "an unknown amount"
	case strings.HasSuffix(of, "_bytes"):
		return num(q.Est/1e6) + " MB"
	case strings.HasSuffix(of, "_ratio"):
		return share(q.Est)
	}
	return num(q.Est)
}

func abs(v float64) float64 { return max(v, -v) }
