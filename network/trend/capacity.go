package trend

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
)

// Level is what a node did at one load.
type Level struct {
	// Streams is how many requests were under way: requests a second × mean E2E
	// (Little's law). It is what heart-beats count too.
	Streams  float64 `json:"streams"`
	Requests float64 `json:"requests_per_second"`
	Tokens   float64 `json:"output_tokens_per_second"`
	// Values are by objective, as ttft_p99; absent: not known.
	Values map[string]float64 `json:"values"`
}

// maxLevels bounds the levels of a report.
const maxLevels = 64

// LevelsOf are the loads of a run at which what the node did is known: stages whose
// rates are those of a steady window.
func LevelsOf(sum assay.Summary) []Level {
	var out []Level
	for _, s := range sum.Stages {
		l := Level{Requests: s.RequestsPerSecond, Tokens: s.OutputTokensPerSecond, Streams: s.RequestsPerSecond * s.E2E.Mean / 1000, Values: map[string]float64{}}
		if !s.Complete || !s.Windowed() || s.SteadyTo <= s.SteadyFrom || s.OK == 0 || !positive(l.Streams) || !positive(l.Tokens) || len(out) == maxLevels {
			continue
		}
		if s.ErrorRate >= 0 && s.ErrorRate <= 1 {
			l.Values["error_rate"] = s.ErrorRate
		}
		for name, d := range map[string]assay.Dist{"ttft": s.TTFT, "tpot": s.TPOT, "e2e": s.E2E} {
			if positive(d.Mean) {
				l.Values[name+"_mean"] = d.Mean
			}
			for _, p := range d.Percentiles {
				// A percentile that too few samples carry decides nothing.
				if (p.Level == 50 || p.Level == 95 || p.Level == 99) && p.Held() && positive(p.Value) {
					l.Values[name+"_"+p.Name()] = p.Value
				}
			}
		}
		out = append(out, l)
	}
	return out
}

// ParseSLO reads objectives with commas between them, as ttft_p99<500ms,error_rate<1%.
// Empty are none.
func ParseSLO(text string) ([]assay.Objective, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var out []assay.Objective
	for one := range strings.SplitSeq(text, ",") {
		o, err := assay.ParseObjective(one)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(known, key(o)) {
			return nil, fmt.Errorf("%q: reports keep %s", strings.TrimSpace(one), strings.Join(known, ", "))
		}
		out = append(out, o)
	}
	return out, nil
}

var known = []string{"error_rate", "ttft_mean", "ttft_p50", "ttft_p95", "ttft_p99", "tpot_mean", "tpot_p50", "tpot_p95", "tpot_p99", "e2e_mean", "e2e_p50", "e2e_p95", "e2e_p99"}

func key(o assay.Objective) string {
	if o.Stat == "" {
		return o.Metric
	}
	return o.Metric + "_" + o.Stat
}

// Holds is the highest load that kept every objective, below the lowest that broke
// one. It is the zero Level where all broke one, and ok is false where no load says.
func Holds(levels []Level, slo []assay.Objective) (most Level, ok bool) {
	levels = slices.Clone(levels)
	slices.SortStableFunc(levels, func(a, b Level) int { return cmp.Compare(a.Streams, b.Streams) })
	for _, l := range levels {
		kept := true
		for _, o := range slo {
			switch v, has := l.Values[key(o)]; {
			case !has:
				kept = false
			case v > o.Max:
				return most, true
			}
		}
		if kept {
			most, ok = l, true
		}
	}
	return most, ok
}
