package decide

import (
	"math"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/network/api"
)

const (
	maxLevels      = 100
	maxLevelErrors = 0.01
)

// levels are what a node did at each load, for those who plan by it: stages whose
// rates are those of a steady window. A client that was the bottleneck measured
// itself.
func levels(s assay.Summary) (out []api.Level) {
	if s.Client.Certificate == assay.Invalid {
		return nil
	}
	for i := range s.Stages {
		st := &s.Stages[i]
		l := api.Level{
			RequestsPerSecond: st.RequestsPerSecond * (1 - st.ErrorRate), OutputTokensPerSecond: st.OutputTokensPerSecond,
			TtftP99Ms: carried(st.TTFT), TpotP99Ms: carried(st.TPOT),
		}
		usable := st.Complete && st.Windowed() && st.SteadyTo > st.SteadyFrom && st.OK > 0 && st.ErrorRate <= maxLevelErrors
		if usable && finite(l.RequestsPerSecond) && finite(l.OutputTokensPerSecond) && len(out) < maxLevels {
			out = append(out, l)
		}
	}
	return out
}

// carried is the 99th percentile where the samples carry it: another decides
// nothing.
func carried(d assay.Dist) *float64 {
	p, ok := d.P(99)
	if !ok || !p.Held() || !finite(p.Value) {
		return nil
	}
	return &p.Value
}

func finite(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }
