package decide

import (
	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/trend"
)

// maxLevelErrors is the share of failed requests up to which a load counts as held.
const maxLevelErrors = 0.01

// levels are what a node did at each load, for those who plan by it. A client that
// was the bottleneck measured itself.
func levels(s assay.Summary) (out []api.Level) {
	if s.Client.Certificate == assay.Invalid {
		return nil
	}
	for _, l := range trend.LevelsOf(s) {
		errors, known := l.Values["error_rate"]
		if !known || errors > maxLevelErrors {
			continue
		}
		out = append(out, api.Level{
			RequestsPerSecond: l.Requests * (1 - errors), OutputTokensPerSecond: l.Tokens,
			TtftP99Ms: value(l.Values, "ttft_p99"), TpotP99Ms: value(l.Values, "tpot_p99"),
		})
	}
	return out
}

// value is nil where a figure is not known.
func value(of map[string]float64, name string) *float64 {
	v, known := of[name]
	if !known {
		return nil
	}
	return &v
}
