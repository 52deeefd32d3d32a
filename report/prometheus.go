package report

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-bench/assay"
)

// Prometheus writes the result in the text exposition format 0.0.4, in base
// units. A value that is not known has no sample: nothing is exported as zero
// or NaN in its place. A percentile that the samples do not carry is left out.
// h may be nil.
func Prometheus(w io.Writer, s assay.Summary, h *assay.Health) error {
	p := exposition{w: bufio.NewWriter(w), seen: map[string]bool{}}
	p.run(s)
	p.client(s.Client)
	p.stages(s.Stages)
	p.scaling(s)
	p.gpus(s)
	if h != nil {
		p.health(*h)
	}
	return p.w.Flush()
}

// exposition writes families one after another, as the format wants them.
type exposition struct {
	w    *bufio.Writer
	seen map[string]bool // a sample twice would make the whole page unreadable
	// The family that is begun with its first sample: one without has no head.
	name, kind, help string
	begun            bool
}

func (p *exposition) family(name, kind, help string) {
	p.name, p.kind, p.help, p.begun = name, kind, help, false
}

// sample writes one sample; labels are pairs of a name and a value.
func (p *exposition) sample(v float64, labels ...string) { p.suffixed("", v, labels...) }

func (p *exposition) suffixed(suffix string, v float64, labels ...string) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	var b strings.Builder
	b.WriteString(p.name + suffix)
	for i := 0; i+1 < len(labels); i += 2 {
		sep := ","
		if i == 0 {
			sep = "{"
		}
		b.WriteString(sep + labels[i] + `="` + label(labels[i+1]) + `"`)
	}
	if len(labels) > 1 {
		b.WriteByte('}')
	}
	id := b.String()
	if p.seen[id] {
		return
	}
	p.seen[id] = true
	if !p.begun {
		p.w.WriteString("# HELP " + p.name + " " + strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(p.help) + "\n# TYPE " + p.name + " " + p.kind + "\n")
		p.begun = true
	}
	p.w.WriteString(id + " " + strconv.FormatFloat(v, 'g', -1, 64) + "\n")
}

func (p *exposition) known(v *float64, labels ...string) {
	if v != nil {
		p.sample(*v, labels...)
	}
}

// label escapes a label's value.
func label(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(show(s))
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
	p.family("assay_run_info", "gauge", "The run that the other figures are of.")
	p.sample(1, "run_id", s.RunID, "model", s.Engine.Model, "backend", s.Engine.Backend, "engine_version", s.Engine.Version, "url", s.Engine.URL)
	p.family("assay_run_status", "gauge", "How far the run came.")
	p.states("status", []string{string(assay.StatusRunning), string(assay.StatusComplete), string(assay.StatusPartial)}, string(s.Status))
	p.family("assay_run_started_timestamp_seconds", "gauge", "When the run began.")
	p.sample(float64(s.Started) / 1e9)
	p.family("assay_run_ended_timestamp_seconds", "gauge", "When the run ended.")
	p.sample(float64(s.Ended) / 1e9)
	p.family("assay_run_engine_restarts", "gauge", "Restarts of the engine that were seen.")
	p.sample(float64(s.Restarts))
	p.family("assay_run_warnings", "gauge", "Doubts about the run by kind.")
	count := map[string]int{}
	for _, w := range s.Warnings {
		count[w.Kind]++
	}
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		p.sample(float64(count[kind]), "kind", kind)
	}
}

func (p *exposition) client(c assay.ClientSummary) {
	p.family("assay_client_certificate", "gauge", "Whether the figures are about the server or about the client.")
	p.states("certificate", []string{string(assay.Certified), string(assay.DegradedBy), string(assay.Invalid), string(assay.NoClient)}, string(c.Certificate))
	for _, m := range []struct {
		name, help string
		d          assay.Dist
	}{
		{"assay_client_lag_seconds", "Read minus arrived, of every read.", c.LagUS},
		{"assay_client_send_lag_seconds", "Sent minus allowed, of every request.", c.SendLag},
	} {
		p.family(m.name, "summary", m.help)
		p.summary(m.d, 1e-6)
	}
	p.family("assay_client_allowed_lag_seconds", "gauge", "What is allowed of either lag.")
	p.sample(c.AllowedLagUS / 1e6)
	p.family("assay_client_merged_reads_ratio", "gauge", "Share of reads that held more than one token chunk.")
	p.sample(c.MergedShare)
	p.family("assay_client_dropped_slots", "gauge", "Schedule slots that the client could not use.")
	p.sample(float64(c.Dropped))
	p.family("assay_client_cpu_seconds", "gauge", "Processor time of the client.")
	p.known(c.CPUSeconds)
	p.family("assay_client_cpu_ratio", "gauge", "Share of the client's processors that it used.")
	p.known(c.CPUShare)
	p.family("assay_client_peak_resident_memory_bytes", "gauge", "Peak memory of the client.")
	p.known(c.PeakRSSBytes)
}

// summary writes a distribution in base units.
func (p *exposition) summary(d assay.Dist, scale float64, labels ...string) {
	if d.N == 0 {
		return
	}
	// A number alone cannot carry the mark of one that decides nothing.
	for _, q := range d.Percentiles {
		if q.Held() {
			p.sample(q.Value*scale, append(slices.Clone(labels), "quantile", quantile(q.Level))...)
		}
	}
	p.suffixed("_sum", d.Mean*float64(d.N)*scale, labels...)
	p.suffixed("_count", float64(d.N), labels...)
}

func quantile(level float64) string { return strconv.FormatFloat(level/100, 'g', 10, 64) }

func (p *exposition) stages(stages []assay.StageSummary) {
	each := func(name, kind, help string, of func(assay.StageSummary)) {
		p.family(name, kind, help)
		for _, st := range stages {
			of(st)
		}
	}
	value := func(name, help string, of func(assay.StageSummary) float64) {
		each(name, "gauge", help, func(st assay.StageSummary) { p.sample(of(st), "stage", st.Name) })
	}
	value("assay_stage_concurrency", "Streams, or the cap of an open load; 0 for none.", func(st assay.StageSummary) float64 { return float64(st.Plan.Concurrency) })
	each("assay_stage_requests", "gauge", "Judged requests by outcome.", func(st assay.StageSummary) {
		p.sample(float64(st.OK), "stage", st.Name, "outcome", "ok")
		p.sample(float64(st.Failed), "stage", st.Name, "outcome", "failed")
		p.sample(float64(st.Requests-st.OK-st.Failed), "stage", st.Name, "outcome", "not_judged")
	})
	each("assay_stage_errors", "gauge", "Requests that did not succeed, by class.", func(st assay.StageSummary) {
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
	each("assay_stage_energy_joules", "gauge", "Energy of all GPUs in the steady window.", func(st assay.StageSummary) { p.known(st.Joules, "stage", st.Name) })
	each("assay_stage_kept", "gauge", "Whether the stage kept every objective.", func(st assay.StageSummary) {
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
		each("assay_stage_"+m.name+"_seconds", "summary", m.help, func(st assay.StageSummary) { p.summary(m.of(st), 1e-3, "stage", st.Name) })
		each("assay_stage_"+m.name+"_ci95_seconds", "gauge", m.help+" Bounds of each percentile's 95 % interval.", func(st assay.StageSummary) {
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
			p.family(m.name, "gauge", m.help)
			if m.q.Known() {
				p.sample(m.q.Est)
			}
		}
	}
	if f := s.FindMax; f != nil && f.Load.Known() {
		p.family("assay_find_max_load", "gauge", "Highest load that keeps the objectives.")
		p.sample(f.Load.Est, "of", f.Of)
	}
}

func (p *exposition) gpus(s assay.Summary) {
	p.family("assay_gpu_throttled_ratio", "gauge", "Share of loaded time in which clocks were held back, by reason.")
	for _, g := range s.GPUs {
		for _, reason := range slices.Sorted(maps.Keys(g.Throttled)) {
			p.sample(g.Throttled[reason], "uuid", g.UUID, "reason", reason)
		}
	}
	p.family("assay_gpu_energy_joules", "gauge", "Energy of a GPU under load, by how it was measured.")
	for _, g := range s.GPUs {
		if e := g.Energy; e != nil {
			p.known(e.Counter, "uuid", g.UUID, "by", "counter")
			p.known(e.Integrated, "uuid", g.UUID, "by", "integrated")
		}
	}
	p.family("assay_gpu_reading", "gauge", "Readings of a GPU under load, in the base unit of their name.")
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
	p.family("assay_health_verdict", "gauge", "The verdict on the node.")
	p.states("verdict", verdicts, h.Verdict.String(), "node", h.NodeID)
	p.family("assay_health_gpu_verdict", "gauge", "The verdict on each GPU.")
	for _, g := range h.GPUs {
		p.states("verdict", verdicts, g.Verdict.String(), "uuid", g.UUID, "index", fmt.Sprint(g.Index))
	}
	parts := []struct {
		name string
		v    *float64
	}{{"overall", h.Score.Overall}, {"latency", h.Score.Latency}, {"throughput", h.Score.Throughput}, {"stability", h.Score.Stability}, {"efficiency", h.Score.Efficiency}}
	p.family("assay_health_score_ratio", "gauge", "Score of a part, from 0 to 1; a part that could not be scored is absent.")
	for _, part := range parts {
		p.known(part.v, "part", part.name)
	}
	p.family("assay_health_score_ci95_ratio", "gauge", "Bounds of a score's 95 % interval.")
	for _, part := range parts {
		if i, ok := h.Score.Intervals[part.name]; ok && part.v != nil {
			p.sample(i.Low, "part", part.name, "bound", "low")
			p.sample(i.High, "part", part.name, "bound", "high")
		}
	}
	p.family("assay_health_coverage_ratio", "gauge", "Share of the score's weight that could be measured.")
	p.sample(h.Score.Coverage)
	p.family("assay_health_findings", "gauge", "Signs of bad health by rule.")
	for _, f := range h.Findings {
		p.sample(1, "rule", f.Rule, "device", f.Device, "verdict", f.Verdict.String())
	}
	p.family("assay_cost_per_token", "gauge", "Cost of an output token, in units of the currency.")
	p.known(h.Cost.EnergyCostPerToken, "kind", "energy", "currency", h.Cost.Currency)
	p.known(h.Cost.RentalCostPerToken, "kind", "rental", "currency", h.Cost.Currency)
	p.known(h.Cost.TotalCostPerToken, "kind", "total", "currency", h.Cost.Currency)
	p.family("assay_cost_utilization_ratio", "gauge", "Load over measured capacity at which the rental cost stands.")
	p.known(h.Cost.Utilization)
	p.family("assay_health_tokens_per_joule", "gauge", "Output tokens for a joule.")
	p.known(h.Performance.TokensPerJoule)
}
