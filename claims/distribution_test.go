package claims

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// reducedRunner has figures of its own, which its samples contradict: whoever
// reduces the samples shows.
type reducedRunner struct{ thin bool }

func (reducedRunner) Sample(context.Context) (Measurement, error) {
	time.Sleep(time.Second)
	return Measurement{Value: 1000, Batch: 50}, nil
}
func (reducedRunner) Close() error { return nil }

func (r reducedRunner) Mean() assay.Quantity {
	if r.thin {
		return assay.Quantity{N: 5, Est: 2, Lo: 2, Hi: 2}
	}
	return assay.Quantity{N: 400, Est: 2, Lo: 1.9, Hi: 2.1}
}

func (reducedRunner) Percentile(level float64) assay.Quantity {
	return assay.Quantity{N: 400, Est: level / 10, Lo: level/10 - 0.5, Hi: level/10 + 0.5, Why: "3 of 400 failed"}
}
func (reducedRunner) Range() (low, high float64) { return 1, 9.95 }

func reducedProbe(r reducedRunner) Probe {
	return Probe{Name: "f/reduced", Unit: unitSeconds, Better: assay.Lower, Start: func(context.Context, Env) (Runner, error) { return r, nil }}
}

// A probe that brings figures is judged by them, and by nothing that its samples
// would give.
func TestDistributionDecides(t *testing.T) {
	for _, c := range []struct {
		name, claim string
		thin        bool
		want        assay.Verdict
		why         string
	}{
		{"percentile kept", "metric: p95, target: <= 10s", false, assay.Pass, "the whole interval keeps <= 10s; 3 of 400 failed"},
		{"percentile broken", "metric: p95, target: <= 8.9s", false, assay.Fail, "; 3 of 400 failed"},
		{"percentile undecided", "metric: p95, target: <= 9.5s", false, assay.Unknown, "3 of 400 failed"},
		{"any percentile", "metric: p12.5, target: <= 2s", false, assay.Pass, ""},
		{"mean", "metric: mean, target: <= 3s", false, assay.Pass, ""},
		{"throughput", "metric: throughput, target: '>= 0.4/s'", false, assay.Pass, ""},
		{"maximum", "metric: max, target: <= 9s", false, assay.Fail, "9.95 s was seen"},
		{"maximum cannot be shown", "metric: max, target: <= 90s", false, assay.Unknown, "promise a percentile"},
		{"minimum", "metric: min, target: <= 1s", false, assay.Pass, ""},
		{"a mean of a handful", "metric: mean, target: <= 3s", true, assay.Unknown, "too few"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := runFile(t, fixture(t), claimLines("probe: f/reduced, "+c.claim), reducedProbe(reducedRunner{c.thin}))
			if got := r.Claims[0]; got.Verdict != c.want || !strings.Contains(got.Why, c.why) {
				t.Errorf("%v: %s; want %v and %q", got.Verdict, got.Why, c.want, c.why)
			}
		})
	}
	p := runFile(t, fixture(t), claimLines("probe: f/reduced, metric: p50, target: <= 9s"), reducedProbe(reducedRunner{})).Probes[0]
	if p.Warmup != 0 || p.Samples != 5 || p.Operations != 250 || p.P50.Est != 5 || *p.Min != 1 || *p.Max != 9.95 || p.Outliers != nil || p.Stddev != nil {
		t.Errorf("%+v", p)
	}
}

// Its intervals bear one look, so that it is measured for the whole budget.
func TestDistributionIsLookedAtOnce(t *testing.T) {
	o := fixture(t)
	o.UntilDecided, o.Budget = true, 20*time.Second
	p := runFile(t, o, claimLines("probe: f/reduced, metric: p50, target: <= 9s"), reducedProbe(reducedRunner{})).Probes[0]
	if p.Stopped != stopBudget || p.Sequence || p.Samples != 20 {
		t.Errorf("stopped by %s after %d, sequence %v", p.Stopped, p.Samples, p.Sequence)
	}
}

// What no number can be made of is unknown, and no zero.
func TestDistributionWithoutARange(t *testing.T) {
	if q := extreme(metricMin, 4, math.NaN(), math.NaN()); q.Known() {
		t.Errorf("%+v", q)
	}
}
