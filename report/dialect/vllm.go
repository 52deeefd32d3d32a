package dialect

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-bench/assay"
)

// VLLMOptions is what the result file repeats of the command line. The zero
// value is a run without options: backend and model are the manifest's.
type VLLMOptions struct {
	Backend string    // empty: the manifest's
	ModelID string    // empty: the manifest's
	Label   string    // empty: null
	Date    time.Time // of the end, in the zone that it is to be shown in

	NumPrompts     int     // as asked
	RequestRate    float64 // 0 or infinite: "inf"
	Burstiness     float64 // 0: 1; infinite, for constant gaps: "inf"
	MaxConcurrency int     // 0: null
	Ramp           *VLLMRamp

	Metadata [][2]string // key and value, in order

	Metrics     []string  // of ttft, tpot, itl, e2el; nil: ttft, tpot, itl
	Percentiles []float64 // nil: 99
	Goodput     []assay.Limit
	Detailed    bool // with the arrays by request

	Stages []string // the stages to take; nil: all
	// Start and End bound the run in Unix nanoseconds: from before the first
	// request to after the last. Zero: the first scheduled and the last ended.
	Start, End int64
}

// VLLMRamp is a rising rate.
type VLLMRamp struct {
	Strategy   string // linear, exponential
	Start, End float64
}

// maxSeconds bounds the array of one-second buckets: a year.
const maxSeconds = 366 * 24 * 3600

// VLLM writes vLLM's result JSON: one line without a line break, keys in
// vLLM's order. Warm-ups are left out. It ranges over requests twice, and
// keeps a few numbers of each request; with Detailed it keeps all its gaps.
func VLLM(w io.Writer, m assay.Manifest, opts VLLMOptions, requests iter.Seq2[*assay.Request, error]) error {
	if err := opts.resolve(m); err != nil {
		return fmt.Errorf("write vLLM's result: %w", err)
	}
	d := digest{opts: opts, gaps: counts{}}
	judged := func(yield func(*assay.Request, error) bool) {
		for r, err := range requests {
			if err == nil && (r.Warmup || (opts.Stages != nil && !slices.Contains(opts.Stages, r.Stage))) {
				continue
			}
			if !yield(r, err) {
				return
			}
		}
	}
	for r, err := range judged {
		if err != nil {
			return fmt.Errorf("write vLLM's result: %w", err)
		}
		d.add(r)
	}
	if err := d.settle(); err != nil {
		return fmt.Errorf("write vLLM's result: %w", err)
	}
	for r, err := range judged { // now that it is known when second 0 begins
		if err != nil {
			return fmt.Errorf("write vLLM's result: %w", err)
		}
		d.addPeak(r)
	}
	b := bufio.NewWriter(w)
	if err := d.object().write(b); err != nil {
		return fmt.Errorf("write vLLM's result: %w", err)
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write vLLM's result: %w", err)
	}
	return nil
}

func (o *VLLMOptions) resolve(m assay.Manifest) error {
	if o.Backend == "" {
		o.Backend = m.Engine.Backend
	}
	if o.ModelID == "" {
		o.ModelID = m.Engine.Model
	}
	if o.Burstiness == 0 {
		o.Burstiness = 1
	}
	if o.RequestRate == 0 {
		o.RequestRate = math.Inf(1)
	}
	if o.Metrics == nil {
		o.Metrics = []string{"ttft", "tpot", "itl"}
	}
	if o.Percentiles == nil {
		o.Percentiles = []float64{99}
	}
	for _, p := range o.Percentiles {
		if !(p >= 0 && p <= 100) {
			return fmt.Errorf("%g is not a percentile", p)
		}
	}
	for _, name := range o.Metrics {
		if !slices.Contains(vllmMetrics, name) {
			return fmt.Errorf("unknown metric %q; known are %s", name, strings.Join(vllmMetrics, ", "))
		}
	}
	return nil
}

// vllmMetrics are in the order of the file.
var vllmMetrics = []string{"ttft", "tpot", "itl", "e2el"}

// digest is what is kept of the requests.
type digest struct {
	opts   VLLMOptions
	all    []row
	gaps   counts // of those that succeeded, µs
	first  int64  // when second 0 begins: the first sent of those that succeeded
	start  int64
	end    int64
	events []int // by second
	open   []int // requests that touch the second
}

// row is one request. Times are microseconds, the resolution of the record.
type row struct {
	sent          int64 // ns
	ttft, latency int64 // µs; 0 when there was no event
	input, output int32
	ok            bool
	more          *more // nil unless detailed
}

// more is what only the arrays need.
type more struct {
	id, err, text string
	gaps          []int64 // µs
}

// tokens bounds a count, which may be the engine's word.
func tokens(n int) int32 { return int32(min(max(0, n), math.MaxInt32)) }

// tpot in µs, for answers of two tokens or more.
func (r *row) tpot() (float64, bool) {
	if !r.ok || r.output < 2 {
		return 0, false
	}
	return float64(r.latency-r.ttft) / float64(r.output-1), true
}

func (d *digest) add(r *assay.Request) {
	at := eventTimes(r)
	x := row{sent: r.Sent, input: tokens(r.InputTokens), ok: r.OK()}
	if x.sent == 0 {
		x.sent = r.Scheduled // never sent: where it would stand
	}
	if x.input == 0 {
		x.input = tokens(r.AskedInput)
	}
	if len(at) > 0 {
		x.ttft, x.latency = at[0], at[len(at)-1]
	}
	if x.ok {
		x.output = max(1, tokens(r.OutputTokens)) // 1: vLLM's word for a count that nobody gave
		for i := 1; i < len(at); i++ {
			d.gaps[at[i]-at[i-1]]++
		}
		if d.first == 0 || x.sent < d.first {
			d.first = x.sent
		}
	}
	if d.opts.Detailed {
		x.more = &more{id: r.ID, err: string(r.Error), text: r.Text}
		if r.Detail != "" {
			x.more.err += ": " + r.Detail
		}
		for i := 1; i < len(at); i++ {
			x.more.gaps = append(x.more.gaps, at[i]-at[i-1])
		}
	}
	d.all = append(d.all, x)

	from := x.sent
	if r.Scheduled != 0 {
		from = min(from, r.Scheduled)
	}
	if from != 0 && (d.start == 0 || from < d.start) {
		d.start = from
	}
	d.end = max(d.end, r.End, x.sent+1000*x.latency)
}

// settle is done between the two passes.
func (d *digest) settle() error {
	if d.opts.Start != 0 {
		d.start = d.opts.Start
	}
	if d.opts.End != 0 {
		d.end = d.opts.End
	}
	last := d.first
	for i := range d.all {
		if x := &d.all[i]; x.ok {
			last = max(last, x.sent+1000*x.latency)
		}
	}
	seconds := (last-d.first)/1e9 + 2
	if seconds > maxSeconds {
		return fmt.Errorf("the requests are %d seconds apart; choose stages of one run", seconds)
	}
	d.events, d.open = make([]int, seconds), make([]int, seconds)
	if d.opts.Detailed {
		slices.SortStableFunc(d.all, func(a, b row) int {
			if a.sent != b.sent {
				return int(max(-1, min(1, a.sent-b.sent)))
			}
			return strings.Compare(a.more.id, b.more.id)
		})
	}
	return nil
}

// addPeak counts a request into the seconds that it touches: vLLM's way, in
// fixed seconds, and events in place of tokens.
func (d *digest) addPeak(r *assay.Request) {
	at := eventTimes(r)
	if !r.OK() || r.Sent == 0 || len(at) == 0 {
		return
	}
	second := func(us int64) int { return int((r.Sent - d.first + 1000*us) / 1e9) }
	for _, us := range at {
		d.events[second(us)]++
	}
	for s := second(0); s <= second(at[len(at)-1]); s++ {
		d.open[s]++
	}
}

// object is the file.
func (d *digest) object() *object {
	o, opts := &object{}, d.opts
	o.set("date", opts.Date.Format("20060102-150405"))
	o.set("endpoint_type", opts.Backend)
	o.set("backend", opts.Backend)
	o.set("label", nil)
	if opts.Label != "" {
		o.set("label", opts.Label)
	}
	o.set("model_id", opts.ModelID)
	o.set("tokenizer_id", nil) // none was loaded
	o.set("num_prompts", opts.NumPrompts)
	for _, kv := range opts.Metadata {
		o.set(kv[0], kv[1])
	}
	o.set("request_rate", opts.RequestRate)
	o.set("burstiness", opts.Burstiness)
	o.set("max_concurrency", nil)
	if opts.MaxConcurrency > 0 {
		o.set("max_concurrency", opts.MaxConcurrency)
	}
	if r := opts.Ramp; r != nil {
		o.set("ramp_up_strategy", r.Strategy)
		o.set("ramp_up_start_rps", r.Start)
		o.set("ramp_up_end_rps", r.End)
	}
	d.totals(o)
	if opts.Detailed {
		d.arrays(o)
	}
	o.set("max_output_tokens_per_s", float64(slices.Max(d.events)))
	o.set("max_concurrent_requests", slices.Max(d.open))
	o.set("rtfx", 0.0) // there is no audio
	d.metrics(o)
	return o
}

func (d *digest) totals(o *object) {
	seconds := float64(d.end-d.start) / 1e9
	rate := func(n int) float64 {
		if !(seconds > 0) {
			return 0
		}
		return float64(n) / seconds
	}
	var completed, input, output, good int
	for i := range d.all {
		x := &d.all[i]
		if !x.ok {
			continue
		}
		completed++
		input += int(x.input)
		output += int(x.output)
		if x.good(d.opts.Goodput) {
			good++
		}
	}
	o.set("duration", max(0, seconds))
	o.set("completed", completed)
	o.set("failed", len(d.all)-completed)
	o.set("total_input_tokens", input)
	o.set("total_output_tokens", output)
	o.set("request_throughput", rate(completed))
	o.set("request_goodput", nil)
	if len(d.opts.Goodput) > 0 {
		o.set("request_goodput", rate(good))
	}
	o.set("output_throughput", rate(output))
	o.set("total_token_throughput", rate(input+output))
}

// good reports whether every limit is kept. An answer of one token has a TPOT
// of 0 here, as there.
func (r *row) good(limits []assay.Limit) bool {
	for _, l := range limits {
		var us float64
		switch l.Metric {
		case "ttft":
			us = float64(r.ttft)
		case "tpot":
			us, _ = r.tpot()
		case "e2el":
			us = float64(r.latency)
		}
		if us > l.MaxMS*1000 {
			return false
		}
	}
	return true
}

func (d *digest) arrays(o *object) {
	o.set("input_lens", array(d.all, func(r *row) any { return int(r.input) }))
	o.set("output_lens", array(d.all, func(r *row) any { return int(r.output) }))
	o.set("ttfts", array(d.all, func(r *row) any { return float64(r.ttft) / 1e6 }))
	o.set("itls", array(d.all, func(r *row) any {
		return array(r.more.gaps, func(us *int64) any { return float64(*us) / 1e6 })
	}))
	o.set("latencies", array(d.all, func(r *row) any {
		if !r.ok {
			return 0.0
		}
		return float64(r.latency) / 1e6
	}))
	o.set("start_times", array(d.all, func(r *row) any { return float64(r.sent-d.start) / 1e9 }))
	o.set("generated_texts", array(d.all, func(r *row) any { return r.more.text }))
	o.set("errors", array(d.all, func(r *row) any { return r.more.err }))
}

func (d *digest) metrics(o *object) {
	values := map[string]counts{"ttft": {}, "e2el": {}, "itl": d.gaps}
	var tpots []float64
	for i := range d.all {
		x := &d.all[i]
		if !x.ok {
			continue
		}
		values["ttft"][x.ttft]++
		values["e2el"][x.latency]++
		if v, ok := x.tpot(); ok {
			tpots = append(tpots, v)
		}
	}
	for _, name := range vllmMetrics {
		if !slices.Contains(d.opts.Metrics, name) {
			continue
		}
		var s sample
		if name == "tpot" {
			s = sampleOf(tpots)
		} else {
			s = values[name].sample()
		}
		o.set("mean_"+name+"_ms", s.mean()/1000)
		o.set("median_"+name+"_ms", s.percentile(50)/1000)
		o.set("std_"+name+"_ms", s.deviation()/1000)
		for _, p := range d.opts.Percentiles {
			o.set("p"+levelName(p)+"_"+name+"_ms", s.percentile(p)/1000)
		}
	}
}

// levelName writes 99 as "99" and 99.9 as "99.9".
func levelName(p float64) string {
	if p == math.Trunc(p) {
		return strconv.Itoa(int(p))
	}
	return pythonFloat(p)
}

// ErrNoName says that a name for the file cannot be made; give one.
var ErrNoName = errors.New("the result file has no name; give one with --result-filename")

// VLLMFileName is the name that vLLM gives its result file.
func VLLMFileName(m assay.Manifest, opts VLLMOptions) (string, error) {
	if err := opts.resolve(m); err != nil {
		return "", fmt.Errorf("name vLLM's result file: %w", err)
	}
	label := opts.Label
	if label == "" {
		label = opts.Backend
	}
	model := opts.ModelID[strings.LastIndexByte(opts.ModelID, '/')+1:]
	if label == "" || model == "" {
		return "", ErrNoName
	}
	name := label + "-" + pythonFloat(opts.RequestRate) + "qps"
	if r := opts.Ramp; r != nil {
		name = fmt.Sprintf("%s-ramp-up-%s-%gqps-%gqps", label, r.Strategy, r.Start, r.End)
	}
	if opts.MaxConcurrency > 0 {
		name += "-concurrency" + strconv.Itoa(opts.MaxConcurrency)
	}
	name += "-" + model + "-" + opts.Date.Format("20060102-150405") + ".json"
	// The model's name is the engine's word: it must not lead out of the directory.
	return strings.Map(func(c rune) rune {
		if c < 0x20 || c == 0x7f || c == '/' || c == '\\' {
			return '_'
		}
		return c
	}, name), nil
}
