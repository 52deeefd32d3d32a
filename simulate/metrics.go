package simulate

import (
	"time"

	"github.com/assay-bench/assay/internal/promtext"
)

// metrics is the Prometheus page: what vLLM names, by vLLM's names, and the
// simulator's own lateness.
func (e *Engine) metrics() []byte {
	var p promtext.Page
	g, s := &e.gauges, &e.stats
	model := []string{"model_name", e.cfg.Model}
	running, waiting := e.load()
	p.Gauge("vllm:num_requests_running", "Requests in the running batch.", float64(running), model...)
	p.Gauge("vllm:num_requests_waiting", "Requests waiting for a slot.", float64(waiting), model...)
	use := 0.0
	if k := e.cfg.Batching.KVTokens; k > 0 {
		use = min(1, float64(g.reserved.Load())/float64(k))
	}
	p.Gauge("vllm:kv_cache_usage_perc", "Share of the KV cache in use, 0 to 1.", use, model...)
	p.Counter("vllm:num_preemptions_total", "Sequences admitted beyond the KV cache.", float64(g.preempted.Load()), model...)
	p.Counter("vllm:prompt_tokens_total", "Prompt tokens.", float64(s.prompts.Load()), model...)
	p.Counter("vllm:generation_tokens_total", "Tokens written.", float64(s.tokens.Load()), model...)
	for _, c := range []struct {
		reason string
		n      int64
	}{{"stop", s.stopped.Load()}, {"length", s.lengthed.Load()}, {"abort", s.aborted.Load()}, {"error", s.error.Load()}} {
		p.Counter("vllm:request_success_total", "Requests by how they ended.", float64(c.n), append(model[:2:2], "finished_reason", c.reason)...)
	}
	histogram := func(name, help string, h *histogram, edges ...float64) {
		var buckets []promtext.Bucket
		for _, edge := range edges {
			buckets = append(buckets, promtext.Bucket{AtMost: edge, Count: h.atMost(int64(edge * 1e9))})
		}
		p.Family(name, promtext.Histogram, help).Histogram(buckets, float64(h.sum.Load())/1e9, h.count(), model...)
	}
	histogram("vllm:time_to_first_token_seconds", "From the request read to its first token written.", s.ttft,
		.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160)
	histogram("vllm:inter_token_latency_seconds", "Between events with tokens.", s.itl,
		.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
	histogram("vllm:e2e_request_latency_seconds", "From the request read to its last token written.", s.e2e,
		.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480)
	histogram("assay_simulate_lateness_seconds", "How late tokens were written against their schedule.", s.late,
		.00001, .00002, .00003, .00005, .00007, .0001, .00015, .0002, .0003, .0005, .0007, .001, .002, .003, .005, .007, .01, .02, .03, .05, .1, .2, .5, 1)

	for _, q := range []float64{.5, .9, .99, .999} {
		p.Gauge("assay_simulate_lateness_quantile_seconds", "Quantiles of the lateness since the start.", float64(s.late.quantile(q))/1e9, "quantile", promtext.Number(q))
	}
	cpu, rss := usageOfProcess()
	if cpu > 0 {
		p.Counter("process_cpu_seconds_total", "CPU time of this process.", cpu.Seconds())
	}
	if rss > 0 {
		p.Gauge("process_resident_memory_bytes", "Resident memory of this process.", float64(rss))
	}
	p.Gauge("process_start_time_seconds", "Start of the engine, Unix time.", float64(e.created.UnixNano())/1e9)
	return p.Bytes()
}

// load counts the sequences that run and that wait.
func (e *Engine) load() (running, waiting int64) {
	running, waiting = e.gauges.running.Load(), e.gauges.waiting.Load()
	if e.cfg.Law == LawBatching {
		return running, waiting + e.pacer.newcomers()
	}
	return running + e.pacer.newcomers(), waiting
}

// Lateness is how late the engine itself wrote its tokens, since its start.
type Lateness struct {
	Tokens        int64
	P50, P99, Max time.Duration
}

// Lateness says how well the engine kept its own schedule.
func (e *Engine) Lateness() Lateness {
	h := e.stats.late
	return Lateness{
		Tokens: e.stats.tokens.Load(),
		P50:    time.Duration(h.quantile(.5)),
		P99:    time.Duration(h.quantile(.99)),
		Max:    time.Duration(h.max.Load()),
	}
}
