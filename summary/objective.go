package summary

import (
	"fmt"
	"math"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// errorRateMost is the error rate that a stage may have and still keep its
// objectives, where no objective speaks of errors: fast answers to nine requests
// of ten keep nothing.
const errorRateMost = 0.01

// unansweredMost is the share of requests that an open stage may leave unsent or
// unanswered and still keep its objectives: a rate that was not reached was not
// kept.
const unansweredMost = 0.01

// hold holds each objective against a stage, and decides for a search.
//
// The verdict of one objective is pass when its interval keeps the limit, fail
// when it breaks it, and goes by the estimate when the interval lies across the
// limit (Measured shows that it does). A percentile with fewer samples than an
// interval needs is unknown.
//
// Kept answers another question: a search has to go up or down, so it goes by
// the estimates alone, however few the samples. It is fail when an estimate
// breaks its limit, when the error rate is above its objective (or 1 % without
// one), when an open stage left more than 1 % of its requests unsent or
// unanswered, or when its backlog grew (see backlog); unknown when there are no
// objectives or one has no samples; pass otherwise.
func hold(s *assay.StageSummary, objectives []assay.Objective, backlogGrows bool) ([]assay.Held, assay.Verdict) {
	if len(objectives) == 0 {
		return nil, assay.Unknown
	}
	var out []assay.Held
	kept, errorsJudged := assay.Pass, false
	lower := func(v assay.Verdict) {
		if v == assay.Fail || kept == assay.Pass {
			kept = v
		}
	}
	for _, o := range objectives {
		q := measured(s, o)
		h := assay.Held{Objective: o, Measured: q, Verdict: verdict(q, o)}
		errorsJudged = errorsJudged || o.Metric == "error_rate"
		out = append(out, h)
		switch {
		case !q.Known() || math.IsNaN(q.Est):
			lower(assay.Unknown)
		case q.Est > o.Max:
			lower(assay.Fail)
		}
	}
	if !errorsJudged && s.ErrorRate > errorRateMost {
		lower(assay.Fail)
	}
	switch s.Plan.Kind {
	case assay.LoadOpen, assay.LoadRamp, assay.LoadReplay:
		if float64(s.NeverSent+s.Censored) > unansweredMost*float64(s.Requests) {
			lower(assay.Fail)
		}
	}
	if backlogGrows {
		lower(assay.Fail) // a rate that the engine falls behind at is not kept
	}
	return out, kept
}

// measured is what an objective speaks of, with its interval.
func measured(s *assay.StageSummary, o assay.Objective) assay.Quantity {
	nan := math.NaN()
	if o.Metric == "error_rate" {
		n := s.OK + s.Failed
		if n == 0 {
			return assay.UnknownQuantity("no request was ended by the engine")
		}
		lo, hi := stat.ProportionInterval(int64(s.Failed), int64(n), 0.95)
		return assay.Quantity{N: n, Est: s.ErrorRate, Lo: lo, Hi: hi}
	}
	d, ok := distByName(s, o.Metric)
	if !ok {
		return assay.UnknownQuantity(fmt.Sprintf("there is no metric %s", o.Metric))
	}
	if d.N == 0 {
		return assay.UnknownQuantity("no request succeeded that has it")
	}
	if level, ok := o.Level(); ok {
		p, ok := d.P(level)
		if !ok {
			return assay.UnknownQuantity(fmt.Sprintf("%s was not computed", o.Stat))
		}
		q := assay.Quantity{N: d.N, Est: p.Value, Lo: p.Lo, Hi: p.Hi}
		if !p.Held() {
			q.Why = fmt.Sprintf("n<%d: %.0f independent samples", p.Need, math.Floor(d.Effective))
		}
		return q
	}
	q := assay.Quantity{N: d.N, Est: d.Mean, Lo: nan, Hi: nan}
	if d.N > 1 {
		q.Lo, q.Hi = stat.MeanInterval(d.Mean, d.Stddev, d.Effective, 0.95)
	}
	return q
}

func distByName(s *assay.StageSummary, metric string) (assay.Dist, bool) {
	switch metric {
	case "ttft":
		return s.TTFT, true
	case "ttft_intended":
		return s.TTFTIntended, true
	case "ttfo":
		return s.TTFO, true
	case "tpot":
		return s.TPOT, true
	case "itl":
		return s.ITL, true
	case "e2e":
		return s.E2E, true
	case "e2e_intended":
		return s.E2EIntended, true
	}
	return assay.Dist{}, false
}

// verdict goes by the estimate where there is an interval around it. All of an
// interval on one side of the limit has the estimate on that side too, so what
// the interval decides is whether there are samples enough to say anything.
func verdict(q assay.Quantity, o assay.Objective) assay.Verdict {
	switch {
	case !q.Known() || math.IsNaN(q.Lo) || math.IsNaN(q.Hi):
		return assay.Unknown
	case q.Est <= o.Max:
		return assay.Pass
	}
	return assay.Fail
}
