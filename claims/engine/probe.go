// Package engine has the probes that measure an inference engine, through hammer.
package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/journal"
)

// inferenceMetric is one metric of hammer. Either every request of a run gives
// samples, or the run as a whole gives one.
type inferenceMetric struct {
	name, unit string
	better     assay.Direction
	help       string
	each       func(r *assay.Request, add func(float64))
	whole      func(assay.StageSummary) float64
}

func inferenceMetrics() []inferenceMetric {
	time := func(name, help string, of func(*assay.Request) (int64, bool)) inferenceMetric {
		return inferenceMetric{name: name, unit: "s", better: assay.Lower, help: help, each: func(r *assay.Request, add func(float64)) {
			if ns, ok := of(r); ok && ns >= 0 {
				add(float64(ns) / 1e9)
			}
		}}
	}
	rate := func(name, help string, of func(assay.StageSummary) float64) inferenceMetric {
		return inferenceMetric{name: name, unit: "1/s", better: assay.Higher, help: help, whole: of}
	}
	return []inferenceMetric{
		time("ttft", "Time to first token", (*assay.Request).TTFT),
		time("ttfo", "Time to the first token of the answer itself", (*assay.Request).TTFO),
		time("e2e", "Time to the last token", (*assay.Request).E2E),
		{name: "tpot", unit: "s", better: assay.Lower, help: "Time per output token after the first", each: func(r *assay.Request, add func(float64)) {
			if ns, ok := r.TPOT(); ok && ns >= 0 {
				add(ns / 1e9)
			}
		}},
		{name: "itl", unit: "s", better: assay.Lower, help: "Inter-token latency of each token as delivered", each: gaps},
		{name: "output_tokens_per_second_per_user", unit: "1/s", better: assay.Higher, help: "Output tokens a second that one stream sees after its first", each: func(r *assay.Request, add func(float64)) {
			if ns, ok := r.TPOT(); ok && ns > 0 {
				add(1e9 / ns)
			}
		}},
		rate("requests_per_second", "Requests a second", func(s assay.StageSummary) float64 { return s.RequestsPerSecond }),
		rate("output_tokens_per_second", "Output tokens a second", func(s assay.StageSummary) float64 { return s.OutputTokensPerSecond }),
		rate("total_tokens_per_second", "Input and output tokens a second", func(s assay.StageSummary) float64 { return s.TotalTokensPerSecond }),
		{name: "error_rate", unit: "ratio", better: assay.Lower, help: "Share of requests that the engine failed", whole: func(s assay.StageSummary) float64 { return s.ErrorRate }},
	}
}

// gaps adds the inter-token latency of each token: of those that came together
// one waited for the gap. A gap that is only a bound is left out.
func gaps(r *assay.Request, add func(float64)) {
	r.Later(func(us int32, tokens int, marked bool) {
		if marked {
			return
		}
		for i := range tokens {
			if i > 0 {
				us = 0
			}
			add(float64(us) / 1e6)
		}
	})
}

// The load of one run. Latencies are those of one stream, whose requests wait for
// nobody; figures of a whole run are those of sixteen streams.
const (
	inferenceStreams  = 16
	inferenceRequests = 100
	inferenceSeconds  = 3 // of a run whose requests are the samples
	throughputSeconds = 1 // of a run that is one sample, and twice as long until it has a steady window
	throughputLongest = 64
)

// Probes are metrics of hammer, measured on an engine with prompts of 256
// tokens and answers of 64 in a closed loop. The requests of one run are the
// samples where the metric is one of a request, and follow each other in time;
// else each sample is a run. A run of which the client was the bottleneck is no
// measurement of the engine.
func Probes() []claims.Probe {
	var probes []claims.Probe
	for _, m := range inferenceMetrics() {
		how := " at one stream; each request is a sample."
		if m.whole != nil {
			how = fmt.Sprintf(" at %d streams; each run of %d s, or as long as a steady window needs, is a sample.", inferenceStreams, throughputSeconds)
		}
		probes = append(probes, claims.Probe{
			Name: "inference/" + m.name, Help: m.help + how, Needs: "an inference engine",
			Unit: m.unit, Better: m.better,
			Start: func(ctx context.Context, env claims.Env) (claims.Runner, error) {
				r, err := newEngineRuns(ctx, env, m)
				if err != nil {
					return nil, err
				}
				return r, nil
			},
		})
	}
	return probes
}

// engineRuns gives samples out of runs of hammer.
type engineRuns struct {
	metric inferenceMetric
	cfg    hammer.Config
	dir    string // holds the run directories; removed at the end
	n      int
	left   []float64 // samples of the last run that were not asked for yet
	extra  map[string]float64
}

func newEngineRuns(ctx context.Context, env claims.Env, m inferenceMetric) (*engineRuns, error) {
	r := &engineRuns{metric: m, cfg: hammer.DefaultConfig()}
	r.cfg.URL = env.EngineURL
	if r.cfg.URL == "" {
		url, err := hammer.Find(ctx, hammer.Ports())
		if err != nil {
			return nil, claims.Unavailablef("%w", err)
		}
		r.cfg.URL, r.cfg.Found = url, true
	}
	if err := hammer.Resolve(ctx, &r.cfg); err != nil {
		return nil, claims.Unavailablef("%w", err)
	}
	r.cfg.Seed, r.cfg.Telemetry.Interval, r.cfg.Scenario = env.Seed, 0, nil
	r.cfg.Load = hammer.Load{
		Mode: hammer.ModeClosed, Concurrency: 1, Requests: inferenceRequests,
		Duration: assay.Duration(inferenceSeconds * time.Second), Grace: assay.Duration(env.Timeout()), Warmups: 1,
	}
	if m.whole != nil {
		r.cfg.Load.Concurrency, r.cfg.Load.Requests, r.cfg.Load.Warmups = inferenceStreams, 0, inferenceStreams
		r.cfg.Load.Duration = assay.Duration(throughputSeconds * time.Second)
	}
	if env.Dir == "" {
		return nil, claims.Unavailablef("no directory was given to write to")
	}
	dir, err := os.MkdirTemp(env.Dir, ".assay-inference-")
	if err != nil {
		return nil, claims.Unavailablef("write to the directory: %w", err)
	}
	r.dir = dir
	return r, nil
}

// Close removes what the runs left on disk.
func (r *engineRuns) Close() error { return os.RemoveAll(r.dir) }

// Sample takes the next sample of the last run, or of a new one.
func (r *engineRuns) Sample(ctx context.Context) (claims.Measurement, error) {
	if len(r.left) == 0 {
		if err := r.run(ctx); err != nil {
			return claims.Measurement{}, fmt.Errorf("measure the engine at %s: %w", r.cfg.URL, err)
		}
	}
	v := r.left[0]
	r.left = r.left[1:]
	return claims.Measurement{Value: v, Extra: r.extra}, nil
}

// run takes the samples of one run. There is at least one when it gives no error.
func (r *engineRuns) run(ctx context.Context) error {
	r.n++
	cfg := r.cfg
	cfg.Seed += uint64(r.n) // other prompts each time, so that no prefix cache knows them
	dir := filepath.Join(r.dir, fmt.Sprint(r.n))
	sum, err := hammer.Run(ctx, cfg, dir, hammer.Options{})
	defer os.RemoveAll(dir)
	// That nothing succeeded is an answer for the one metric that counts it.
	if err != nil && !(errors.Is(err, hammer.ErrNothingMeasured) && len(sum.Stages) > 0) {
		return err
	}
	if err == nil && sum.Client.Certificate == assay.Invalid {
		return claims.Unavailablef("the client was the bottleneck (%s)", sum.Client.Cause)
	}
	stage := sum.Stages[len(sum.Stages)-1]
	r.extra = map[string]float64{"run": float64(r.n), "run_requests": float64(stage.Requests), "run_failed": float64(stage.Failed)}
	if r.metric.name == "error_rate" && stage.OK+stage.Failed > 0 {
		err = nil
	}
	if err != nil {
		return claims.Unavailablef("%w", err)
	}
	if r.metric.whole != nil {
		if r.metric.unit == "1/s" && !stage.Windowed() {
			return r.longer(ctx, stage.WindowWhy)
		}
		r.left = append(r.left, r.metric.whole(stage))
		return nil
	}
	if err := r.requests(dir); err != nil {
		return err
	}
	if len(r.left) == 0 {
		return claims.Unavailablef("none of %d requests has this figure", stage.Requests)
	}
	return nil
}

// longer runs again for twice as long: without a steady window there is no
// throughput to claim.
func (r *engineRuns) longer(ctx context.Context, why string) error {
	d := 2 * r.cfg.Load.Duration
	if d > assay.Duration(throughputLongest*time.Second) {
		return claims.Unavailablef("runs of %d s have no steady window: %s", throughputLongest, why)
	}
	r.cfg.Load.Duration = d
	return r.run(ctx)
}

// requests takes the figure of each request that is judged.
func (r *engineRuns) requests(dir string) error {
	run, err := journal.Open(dir)
	if err != nil {
		return err
	}
	for q, err := range run.Requests() {
		if err != nil {
			return err
		}
		if q.OK() && !q.Warmup && !q.ClockStep {
			r.metric.each(q, func(v float64) { r.left = append(r.left, v) })
		}
	}
	return nil
}
