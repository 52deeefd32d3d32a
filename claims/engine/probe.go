// Package engine has the probes that measure an inference engine, through hammer.
//
// What is said of requests is what summary says of them: this package has no rule
// of its own for which requests are judged, and takes no quantiles. A run in which
// the client was the bottleneck is no measurement of the engine.
package engine

import (
	"context"
	"fmt"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
)

// Family is the first part of these probes' names.
const Family = "inference"

// The load of one run. Latencies are those of one stream, whose requests wait for
// nobody; rates and errors are those of sixteen streams.
const (
	rateStreams     = 16
	latencyRequests = 100
	latencySeconds  = 3 // of a run of one stream
	rateSeconds     = 1 // of a run of sixteen, and twice as long until it has a steady window
	maxRunSeconds   = 64
)

// latency is a metric that every request has.
type latency struct {
	name, help string
	metric     string // as summary knows it
	perSecond  bool   // it is one over the metric
	of         func(*assay.StageSummary) assay.Dist
}

func latencies() []latency {
	return []latency{
		{name: "ttft", help: "Time to first token", metric: "ttft", of: func(s *assay.StageSummary) assay.Dist { return s.TTFT }},
		{name: "ttfo", help: "Time to the first token of the answer itself", metric: "ttfo", of: func(s *assay.StageSummary) assay.Dist { return s.TTFO }},
		{name: "e2e", help: "Time to the last token", metric: "e2e", of: func(s *assay.StageSummary) assay.Dist { return s.E2E }},
		{name: "tpot", help: "Time per output token after the first", metric: "tpot", of: func(s *assay.StageSummary) assay.Dist { return s.TPOT }},
		{name: "itl", help: "Inter-token latency of each token as delivered", metric: "itl", of: func(s *assay.StageSummary) assay.Dist { return s.ITL }},
		{name: "output_tokens_per_second_per_user", help: "Output tokens a second that one stream sees after its first", metric: "tpot", perSecond: true, of: func(s *assay.StageSummary) assay.Dist { return s.TPOT }},
	}
}

// rate is a metric that a run has as a whole.
type rate struct {
	name, help string
	of         func(*assay.StageSummary) float64
}

func rates() []rate {
	return []rate{
		{"requests_per_second", "Requests a second", func(s *assay.StageSummary) float64 { return s.RequestsPerSecond }},
		{"output_tokens_per_second", "Output tokens a second", func(s *assay.StageSummary) float64 { return s.OutputTokensPerSecond }},
		{"total_tokens_per_second", "Input and output tokens a second", func(s *assay.StageSummary) float64 { return s.TotalTokensPerSecond }},
	}
}

// about is what the root's table of metrics says of a probe. Claims are about
// seconds, where the table has milliseconds.
func about(name string) (unit string, better assay.Direction) {
	m, ok := assay.MetricOf(name)
	if !ok {
		m, _ = assay.MetricOf(name + "_ms")
	}
	if m.Unit == "ms" {
		m.Unit = "s"
	}
	return m.Unit, m.Better
}

// Probes are metrics of hammer, measured on an engine with prompts of 256 tokens
// and answers of 64 in a closed loop. Each sample is a run. Latencies and the error
// rate are judged over the requests of all runs together; of rates, which a request
// does not have, the runs are what is judged.
func Probes() []claims.Probe {
	var probes []claims.Probe
	add := func(name, help, unit string, better assay.Direction, start func(*runs) claims.Runner) {
		probes = append(probes, claims.Probe{
			Name: Family + "/" + name, Help: help, Needs: "an inference engine", Unit: unit, Better: better,
			Start: func(ctx context.Context, env claims.Env) (claims.Runner, error) {
				r, err := newRuns(ctx, env)
				if err != nil {
					return nil, err
				}
				return start(r), nil
			},
		})
	}
	for _, l := range latencies() {
		unit, better := about(l.name)
		add(l.name, l.help+" at one stream; judged over the requests of all runs.", unit, better,
			func(r *runs) claims.Runner { return &latencyRunner{runs: r.oneStream(), latency: l} })
	}
	for _, m := range rates() {
		help := fmt.Sprintf("%s at %d streams; each run of %d s, or as long as a steady window needs, is a sample.", m.help, rateStreams, rateSeconds)
		unit, better := about(m.name)
		add(m.name, help, unit, better, func(r *runs) claims.Runner { return &rateRunner{runs: r.manyStreams(), rate: m} })
	}
	unit, better := about("error_rate")
	add("error_rate", fmt.Sprintf("Share of requests that the engine failed at %d streams; judged over the requests of all runs.", rateStreams), unit, better,
		func(r *runs) claims.Runner { return &errorRunner{runs: r.manyStreams()} })
	return probes
}
