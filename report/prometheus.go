package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/promtext"
)

// Prometheus writes the result in the text exposition format 0.0.4, in base
// units. A value that is not known has no sample: nothing is exported as zero
// or NaN in its place. A percentile that the samples do not carry is left out.
// h may be nil.
func Prometheus(w io.Writer, s assay.Summary, h *assay.Health) error {
	var p exposition
	p.run(s)
	p.client(s.Client)
	p.stages(s.Stages)
	p.scaling(s)
	p.gpus(s)
	if h != nil {
		p.health(*h)
	}
	_, err := w.Write(p.page.Bytes())
	return err
}

// exposition is a page with the family that is being filled.
type exposition struct {
	page promtext.Page
	at   *promtext.Family
}

func (p *exposition) family(name string, kind promtext.Kind, help string) {
	p.at = p.page.Family(name, kind, help)
}

// sample adds one sample; labels are pairs of a name and a value.
func (p *exposition) sample(v float64, labels ...string) { p.at.Add(v, labels...) }

func (p *exposition) known(v *float64, labels ...string) {
	if v != nil {
		p.at.Add(*v, labels...)
	}
}

// states writes one sample for each state, 1 for the one that holds.
func (p *exposition) states(of string, all []string, is string, labels ...string) {
	for _, state := range all {
		v := 0.0
		if state == is {
			v = 1
		}
		p.sample(v, append(slices.Clone(labels), of, state)...)
	}
}

var verdicts = []string{assay.Unknown.String(), assay.Pass.String(), assay.Degraded.String(), assay.Fail.String()}

func (p *exposition) run(s assay.Summary) {
	p.family("assay_run_info", promtext.Gauge, "The run that the other figures are of.")
	p.sample(1, "run_id", s.RunID, "model", s.Engine.Model, "backend", s.Engine.Backend, "engine_version", s.Engine.Version, "url", s.Engine.URL)
	p.family("assay_run_status", promtext.Gauge, "How far the run came.")
	p.states("status", []string{string(assay.StatusRunning), string(assay.StatusComplete), string(assay.StatusPartial)}, string(s.Status))
	p.family("assay_run_started_timestamp_seconds", promtext.Gauge, "When the run began.")
	p.sample(float64(s.Started) / 1e9)
	p.family("assay_run_ended_timestamp_seconds", promtext.Gauge, "When the run ended.")
	p.sample(float64(s.Ended) / 1e9)
	p.family("assay_run_engine_restarts", promtext.Gauge, "Restarts of the engine that were seen.")
	p.sample(float64(s.Restarts))
	p.family("assay_run_warnings", promtext.Gauge, "Doubts about the run by kind.")
	count := map[string]int{}
	for _, w := range s.Warnings {
		count[w.Kind]++
	}
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		p.sample(float64(count[kind]), "kind", kind)
	}
}

func (p *exposition) client(c assay.ClientSummary) {
	p.family("assay_client_certificate", promtext.Gauge, "Whether the figures are about the server or about the client.")
	p.states("certificate", []string{string(assay.Certified), string(assay.DegradedBy), string(assay.Invalid), string(assay.NoClient)}, string(c.Certificate))
	for _, m := range []struct {
		name, help string
		d          assay.Dist
	}{
		{"assay_client_lag_seconds", "Read minus arrived, of every read.", c.LagUS},
		{"assay_client_send_lag_seconds", "Sent minus allowed, of every request.", c.SendLag},
	} {
		p.family(m.name, promtext.Summary, m.help)
		p.summary(m.d, 1e-6)
	}
	p.family("assay_client_allowed_lag_seconds", promtext.Gauge, "What is allowed of the send lag, and by the user clock of the read lag.")
	p.sample(c.AllowedLagUS / 1e6)
	p.family("assay_client_merged_reads_ratio", promtext.Gauge, "Share of reads that held more than one token chunk.")
	p.sample(c.MergedShare)
	p.family("assay_client_dropped_slots", promtext.Gauge, "Schedule slots that the client could not use.")
	p.sample(float64(c.Dropped))
	p.family("assay_client_cpu_seconds", promtext.Gauge, "Processor time of the client.")
	p.known(c.CPUSeconds)
	p.family("assay_client_cpu_ratio", promtext.Gauge, "Share of the client's processors that it used.")
	p.known(c.CPUShare)
	p.family("assay_client_peak_resident_memory_bytes", promtext.Gauge, "Peak memory of the client.")
	p.known(c.PeakRSSBytes)
}

// summary writes a distribution in base units.
func (p *exposition) summary(d assay.Dist, scale float64, labels ...string) {
	if d.N == 0 {
		return
	}
	// A number alone cannot carry the mark of one that decides nothing.
	var levels []promtext.Level
	for _, q := range d.Percentiles {
		if q.Held() {
			levels = append(levels, promtext.Level{Quantile: share(q.Level), Value: q.Value * scale})
		}
	}
	p.at.Summary(levels, d.Mean*float64(d.N)*scale, float64(d.N), labels...)
}

// share is a percentile's level as a share, without the noise of the division:
// 99.9 is 0.999.
func share(level float64) float64 { return math.Round(level*1e8) / 1e10 }

func quantile(level float64) string { return promtext.Number(share(level)) }

func (p *exposition) stages(stages []assay.StageSummary) {
	each := func(name string, kind promtext.Kind, help string, of func(assay.StageSummary)) {
		p.family(name, kind, help)
		for _, st := range stages {
			of(st)
		}
	}
	value := func(name, help string, of func(assay.StageSummary) float64) {
		each(name, promtext.Gauge, help, func(st assay.StageSummary) { p.sample(of(st), "stage", st.Name) })
	}
	value("assay_stage_concurrency", "Streams, or the cap of an open load; 0 for none.", func(st assay.StageSummary) float64 { return float64(st.Plan.Concurrency) })
	each("assay_stage_requests", promtext.Gauge, "Judged requests by outcome.", func(st assay.StageSummary) {
		p.sample(float64(st.OK), "stage", st.Name, "outcome", "ok")
		p.sample(float64(st.Failed), "stage", st.Name, "outcome", "failed")
		p.sample(float64(st.Requests-st.OK-st.Failed), "stage", st.Name, "outcome", "not_judged")
	})
	each("assay_stage_errors", promtext.Gauge, "Requests that did not succeed, by class.", func(st assay.StageSummary) {
		for _, f := range assay.Failures() {
			if n := st.Errors[f]; n > 0 {
				p.sample(float64(n), "stage", st.Name, "class", string(f))
			}
		}
	})
	value("assay_stage_error_ratio", "Failures of the engine over requests that it ended.", func(st assay.StageSummary) float64 { return st.ErrorRate })
	value("assay_stage_requests_per_second", "Requests that succeeded a second, over the steady window, or the whole stage where assay_stage_steady is 0.", func(st assay.StageSummary) float64 { return st.RequestsPerSecond })
	value("assay_stage_goodput_requests_per_second", "Requests a second that kept every limit.", func(st assay.StageSummary) float64 { return st.GoodputPerSecond })
	value("assay_stage_output_tokens_per_second", "Output tokens a second, over the steady window, or the whole stage where assay_stage_steady is 0.", func(st assay.StageSummary) float64 { return st.OutputTokensPerSecond })
	value("assay_stage_steady", "1 for a stage that has a steady window.", func(st assay.StageSummary) float64 {
		if st.Windowed() {
			return 1
		}
		return 0
	})
	each("assay_stage_energy_joules", promtext.Gauge, "Energy of all GPUs in the steady window.", func(st assay.StageSummary) { p.known(st.Joules, "stage", st.Name) })
	each("assay_stage_kept", promtext.Gauge, "Whether the stage kept every objective.", func(st assay.StageSummary) {
		if len(st.Objectives) > 0 {
			p.states("verdict", verdicts, st.Kept.String(), "stage", st.Name)
		}
	})
	for _, m := range []struct {
		name, help string
		of         func(assay.StageSummary) assay.Dist
	}{
		{"ttft", "Time to first token.", func(st assay.StageSummary) assay.Dist { return st.TTFT }},
		{"ttft_intended", "Time to first token from the scheduled moment.", func(st assay.StageSummary) assay.Dist { return st.TTFTIntended }},
		{"tpot", "Time per output token after the first.", func(st assay.StageSummary) assay.Dist { return st.TPOT }},
		{"arrival_gap", "Gap between arrivals of tokens.", func(st assay.StageSummary) assay.Dist { return st.ArrivalGap }},
		{"itl", "Inter-token latency of each token as delivered.", func(st assay.StageSummary) assay.Dist { return st.ITL }},
		{"e2e", "End to end.", func(st assay.StageSummary) assay.Dist { return st.E2E }},
	} {
		each("assay_stage_"+m.name+"_seconds", promtext.Summary, m.help, func(st assay.StageSummary) { p.summary(m.of(st), 1e-3, "stage", st.Name) })
		each("assay_stage_"+m.name+"_ci95_seconds", promtext.Gauge, m.help+" Bounds of each percentile's 95 % interval.", func(st assay.StageSummary) {
			for _, q := range m.of(st).Percentiles {
				if q.Held() && m.of(st).N > 0 {
					p.sample(q.Lo/1000, "stage", st.Name, "percentile", quantile(q.Level), "bound", "low")
					p.sample(q.Hi/1000, "stage", st.Name, "percentile", quantile(q.Level), "bound", "high")
				}
			}
		})
	}
}

func (p *exposition) scaling(s assay.Summary) {
	if sc := s.Scaling; sc != nil {
		for _, m := range []struct {
			name, help string
			q          assay.Quantity
		}{
			{"assay_knee_streams", "Load beyond which more streams buy more waiting than throughput.", sc.Knee},
			{"assay_peak_streams", "Load with the highest goodput.", sc.Peak},
			{"assay_cliff_streams", "Lowest load beyond the peak with goodput 10 % below its maximum.", sc.Cliff},
		} {
			p.family(m.name, promtext.Gauge, m.help)
			if m.q.Known() {
				p.sample(m.q.Est)
			}
		}
	}
	if f := s.FindMax; f != nil && f.Load.Known() {
		p.family("assay_find_max_load", promtext.Gauge, "Highest load that keeps the objectives.")
		p.sample(f.Load.Est, "of", f.Of)
	}
}

func (p *exposition) gpus(s assay.Summary) {
	p.family("assay_gpu_throttled_ratio", promtext.Gauge, "Share of loaded time in which clocks were held back, by reason.")
	for _, g := range s.GPUs {
		for _, reason := range slices.Sorted(maps.Keys(g.Throttled)) {
			p.sample(g.Throttled[reason], "uuid", g.UUID, "reason", reason)
		}
	}
	p.family("assay_gpu_energy_joules", promtext.Gauge, "Energy of a GPU under load, by how it was measured.")
	for _, g := range s.GPUs {
		if e := g.Energy; e != nil {
			p.known(e.Counter, "uuid", g.UUID, "by", "counter")
			p.known(e.Integrated, "uuid", g.UUID, "by", "integrated")
		}
	}
	p.family("assay_gpu_reading", promtext.Gauge, "Readings of a GPU under load, in the base unit of their name.")
	for _, g := range s.GPUs {
		for _, name := range slices.Sorted(maps.Keys(g.Stats)) {
			st := g.Stats[name]
			p.sample(st.Mean, "uuid", g.UUID, "name", name, "stat", "mean")
			p.sample(st.Min, "uuid", g.UUID, "name", name, "stat", "min")
			p.sample(st.Max, "uuid", g.UUID, "name", name, "stat", "max")
		}
	}
}

func (p *exposition) health(h assay.Health) {
	p.family("assay_health_verdict", promtext.Gauge, "The verdict on the node.")
	p.states("verdict", verdicts, h.Verdict.String(), "node", h.NodeID)
	p.family("assay_health_gpu_verdict", promtext.Gauge, "The verdict on each GPU.")
	for _, g := range h.GPUs {
		p.states("verdict", verdicts, g.Verdict.String(), "uuid", g.UUID, "index", fmt.Sprint(g.Index))
	}
	parts := []struct {
		name string
		v    *float64
	}{{"overall", h.Score.Overall}, {"latency", h.Score.Latency}, {"throughput", h.Score.Throughput}, {"stability", h.Score.Stability}, {"efficiency", h.Score.Efficiency}}
	p.family("assay_health_score_ratio", promtext.Gauge, "Score of a part, from 0 to 1; a part that could not be scored is absent.")
	for _, part := range parts {
		p.known(part.v, "part", part.name)
	}
	p.family("assay_health_score_ci95_ratio", promtext.Gauge, "Bounds of a score's 95 % interval.")
	for _, part := range parts {
		if i, ok := h.Score.Intervals[part.name]; ok && part.v != nil {
			p.sample(i.Low, "part", part.name, "bound", "low")
			p.sample(i.High, "part", part.name, "bound", "high")
		}
	}
	p.family("assay_health_coverage_ratio", promtext.Gauge, "Share of the score's weight that could be measured.")
	p.sample(h.Score.Coverage)
	p.family("assay_health_findings", promtext.Gauge, "Signs of bad health by rule.")
	for _, f := range h.Findings {
		p.sample(1, "rule", f.Rule, "device", f.Device, "verdict", f.Verdict.String())
	}
	p.family("assay_cost_per_token", promtext.Gauge, "Cost of an output token, in units of the currency.")
	p.known(h.Cost.EnergyCostPerToken, "kind", "energy", "currency", h.Cost.Currency)
	p.known(h.Cost.RentalCostPerToken, "kind", "rental", "currency", h.Cost.Currency)
	p.known(h.Cost.TotalCostPerToken, "kind", "total", "currency", h.Cost.Currency)
	p.family("assay_cost_utilization_ratio", promtext.Gauge, "Load over measured capacity at which the rental cost stands.")
	p.known(h.Cost.Utilization)
	p.family("assay_health_tokens_per_joule", promtext.Gauge, "Output tokens for a joule.")
	p.known(h.Performance.TokensPerJoule)
}
