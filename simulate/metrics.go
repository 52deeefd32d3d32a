package simulate

import (
	"strconv"
	"time"
)

// metrics is the Prometheus page: what vLLM names, by vLLM's names, and the
// simulator's own lateness.
func (e *Engine) metrics() []byte {
	p := page{label: `{model_name="` + labelValue(e.cfg.Model) + `"}`}
	g, s := &e.gauges, &e.stats
	running, waiting := e.load()
	p.value("vllm:num_requests_running", "gauge", "Requests in the running batch.", float64(running))
	p.value("vllm:num_requests_waiting", "gauge", "Requests waiting for a slot.", float64(waiting))
	use := 0.0
	if k := e.cfg.Batching.KVTokens; k > 0 {
		use = min(1, float64(g.reserved.Load())/float64(k))
	}
	p.value("vllm:kv_cache_usage_perc", "gauge", "Share of the KV cache in use, 0 to 1.", use)
	p.value("vllm:num_preemptions_total", "counter", "Sequences admitted beyond the KV cache.", float64(g.preempted.Load()))
	p.value("vllm:prompt_tokens_total", "counter", "Prompt tokens.", float64(s.prompts.Load()))
	p.value("vllm:generation_tokens_total", "counter", "Tokens written.", float64(s.tokens.Load()))

	p.family("vllm:request_success_total", "counter", "Requests by how they ended.")
	for _, c := range []struct {
		reason string
		n      int64
	}{{"stop", s.stopped.Load()}, {"length", s.lengthed.Load()}, {"abort", s.aborted.Load()}, {"error", s.error.Load()}} {
		p.sample("vllm:request_success_total", `finished_reason="`+c.reason+`"`, float64(c.n))
	}
	p.histogram("vllm:time_to_first_token_seconds", "From the request read to its first token written.", s.ttft, []float64{
		.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160})
	p.histogram("vllm:inter_token_latency_seconds", "Between events with tokens.", s.itl, []float64{
		.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80})
	p.histogram("vllm:e2e_request_latency_seconds", "From the request read to its last token written.", s.e2e, []float64{
		.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480})
	p.histogram("assay_simulate_lateness_seconds", "How late tokens were written against their schedule.", s.late, []float64{
		.00001, .00002, .00003, .00005, .00007, .0001, .00015, .0002, .0003, .0005, .0007, .001, .002, .003, .005, .007, .01, .02, .03, .05, .1, .2, .5, 1})

	p.label = ""
	p.family("assay_simulate_lateness_quantile_seconds", "gauge", "Quantiles of the lateness since the start.")
	for _, q := range []float64{.5, .9, .99, .999} {
		p.sample("assay_simulate_lateness_quantile_seconds", `quantile="`+number(q)+`"`, float64(s.late.quantile(q))/1e9)
	}
	cpu, rss := usageOfProcess()
	if cpu > 0 {
		p.value("process_cpu_seconds_total", "counter", "CPU time of this process.", cpu.Seconds())
	}
	if rss > 0 {
		p.value("process_resident_memory_bytes", "gauge", "Resident memory of this process.", float64(rss))
	}
	p.value("process_start_time_seconds", "gauge", "Start of the engine, Unix time.", float64(e.created.UnixNano())/1e9)
	return p.b
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

// page is a metrics page in the making.
type page struct {
	b     []byte
	label string // of every sample, with braces; may be empty
}

func (p *page) family(name, kind, help string) {
	p.b = append(p.b, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"...)
}

func (p *page) sample(name, label string, v float64) {
	all := p.label
	switch {
	case label != "" && all != "":
		all = all[:len(all)-1] + "," + label + "}"
	case label != "":
		all = "{" + label + "}"
	}
	p.b = append(p.b, name+all+" "+number(v)+"\n"...)
}

func (p *page) value(name, kind, help string, v float64) {
	p.family(name, kind, help)
	p.sample(name, "", v)
}

func (p *page) histogram(name, help string, h *histogram, edges []float64) {
	p.family(name, "histogram", help)
	for _, edge := range edges {
		p.sample(name+"_bucket", `le="`+number(edge)+`"`, float64(h.atMost(int64(edge*1e9))))
	}
	n := float64(h.count())
	p.sample(name+"_bucket", `le="+Inf"`, n)
	p.sample(name+"_sum", "", float64(h.sum.Load())/1e9)
	p.sample(name+"_count", "", n)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func labelValue(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\', '"':
			b = append(b, '\\', s[i])
		case '\n':
			b = append(b, `\n`...)
		default:
			b = append(b, s[i])
		}
	}
	return string(b)
}
