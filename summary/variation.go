package summary

import (
	"math"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// variationsOf compares stages of one plan over the runs of --num-runs.
func variationsOf(stages []assay.StageSummary) []assay.Variation {
	groups := map[assay.Stage][]*assay.StageSummary{}
	var order []assay.Stage
	for i := range stages {
		s := &stages[i]
		if s.Plan.Run < 1 || !s.Complete {
			continue
		}
		key := s.Plan
		key.Name, key.Run = "", 0
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], s)
	}
	percentile := func(d assay.Dist, level float64) float64 {
		if p, ok := d.P(level); ok {
			return p.Value
		}
		return math.NaN()
	}
	// Variation of whole stages would be that of their filling and draining.
	windowed := func(s *assay.StageSummary, rate float64) float64 {
		if !s.Windowed() {
			return math.NaN()
		}
		return rate
	}
	metrics := []struct {
		name string
		of   func(*assay.StageSummary) float64
	}{
		{"requests_per_second", func(s *assay.StageSummary) float64 { return windowed(s, s.RequestsPerSecond) }},
		{"output_tokens_per_second", func(s *assay.StageSummary) float64 { return windowed(s, s.OutputTokensPerSecond) }},
		{"goodput_requests_per_second", func(s *assay.StageSummary) float64 { return windowed(s, s.GoodputPerSecond) }},
		{"ttft_ms_p50", func(s *assay.StageSummary) float64 { return percentile(s.TTFT, 50) }},
		{"ttft_ms_p99", func(s *assay.StageSummary) float64 { return percentile(s.TTFT, 99) }},
		{"tpot_ms_p50", func(s *assay.StageSummary) float64 { return percentile(s.TPOT, 50) }},
		{"e2e_ms_p99", func(s *assay.StageSummary) float64 { return percentile(s.E2E, 99) }},
	}
	var out []assay.Variation
	for _, key := range order {
		group := groups[key]
		if len(group) < 2 {
			continue
		}
		for _, metric := range metrics {
			v := assay.Variation{Stage: group[0].Name, Metric: metric.name}
			var m stat.Moments
			for _, s := range group {
				if x := metric.of(s); !math.IsNaN(x) {
					v.Values = append(v.Values, x)
					m.Add(x)
				}
			}
			if m.N() == 0 {
				continue
			}
			v.Mean = m.Mean()
			if m.N() > 1 && v.Mean != 0 {
				cv := m.Stddev() / v.Mean
				v.CV = &cv
			}
			out = append(out, v)
		}
	}
	return out
}
