package compare

import (
	"fmt"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// SampleOf reduces a run of one stage to its figures. Who ran, when in the
// experiment and on what is left to the caller.
func SampleOf(sum assay.Summary) Sample {
	st := sum.Stages[0]
	s := Sample{
		Started: sum.Started, Ended: sum.Ended, Client: sum.Client.Certificate,
		Requests: st.Requests, OK: st.OK, Metrics: figures(sum), Within: withinRun(st),
		OutputTokens: st.OutputTokens.Mean, InputTokens: st.InputTokens.Mean, Whole: wholeFigures(st),
	}
	if !st.Windowed() {
		s.RatesOf = assay.RatesOfWhole
	}
	s.addNeeded(st)
	return s
}

// figures are the metrics that a run of one stage shows; what it does not show is
// not there.
func figures(sum assay.Summary) map[string]float64 {
	m := map[string]float64{}
	st := sum.Stages[0]
	for _, x := range percentiles() {
		d := x.of(&st)
		if p, ok := d.P(x.level); ok && d.N > 0 {
			m[x.name] = p.Value
		}
	}
	if st.E2E.N > 0 {
		m["e2e_ms_mean"] = st.E2E.Mean
	}
	// What was not measured is not there; 0 would be a lie.
	if st.OutputTokensPerSecond > 0 {
		m["output_tokens_per_second"] = st.OutputTokensPerSecond
	}
	if st.RequestsPerSecond > 0 {
		m["requests_per_second"] = st.RequestsPerSecond
	}
	if st.Requests > 0 {
		m["error_rate"] = st.ErrorRate
	}
	var busy, most float64
	var busyN, memN int
	for _, g := range sum.GPUs {
		if u, ok := g.Stats[assay.GPUUtilization]; ok && u.N > 0 {
			busy += u.Mean
			busyN++
		}
		if u, ok := g.Stats[assay.GPUMemoryUsed]; ok && u.N > 0 {
			most = max(most, u.Max)
			memN++
		}
	}
	if busyN > 0 {
		m["gpu_utilization_mean"] = busy / float64(busyN)
	}
	if memN > 0 {
		m["gpu_memory_peak_bytes"] = most
	}
	if st.Joules != nil && *st.Joules > 0 {
		seconds := float64(st.SteadyTo-st.SteadyFrom) / 1e9
		m["tokens_per_joule"] = st.OutputTokensPerSecond * seconds / *st.Joules
	}
	return m
}

// wholeFigures are the rates of all of a stage's time.
func wholeFigures(st assay.StageSummary) map[string]float64 {
	m := map[string]float64{}
	for name, v := range map[string]float64{"output_tokens_per_second": st.WholeOutputTokensPerSecond, "requests_per_second": st.WholeRequestsPerSecond} {
		if v > 0 {
			m[name] = v
		}
	}
	return m
}

// percentile is one that engines are compared by, under its metric's name.
type percentile struct {
	name  string
	level float64
	of    func(*assay.StageSummary) assay.Dist
}

func percentiles() []percentile {
	ttft := func(st *assay.StageSummary) assay.Dist { return st.TTFT }
	tpot := func(st *assay.StageSummary) assay.Dist { return st.TPOT }
	e2e := func(st *assay.StageSummary) assay.Dist { return st.E2E }
	return []percentile{
		{"ttft_ms_p50", 50, ttft}, {"ttft_ms_p99", 99, ttft}, {"tpot_ms_p50", 50, tpot}, {"e2e_ms_p50", 50, e2e}, {"e2e_ms_p99", 99, e2e},
	}
}

// withinRun are the intervals that a run has of its own figures.
func withinRun(st assay.StageSummary) map[string]assay.Quantity {
	out := map[string]assay.Quantity{}
	for _, m := range percentiles() {
		d := m.of(&st)
		if p, ok := d.P(m.level); ok && d.N > 0 {
			q := assay.Quantity{N: d.N, Est: p.Value, Lo: p.Lo, Hi: p.Hi}
			if !p.Held() {
				q.Why = fmt.Sprintf("n<%d", p.Need)
			}
			out[m.name] = q
		}
	}
	return out
}

// addNeeded notes the percentiles of a stage that rest on too few requests.
func (s *Sample) addNeeded(st assay.StageSummary) {
	for _, m := range percentiles() {
		d := m.of(&st)
		if p, ok := d.P(m.level); ok && d.N > 0 && !p.Held() {
			if s.Needed == nil {
				s.Needed = map[string]int{}
			}
			s.Needed[m.name] = max(s.Needed[m.name], d.Needed(p))
		}
	}
}

// needed is how many requests the run would need before its percentile could be
// told; 0: it has enough, or the metric is no percentile.
func (s *Sample) needed(metric string) int {
	if n := s.Needed[metric]; n > 0 {
		return n
	}
	// A sample on record may be older than Needed.
	for _, m := range percentiles() {
		if n := int(stat.QuantileNeeds(m.level)); m.name == metric && s.OK < n {
			return n
		}
	}
	return 0
}
