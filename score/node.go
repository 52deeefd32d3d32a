package score

import (
	"fmt"
	"strings"

	"github.com/assay-bench/assay"
)

// Thresholds of the node's rules; docs/health.md says why these.
const (
	errorsDegraded = 0.01 // error rate of a stage above which the node is degraded
	errorsFail     = 0.10 // and above which it fails
	scoreFail      = 0.5  // overall score below which the node fails: two nodes would do the work of one
	scoreDegraded  = 0.8  // and below which it is degraded: beyond what runs of one node differ by
)

// nodeFindings are those that belong to no GPU of the list.
func nodeFindings(in Input, s assay.HealthScore, devices map[string]bool) []assay.Finding {
	out := checkFindings(in.Checks, func(d string) bool { return !devices[d] })
	rule := func(name string, found []assay.Finding) {
		for _, f := range found {
			f.Rule, f.Text, f.Values = name, clip(f.Text), finiteValues(f.Values)
			out = append(out, f)
		}
	}
	trends := trendsOf(in.Summary.Trends, "", devices)
	rule("leak", leaks(trends))
	if n := in.Summary.Restarts; n > 0 {
		rule("engine_restart", one(assay.Degraded, false, "the engine was restarted "+times(n)+" during the run", "read the engine's log", map[string]float64{"times": float64(n)}))
	}
	rule("baseline_differs", differs(in))
	rule("model_size", modelSizes(in))
	if in.Summary.Client.Certificate == assay.Invalid {
		rule("client", one(assay.Unknown, false, "the client was the bottleneck: "+clip(strings.Join(in.Summary.Client.Why, "; ")), "measure from a machine with more to spare", nil))
		return out // what follows is about requests
	}
	caused := func(t assay.Trend) bool { return t.Cause == "gpu_clocks" }
	rule("throttling", drifts(filter(trends, caused)))
	rule("drift", drifts(filter(trends, func(t assay.Trend) bool { return !caused(t) })))
	rule("slow_inference", slowFindings(in.Summary.Stages))
	rule("errors", errorFindings(in.Summary.Stages))
	// A starting score is a share of a maker's peak, which nobody reaches.
	if in.Baseline != nil && s.Overall != nil && *s.Overall < scoreDegraded {
		v := assay.Degraded
		if *s.Overall < scoreFail {
			v = assay.Fail
		}
		text := "the overall score is " + num(*s.Overall)
		if len(s.Deductions) > 0 {
			text += ": " + s.Deductions[0].Because
		}
		rule("score", one(v, false, text, "", map[string]float64{"overall": *s.Overall}))
	}
	return out
}

// checkFindings are what verify found bad, of the devices that belong. A wrong
// result or another card than it says is hard.
func checkFindings(checks []assay.Check, belongs func(device string) bool) []assay.Finding {
	var out []assay.Finding
	for _, c := range checks {
		if c.Verdict == assay.Pass || !belongs(c.Device) {
			continue
		}
		kind, _, _ := strings.Cut(c.Name, ".")
		f := assay.Finding{
			Rule: "check." + clip(c.Name), Device: clip(c.Device), Verdict: c.Verdict,
			Hard:   c.Verdict == assay.Fail && (kind == "identity" || kind == "compute"),
			Text:   clip(c.Name + ": " + c.Evidence),
			Values: finiteValues(c.Values),
		}
		if f.Verdict > assay.Fail {
			f.Verdict = assay.Unknown
		}
		out = append(out, f)
	}
	return out
}

// errorFindings names the stage with the highest error rate, if that is too
// high. Steps of a search are meant to overload and are not looked at, unless
// there is nothing else: then the best of them is.
func errorFindings(stages []assay.StageSummary) []assay.Finding {
	worst := figure{}
	name := ""
	for _, s := range steadyStages(stages) {
		if f := known(s.ErrorRate, ""); f.ok && f.v > worst.v {
			worst, name = f, s.Name
		}
	}
	if !(worst.v > errorsDegraded) {
		return nil
	}
	v := assay.Degraded
	if worst.v > errorsFail {
		v = assay.Fail
	}
	return one(v, false, fmt.Sprintf("%s of the requests of stage %s failed", share(worst.v), clip(name)), "see the failure classes of the stage", map[string]float64{"error_rate": worst.v})
}

// steadyStages are the stages that must be steady.
func steadyStages(stages []assay.StageSummary) []assay.StageSummary {
	c := candidates(stages)
	if len(c) > 0 && c[0].Plan.Probe {
		if b, ok := best(stages); ok {
			return []assay.StageSummary{b}
		}
	}
	return c
}

// differs notes that the baseline is of something else than was measured: the
// score stands, and the reader should know.
func differs(in Input) []assay.Finding {
	b := in.Baseline
	if b == nil {
		return nil
	}
	var what []string
	note := func(name, base, now string) {
		if base != "" && now != "" && !strings.EqualFold(base, now) {
			what = append(what, fmt.Sprintf("%s %s where the baseline has %s", name, clip(now), clip(base)))
		}
	}
	cards := cardsOf(in)
	if len(cards) > 0 {
		note("GPU", b.GPUModel, cards[0].Name)
		if b.GPUCount > 0 && b.GPUCount != len(cards) {
			what = append(what, fmt.Sprintf("%d GPUs where the baseline has %d", len(cards), b.GPUCount))
		}
	}
	note("model", b.Model, engineOf(in).Model)
	note("engine", b.Engine, engineName(engineOf(in)))
	if len(what) == 0 {
		return nil
	}
	return one(assay.Unknown, false, "the baseline is of something else: "+strings.Join(what, ", "), "make one of this node: assay hammer --save-baseline FILE", nil)
}

// engineOf is the engine as the summary has it, which may know its version.
func engineOf(in Input) assay.Engine {
	if in.Summary.Engine.Model != "" {
		return in.Summary.Engine
	}
	return in.Manifest.Engine
}

// engineName is what a baseline keeps of an engine: what it reports, or how it was
// spoken to.
func engineName(e assay.Engine) string {
	if e.Version != "" {
		return e.Version
	}
	return e.Backend
}

// scoreOf scores the run.
func scoreOf(in Input, judged string) assay.HealthScore {
	out := assay.HealthScore{
		Intervals: map[string]assay.Interval{}, Unknown: map[string]string{},
		Weights: map[string]float64{}, Deductions: []assay.Deduction{},
		Stage: clip(judged),
	}
	for i, n := range partNames {
		out.Weights[n] = weights[i]
	}
	if in.Baseline != nil {
		out.Baseline, out.Against = clip(in.Baseline.Name), assay.AgainstBaseline
	}
	if in.Summary.Client.Certificate == assay.Invalid {
		for _, n := range append(partNames[:], "overall") {
			out.Unknown[n] = "the client was the bottleneck: the numbers are about it"
		}
		return out
	}
	f, s, unknown := held(in)
	ps := s.parts(f, -1)
	if ps[Stability].ok {
		for k, why := range unknown {
			out.Unknown[k] = why
		}
		if !f.cv.ok {
			out.Unknown["stability.window_cv"] = f.cv.why + "; nothing is deducted"
		}
	}
	for i, slot := range []**float64{&out.Latency, &out.Throughput, &out.Stability, &out.Efficiency} {
		if ps[i].ok {
			*slot = &ps[i].v
		} else {
			out.Unknown[partNames[i]] = ps[i].why
		}
	}
	if s.start != nil && (ps[Latency].ok || ps[Throughput].ok) {
		out.Against = assay.AgainstCatalogue
	}
	if s.start != nil && ps[Throughput].ok {
		for _, f := range s.start.shares() {
			if !f.ok {
				out.Unknown["throughput."+f.metric] = f.why + "; half of the part's weight is not known"
			}
		}
	}
	v, coverage := overall(ps)
	out.Coverage = coverage
	if coverage >= minCoverage {
		out.Overall = &v
	} else {
		out.Unknown["overall"] = fmt.Sprintf("only %s of the weight could be scored, and %s are needed", share(coverage), share(minCoverage))
	}
	out.Deductions = deductions(ps)
	out.Intervals = s.intervals(f, ps)
	if len(out.Intervals) == 0 && coverage > 0 {
		out.Unknown["intervals"] = "the summary has no replicates of the stage: its steady window is too short for a bootstrap"
	}
	return out
}

// held is what the run is scored by: the figures at the baseline's load, or
// where no stage ran at it, the best token rate, the best efficiency and the
// worst stability of any stage, and no latency.
func held(in Input) (figures, scale, map[string]string) {
	limited := len(in.Manifest.Judge.Goodput) > 0
	read := func(stages []assay.StageSummary) (out []figures) {
		for _, st := range stages {
			out = append(out, figuresOf(st, limited))
		}
		return out
	}
	s := scale{base: in.Baseline}
	if s.base == nil {
		s.start = startingOf(in)
	}
	var unknown map[string]string
	s.steady, unknown = steadiness(in)
	c := candidates(in.Summary.Stages)
	if at := atLoad(c, in.Baseline); len(at) > 0 {
		return middle(read(at)), s, unknown
	}
	if in.Baseline != nil {
		s.noLoad = "the baseline names no load at which its latency was measured"
		if in.Baseline.At > 0 {
			s.noLoad = fmt.Sprintf("no stage ran at the baseline's load: run %s", loadWords(in.Baseline.Load, in.Baseline.At))
		}
	}
	all, steady := read(c), read(steadyStages(in.Summary.Stages))
	f := figures{
		rate:     extreme(all, func(f figures) figure { return f.rate }),
		perJoule: extreme(all, func(f figures) figure { return f.perJoule }),
		fails:    extreme(steady, func(f figures) figure { return f.fails }),
		cv:       extreme(steady, func(f figures) figure { return f.cv }),
		steady:   extreme(steady, func(f figures) figure { return f.steady }),
	}
	if s.start != nil {
		f.tpot = lowest(all, func(f figures) figure { return f.tpot })
	}
	return f, s, unknown
}

func loadWords(kind assay.LoadKind, at float64) string {
	switch kind {
	case assay.LoadClosed:
		return num(at) + " streams"
	case assay.LoadBatch:
		return "batches of " + num(at)
	}
	return num(at) + " requests a second"
}
