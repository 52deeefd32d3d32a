package claims

import (
	"fmt"
	"math"

	"github.com/assay-bench/assay"
)

// minForSequence is how many independent samples come before the first look:
// the sequence of a mean rests on the central limit, which must have begun to
// hold, and how far samples are correlated must be known before they are counted.
const minForSequence = 100

// sequenceAim is the number of samples for which the sequence of means is
// narrowest; elsewhere it is somewhat wider than it could be.
const sequenceAim = 1000

// meanSequence is half the width, after n independent samples, of an interval of
// a mean that may be looked at after every sample: the normal mixture bound of
// Robbins with the deviation estimated (Waudby-Smith and others, Time-uniform
// central limit theory and asymptotic confidence sequences, 2024). The chance
// that it ever misses the truth is alpha in the limit of a late first look.
func meanSequence(sd, n, alpha float64) float64 {
	rho := (-2*math.Log(alpha) + math.Log(1-2*math.Log(alpha))) / sequenceAim // ρ²
	r := n*rho + 1
	return sd * math.Sqrt(2*r/(n*n*rho)*math.Log(math.Sqrt(r)/alpha))
}

// maxNeeded is where a number of samples stops being advice.
const maxNeeded = 1e9

// more says about how many more samples would decide, by the very rule that
// decides, if what was seen so far goes on. ok is false when no number can be
// named.
func (e estimator) more(f figure, t Target, s *samples) (n int64, ok bool) {
	if len(s.values) == 0 || s.wrong > 0 || s.reduced != nil {
		return 0, false
	}
	have := float64(len(s.values))
	var decided func(n float64) bool
	switch f.kind {
	case metricPercentile:
		if s.largestBatch() > 1 {
			return 0, false
		}
		tau := e.percentileTau(s, f.valueAt(s))
		below := 0.0
		for _, v := range s.values {
			// Ties count as they do in an interval: an end that equals the target
			// keeps "<=" and breaks "<".
			if v < t.Value || v == t.Value && (t.Op == "<=" || t.Op == ">") {
				below++
			}
		}
		share := below / have
		decided = func(n float64) bool {
			lo, hi, ok := e.ranks(n/tau, f.level)
			at := share * math.Floor(n/tau)
			return ok && (float64(hi) <= at || float64(lo) > at)
		}
	case metricMean, metricThroughput:
		values, target := s.values, t.Value
		if f.kind == metricThroughput {
			target = 1 / t.Value
			if !f.ofTimes {
				values = make([]float64, len(s.values))
				for i, v := range s.values {
					values[i] = 1 / v
				}
			}
		}
		sp := spreadOf(values, s.batch)
		tau := float64(sp.n) / sp.effective
		gap := math.Abs(sp.mean - target)
		decided = func(n float64) bool { return gap > 0 && e.half(sp.sd, n/tau) < gap }
	default:
		return 0, false
	}
	for n := have + 1; n < maxNeeded; n = math.Ceil(n * 1.05) {
		if decided(n) {
			return int64(n - have), true
		}
	}
	return 0, false
}

// valueAt is the point estimate of a percentile.
func (f figure) valueAt(s *samples) float64 {
	return estimator{}.percentile(f.level, s).Est
}

// judgement is what is said of a claim.
type judgement struct {
	verdict assay.Verdict
	why     string
	more    int64
}

// judge compares a claim's figure with a promise and says why.
func (e estimator) judge(c Claim, t Target, q assay.Quantity, s *samples) judgement {
	unit := c.figure.unit
	j := judgement{verdict: t.Judge(q)}
	switch {
	case !q.Known():
		j.why = q.Why
		return j
	case j.verdict == assay.Pass && (c.figure.kind == metricMin || c.figure.kind == metricMax):
		j.why = fmt.Sprintf("%s was seen, which keeps %s", FormatValue(q.Est, unit), t)
	case j.verdict == assay.Fail && (c.figure.kind == metricMin || c.figure.kind == metricMax):
		j.why = fmt.Sprintf("%s was seen, which breaks %s", FormatValue(q.Est, unit), t)
	case j.verdict == assay.Pass:
		j.why = withReason(fmt.Sprintf("the whole interval keeps %s", t), q.Why)
	case j.verdict == assay.Fail:
		j.why = withReason(fmt.Sprintf("the whole interval breaks %s", t), q.Why)
	case c.figure.kind == metricMin || c.figure.kind == metricMax:
		j.why = fmt.Sprintf("%s was seen, and no number of samples shows that %s always holds: promise a percentile", FormatValue(q.Est, unit), t)
	default:
		if q.Why != "" {
			j.why = q.Why // an end is missing
		} else {
			j.why = fmt.Sprintf("the interval includes values that keep %s and values that break it", t)
		}
		n, ok := e.more(c.figure, t, s)
		if s.reduced != nil {
			break
		}
		if ok {
			j.more = n
			j.why += fmt.Sprintf("; about %s more samples would decide", count(n))
		} else {
			j.why += "; what was measured lies so near that no number of samples can be named that would decide"
		}
	}
	return j
}

// withReason adds what is to be known of a figure.
func withReason(text, why string) string {
	if why == "" {
		return text
	}
	return text + "; " + why
}

// count writes a number of samples roughly: it is a guess.
func count(n int64) string {
	if n < 100 {
		return fmt.Sprint(n)
	}
	step := int64(math.Pow(10, math.Floor(math.Log10(float64(n)))-1))
	n = (n + step - 1) / step * step
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
