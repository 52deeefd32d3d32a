package summary

import (
	"fmt"
	"math"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// MaxErrorRate is the error rate that a stage may have and still keep its
// objectives, where no objective speaks of errors: fast answers to nine requests
// of ten keep nothing.
const MaxErrorRate = 0.01

// unansweredMost is the share of requests that an open stage may leave unsent or
// unanswered and still keep its objectives: a rate that was not reached was not
// kept.
const unansweredMost = 0.01

// hold judges each objective by a stage.
//
// The verdict of one objective is pass when all of its interval keeps the limit,
// fail when all of it breaks the limit, and unknown when the interval lies
// across the limit or there is none: a percentile of too few samples decides
// nothing. Measured.Why then says what is wanting.
//
// Kept is pass only when every objective passes, and fail when one fails. It is
// also fail when the error rate is certainly above 1 % and no objective speaks
// of errors, or when an open stage did not keep up with its rate; and unknown
// when there are no objectives.
//
// A percentile is one of those that have the figure. So what passes must also
// hold when those that hung or had no such figure count as violations: see
// survivors.
func (c *Collector) hold(s *assay.StageSummary) ([]assay.Held, assay.Verdict) {
	objectives := c.judge.Objectives
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
	for k, o := range objectives {
		q := measured(s, o)
		v := verdict(q, o)
		if v == assay.Unknown && q.Known() {
			q.Why = wanting(s, o, q)
		}
		if v == assay.Pass {
			v, q.Why = c.survivors(k)
		}
		errorsJudged = errorsJudged || o.Metric == "error_rate"
		out = append(out, assay.Held{Objective: o, Measured: q, Verdict: v})
		lower(v)
	}
	if !errorsJudged {
		lower(errorsKept(s))
	}
	if behind(s) {
		lower(assay.Fail) // a rate that the engine falls behind at is not kept
	}
	return out, kept
}

// survivors judges an objective again that those requests keep which have its
// figure: with those that hung or had no such figure as violations it must still
// be kept, and it is broken when those that certainly violate it are too many by
// themselves. The engine's failures are for the error rate to judge.
func (c *Collector) survivors(k int) (assay.Verdict, string) {
	t := &c.trials[k]
	sample, _ := c.sampleOf(t.objective.Metric)
	broken := t.failed - t.errored
	if broken+t.missing == 0 || sample == nil {
		return assay.Pass, ""
	}
	above := c.above(t.objective)
	n := int(sample.counts.N()) + broken + t.missing
	tau := max(1, sample.series.Tau())
	share := func(k int) (lo, hi float64) {
		whole := max(1, math.Round(float64(n)/tau))
		return stat.ProportionInterval(int64(min(whole, math.Ceil(float64(k)/tau))), int64(whole), 0.95)
	}
	allowed := unansweredMost // of a mean that leaves them out
	if level, ok := t.objective.Level(); ok {
		allowed = 1 - level/100
	}
	if lo, _ := share(above + broken); lo > allowed {
		return assay.Fail, fmt.Sprintf("%d of %d requests hung or had no answer, more than it allows", broken, n)
	}
	if _, hi := share(above + broken + t.missing); hi > allowed {
		return assay.Unknown, fmt.Sprintf("%d of %d requests have no such figure, because they hung or had no answer: with them it may be broken", broken+t.missing, n)
	}
	return assay.Pass, ""
}

// errorsKept judges errors that no objective speaks of: it finds too many, and
// does not ask for a proof that there are few.
func errorsKept(s *assay.StageSummary) assay.Verdict {
	lo, _ := stat.ProportionInterval(int64(s.Failed), int64(s.OK+s.Failed), 0.95)
	switch {
	case lo > MaxErrorRate:
		return assay.Fail
	case s.ErrorRate > MaxErrorRate:
		return assay.Unknown
	}
	return assay.Pass
}

// measured is what an objective speaks of, with its interval.
func measured(s *assay.StageSummary, o assay.Objective) assay.Quantity {
	nan := math.NaN()
	if o.Metric == "error_rate" {
		n := s.OK + s.Failed
		if n == 0 {
			return assay.UnknownQuantity(nothingMeasured(s))
		}
		lo, hi := stat.ProportionInterval(int64(s.Failed), int64(n), 0.95)
		return assay.Quantity{N: n, Est: s.ErrorRate, Lo: lo, Hi: hi}
	}
	d, ok := distByName(s, o.Metric)
	if !ok {
		return assay.UnknownQuantity(fmt.Sprintf("there is no metric %s", o.Metric))
	}
	if d.N == 0 {
		return assay.UnknownQuantity(nothingMeasured(s))
	}
	if level, ok := o.Level(); ok {
		p, ok := d.P(level)
		if !ok {
			return assay.UnknownQuantity(fmt.Sprintf("%s was not computed", o.Stat))
		}
		q := assay.Quantity{N: d.N, Est: p.Value, Lo: p.Lo, Hi: p.Hi}
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

// nothingMeasured says why a stage has no sample of a metric.
func nothingMeasured(s *assay.StageSummary) string {
	switch {
	case s.OK > 0:
		return "no request that succeeded has it"
	case s.Requests == 0 && s.Warmups > 0:
		return fmt.Sprintf("all %d requests were warm-ups, which are not judged: the stage needs a longer --duration", s.Warmups)
	case s.Failed == 0 && s.Censored > 0:
		return fmt.Sprintf("%d requests were still under way when the stage ended: it needs a longer --duration or --grace", s.Censored)
	case s.Requests == 0:
		return "no request was sent"
	}
	return "no request succeeded"
}

// verdict is decided by the whole interval or not at all.
func verdict(q assay.Quantity, o assay.Objective) assay.Verdict {
	switch {
	case !q.Known() || math.IsNaN(q.Lo) || math.IsNaN(q.Hi):
		return assay.Unknown
	case q.Hi <= o.Max:
		return assay.Pass
	case q.Lo > o.Max:
		return assay.Fail
	}
	return assay.Unknown
}

// wanting says why an objective that was measured is not decided, and how many
// more requests would probably decide it.
func wanting(s *assay.StageSummary, o assay.Objective, q assay.Quantity) string {
	if math.IsNaN(q.Lo) || math.IsNaN(q.Hi) {
		d, _ := distByName(s, o.Metric)
		level, ok := o.Level()
		if p, has := d.P(level); ok && has {
			need := float64(p.Need)
			return fmt.Sprintf("%d requests are worth %.0f independent ones, and a %s needs %d: about %.0f more would do",
				d.N, math.Floor(d.Effective), o.Stat, p.Need, math.Ceil((need/d.Effective-1)*float64(d.N)))
		}
		return "one request has no interval: more are needed"
	}
	// An interval narrows with the root of the number of requests.
	side := q.Hi - q.Est
	if q.Est > o.Max {
		side = q.Est - q.Lo
	}
	text := "the interval includes the limit"
	ratio := side / (o.Max - q.Est)
	if times := ratio * ratio; times > 1 && times < 1e4 {
		text += fmt.Sprintf(": about %.2g times as many requests would decide it", times)
	} else {
		text += ", and no number of requests that can be foreseen would decide it"
	}
	return text
}
