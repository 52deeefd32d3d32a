package engine

import (
	"context"
	"fmt"
	"math"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/summary"
)

// rateRunner gives one sample a run: a rate of its steady window. Failures lower
// it, since a failed request raises none.
type rateRunner struct {
	*runs
	rate rate
}

// Sample makes a run, as long as a steady window needs.
func (r *rateRunner) Sample(ctx context.Context) (m claims.Measurement, err error) {
	err = r.next(ctx, func(x run) (string, error) {
		if x.err != nil {
			return "", claims.Unavailablef("%w", x.err)
		}
		if !x.stage.Windowed() {
			return "there is no steady window: " + x.stage.WindowWhy, nil
		}
		m = claims.Measurement{Value: r.rate.of(&x.stage), Extra: x.extra(r.n)}
		return "", nil
	})
	return m, err
}

// errorRunner counts failures. That nothing succeeded is an answer here.
type errorRunner struct{ *runs }

var _ claims.Distribution = (*errorRunner)(nil)

// Sample makes a run; its value is the share of its requests that failed.
func (r *errorRunner) Sample(ctx context.Context) (m claims.Measurement, err error) {
	err = r.next(ctx, func(x run) (string, error) {
		n := x.stage.OK + x.stage.Failed
		if n == 0 {
			return "", claims.Unavailablef("the engine ended none of %d requests", x.stage.Requests)
		}
		m = claims.Measurement{Value: x.stage.ErrorRate, Batch: n, Extra: x.extra(r.n)}
		return "", r.keep(x)
	})
	return m, err
}

// Mean is the share of all requests that failed.
func (r *errorRunner) Mean() assay.Quantity { return r.all.Mean("error_rate") }

// Percentile is unknown: a request fails or does not.
func (r *errorRunner) Percentile(float64) assay.Quantity {
	return assay.UnknownQuantity("a share of requests has no percentiles: promise the mean")
}

// Range is unknown, as the percentiles are.
func (r *errorRunner) Range() (low, high float64) { return math.NaN(), math.NaN() }

// latencyRunner judges a time of every request, over the requests of all runs.
type latencyRunner struct {
	*runs
	latency latency
}

var _ claims.Distribution = (*latencyRunner)(nil)

// Sample makes a run; its value is the mean of its requests.
func (r *latencyRunner) Sample(ctx context.Context) (m claims.Measurement, err error) {
	err = r.next(ctx, func(x run) (string, error) {
		if x.err != nil {
			return "", claims.Unavailablef("%w", x.err)
		}
		d := r.latency.of(&x.stage)
		if d.N == 0 {
			return "", claims.Unavailablef("none of %d requests has this figure", x.stage.Requests)
		}
		m = claims.Measurement{Value: d.Mean / 1e3, Batch: d.N, Extra: x.extra(r.n)}
		if r.latency.perSecond {
			m.Value = 1 / m.Value
		}
		return "", r.keep(x)
	})
	return m, err
}

// Mean is that of all requests that succeeded; of a rate it is tokens over time.
func (r *latencyRunner) Mean() assay.Quantity {
	return r.figure(r.all.Mean(r.latency.metric), summary.MaxErrorRate)
}

// Percentile is that of all requests that succeeded. A rate's is one over that of
// the times, counted from the other end.
func (r *latencyRunner) Percentile(level float64) assay.Quantity {
	if r.latency.perSecond {
		level = 100 - level
	}
	return r.figure(r.all.Percentile(r.latency.metric, level), min(summary.MaxErrorRate, 1-level/100))
}

// Range is from the least to the largest that was seen.
func (r *latencyRunner) Range() (low, high float64) {
	s := r.all.Summary()
	d := r.latency.of(&s)
	if d.N == 0 {
		return math.NaN(), math.NaN()
	}
	if r.latency.perSecond {
		return 1e3 / d.Max, 1e3 / d.Min
	}
	return d.Min / 1e3, d.Max / 1e3
}

// figure turns milliseconds into the probe's unit, and accounts for the requests
// that have no latency because they failed. Where they are more than the share that
// the figure may leave out, the others cannot keep a promise for all, and can only
// break it; where they are fewer, they are reported.
func (r *latencyRunner) figure(q assay.Quantity, mayLack float64) assay.Quantity {
	if !q.Known() {
		return q
	}
	q.Est, q.Lo, q.Hi = q.Est/1e3, q.Lo/1e3, q.Hi/1e3
	s := r.all.Summary()
	have := q.N
	if r.latency.metric == "itl" { // which has many of each
		have = s.OK
	}
	if lack := s.Requests - have; lack > 0 {
		share := float64(lack) / float64(s.Requests)
		why := fmt.Sprintf("%d of %d requests (%.2g %%) failed, did not end or had no such figure", lack, s.Requests, 100*share)
		if share > mayLack {
			q.Hi = math.Inf(1)
			why += fmt.Sprintf(": more than %.2g %%, so that it keeps no promise, however fast the others were", 100*mayLack)
		}
		if q.Why != "" {
			why = q.Why + "; " + why
		}
		q.Why = why
	}
	if r.latency.perSecond {
		q.Est, q.Lo, q.Hi = 1/q.Est, 1/q.Hi, 1/max(q.Lo, 0)
	}
	return q
}
