package summary

import (
	"fmt"
	"math"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// clusterFrom is how many violations can be told to lie together; of fewer
// requests than fewRequests one is enough.
const (
	clusterFrom = 3
	fewRequests = 30
)

// trial follows one objective through a stage: what the samples do not keep,
// which is when requests violated it, and which failed.
type trial struct {
	objective   assay.Objective
	failed      int // requests without the figure that certainly violate the limit
	errored     int // of these, failures of the engine, which the error rate judges
	missing     int // requests without the figure that may violate it
	requests    int // that were judged by it
	first, last int64
	halves      [2]stat.Moments // of the stage, for a mean
	errors      stat.Blocking   // for error_rate: 1 for a failure
}

func newTrials(j assay.Judge) []trial {
	out := make([]trial, len(j.Objectives))
	for i, o := range j.Objectives {
		out[i].objective = o
	}
	return out
}

// addTrials takes a judged request.
func (c *Collector) addTrials(r *assay.Request) {
	if r.ClockStep {
		return
	}
	for i := range c.trials {
		c.trials[i].add(r, c.started, c.plan.DurationNS)
	}
}

func (t *trial) add(r *assay.Request, started, duration int64) {
	if t.objective.Metric == "error_rate" {
		if !r.OK() && !r.Error.OfEngine() {
			return
		}
		t.requests++
		if r.OK() {
			t.errors.Add(0)
			return
		}
		t.errors.Add(1)
		t.violation(r.End)
		return
	}
	ns, at, ok := figure(r, t.objective.Metric)
	switch {
	case !r.OK() && t.lost(r):
		t.requests++
		t.failed++
		if r.Error.OfEngine() {
			t.errored++
		}
		t.violation(r.End)
	case !r.OK():
		if r.Error == assay.FailCensored {
			t.missing++
		}
	case !ok && t.objective.Metric == "ttfo":
		// Who never saw an answer waited for longer than any limit.
		t.requests++
		t.failed++
		t.violation(r.End)
	case !ok:
		if r.OutputTokens > 1 {
			t.missing++ // all of it came at once, and nobody knows its pace
		}
	default:
		t.requests++
		if ns/1e6 > t.objective.Max {
			t.violation(at)
		}
		if duration > 0 {
			half := 0
			if at-started > duration/2 {
				half = 1
			}
			t.halves[half].Add(ns / 1e6)
		}
	}
}

// lost reports whether a request that did not succeed violates the objective:
// the engine's failure always does, and one that we gave up waiting for when it
// had already taken longer than the limit.
func (t *trial) lost(r *assay.Request) bool {
	if r.Error.OfEngine() {
		return true
	}
	if r.Error != assay.FailCensored || r.Sent == 0 || r.End <= r.Sent {
		return false
	}
	from := r.Sent
	switch t.objective.Metric {
	case "ttft_intended", "e2e_intended":
		from = r.Scheduled
	case "e2e":
	case "ttft":
	default:
		return false
	}
	if r.First != 0 && (t.objective.Metric == "ttft" || t.objective.Metric == "ttft_intended") {
		return false // it had its first token, and counts nowhere
	}
	return float64(r.End-from)/1e6 > t.objective.Max
}

func (t *trial) violation(at int64) {
	if t.first == 0 || at < t.first {
		t.first = at
	}
	t.last = max(t.last, at)
}

// figure is a request's figure of a metric in nanoseconds, of gaps the longest,
// and when it was complete.
func figure(r *assay.Request, metric string) (ns float64, at int64, ok bool) {
	var whole int64
	at = r.Last
	switch metric {
	case "ttft":
		whole, ok = r.TTFT()
		at = r.First
	case "ttft_intended":
		whole, ok = r.TTFTIntended()
		at = r.First
	case "ttfo":
		whole, ok = r.TTFO()
	case "e2e":
		whole, ok = r.E2E()
	case "e2e_intended":
		whole, ok = r.E2EIntended()
	case "tpot":
		ns, ok = r.TPOT()
		return ns, at, ok
	case "itl":
		for _, v := range r.Gaps {
			us, _ := assay.Gap(v)
			whole, ok = max(whole, int64(us)*1000), true
		}
	}
	return float64(whole), at, ok
}

// trialOf is what the stage shows about its objective k, for a search.
func (c *Collector) trialOf(k int, s *assay.StageSummary) *assay.Trials {
	t := &c.trials[k]
	out := &assay.Trials{Tau: 1, FirstViolation: t.first, LastViolation: t.last}
	if t.objective.Metric == "error_rate" {
		out.N, out.Violations = s.OK+s.Failed, s.Failed
		out.Tau = t.errors.Tau()
	} else {
		if of, _ := c.sampleOf(t.objective.Metric); of != nil {
			out.N, out.Tau = int(of.counts.N()), of.series.Tau()
		}
		out.N, out.Violations = out.N+t.failed, c.above(t.objective)+t.failed
	}
	out.Clustered = c.clustered(t, out)
	return out
}

// above counts the samples beyond an objective's limit: the same samples that
// the percentiles are of.
func (c *Collector) above(o assay.Objective) int {
	sample, scale := c.sampleOf(o.Metric)
	if sample == nil {
		return 0
	}
	n := int64(0)
	for v := range sample.counts.All() {
		if float64(v.Value)*scale > o.Max {
			n += v.N
		}
	}
	return int(n)
}

// sampleOf is the sample of a metric, and how many milliseconds its unit is.
func (c *Collector) sampleOf(metric string) (*sample, float64) {
	switch metric {
	case "ttft":
		return &c.ttft, 1e-3
	case "ttft_intended":
		return &c.ttftIntended, 1e-3
	case "ttfo":
		return &c.ttfo, 1e-3
	case "tpot":
		return &c.tpot, 1e-6
	case "itl":
		return &c.itl.exact, 1e-3
	case "e2e":
		return &c.e2e, 1e-3
	case "e2e_intended":
		return &c.e2eIntended, 1e-3
	}
	return nil, 0
}

// clustered reports whether what speaks against the stage lies within half of
// it: all violations, or one of the halves when the objective is a mean.
func (c *Collector) clustered(t *trial, out *assay.Trials) bool {
	length := c.plan.DurationNS
	if length <= 0 {
		length = c.latest - c.started
	}
	if t.objective.Stat == "mean" {
		a, b := t.halves[0], t.halves[1]
		return a.N() > 0 && b.N() > 0 && (a.Mean() > t.objective.Max) != (b.Mean() > t.objective.Max)
	}
	if out.Violations < clusterFrom && !(t.requests < fewRequests && out.Violations > 0) {
		return false
	}
	return t.last-t.first <= length/2
}

// Evidence is what a stage shows about the load that it had, as the plan of a
// search takes it.
type Evidence struct {
	Trials []stat.Trial
	Behind bool   // an open stage whose requests piled up, or were not all sent
	Short  string // why the stage was too short to say anything; empty: it was not
	E2E    float64
}

// EvidenceOf reads a stage's evidence from its summary: from the one of a live
// stage as from one that was recorded.
func EvidenceOf(s *assay.StageSummary) Evidence {
	e := Evidence{Behind: behind(s), E2E: s.E2E.Mean / 1e3}
	if s.E2E.N == 0 {
		e.E2E = s.WarmupE2EMS / 1e3
	}
	e.Short = short(s, e)
	errorsJudged := false
	for _, h := range s.Objectives {
		errorsJudged = errorsJudged || h.Objective.Metric == "error_rate"
		e.Trials = append(e.Trials, trialFrom(s, h))
	}
	if len(s.Objectives) > 0 && !errorsJudged {
		e.Trials = append(e.Trials, stat.Trial{Allowed: MaxErrorRate, N: s.OK + s.Failed, Violations: s.Failed, Tau: 1, Optional: true})
	}
	return e
}

func trialFrom(s *assay.StageSummary, h assay.Held) stat.Trial {
	t := stat.Trial{Limit: h.Objective.Max, Mean: math.NaN()}
	if r := h.Trials; r != nil {
		t.N, t.Violations, t.Tau, t.Clustered = r.N, r.Violations, r.Tau, r.Clustered
	}
	switch level, ok := h.Objective.Level(); {
	case ok:
		t.Allowed = 1 - level/100
	case h.Objective.Metric == "error_rate":
		// A limit of nothing at all can be broken, and never be shown to be kept.
		t.Allowed = min(0.99, max(h.Objective.Max, 1e-9))
	default:
		if d, ok := distByName(s, h.Objective.Metric); ok && d.N > 0 {
			t.Mean = d.Mean
		}
		if t.Violations > 0 && t.N == t.Violations && math.IsNaN(t.Mean) {
			t.Mean = math.Inf(1) // every request failed: whatever the mean would be, it is not kept
		}
	}
	return t
}

// behind reports whether an open stage did not keep up with its rate.
func behind(s *assay.StageSummary) bool {
	switch s.Plan.Kind {
	case assay.LoadOpen, assay.LoadRamp, assay.LoadReplay:
		return s.BacklogGrows || float64(s.NeverSent+s.Censored) > unansweredMost*float64(s.Requests)
	}
	return false
}

// shortE2Es is how many times its mean time in the system a closed stage must
// last at the least.
const shortE2Es = 2

// short says why a stage was too short to say anything.
func short(s *assay.StageSummary, e Evidence) string {
	length := time.Duration(s.Plan.DurationNS)
	takes := "more than that"
	if e.E2E > 0 {
		takes = time.Duration(e.E2E * 1e9).Round(10 * time.Millisecond).String()
	}
	switch {
	case e.Behind:
		return ""
	case s.OK+s.Failed == 0:
		return fmt.Sprintf("no judged request ended: the step took %s and a request takes %s", length, takes)
	case s.Plan.Kind == assay.LoadClosed && length > 0 && e.E2E > 0 && length.Seconds() < shortE2Es*e.E2E:
		return fmt.Sprintf("the step took %s and a request takes %s", length, takes)
	}
	return ""
}
