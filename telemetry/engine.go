package telemetry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/assay-bench/assay"
)

// ErrNoMetrics says that the engine tells nothing of itself that is known here.
// Go on without this source.
var ErrNoMetrics = errors.New("the engine has no metrics that are known")

// EngineOptions say which engine to ask.
type EngineOptions struct {
	// URL of the engine, as it was given for the requests: a path that ends in
	// /v1 is that of the API, beside which /metrics is.
	URL string
	// Header is sent with each look, for example Authorization.
	Header http.Header
	// Timeout of one look; 0: 2 s. Engines answer late when they are busy.
	Timeout time.Duration
	// TLS is how to speak to an https address; nil: as usual.
	TLS *tls.Config
	// Model is whose totals are wanted where an engine serves several.
	Model string
}

// Engine reads what an engine says of itself on its /metrics page.
type Engine struct {
	page   *page
	filter *filter
	kind   string
}

// engineName says what one name of an engine's page is here.
type engineName struct {
	reading string
	// highest: of several series the highest counts, since shares cannot be
	// added. Counts are added.
	highest bool
}

// engineNames are the pages of the engines that are known.
var engineNames = map[string]map[string]engineName{
	"vllm": {
		"vllm:num_requests_running":    {reading: assay.EngineRunning},
		"vllm:num_requests_waiting":    {reading: assay.EngineWaiting},
		"vllm:kv_cache_usage_perc":     {reading: assay.EngineKVCache, highest: true},
		"vllm:gpu_cache_usage_perc":    {reading: assay.EngineKVCache, highest: true}, // until 0.10
		"vllm:num_preemptions_total":   {reading: assay.EnginePreemptions},
		"vllm:prompt_tokens_total":     {reading: assay.EnginePromptTokens},
		"vllm:generation_tokens_total": {reading: assay.EngineOutputTokens},
	},
	"sglang": {
		"sglang:num_running_reqs":             {reading: assay.EngineRunning},
		"sglang:num_queue_reqs":               {reading: assay.EngineWaiting},
		"sglang:token_usage":                  {reading: assay.EngineKVCache, highest: true},
		"sglang:num_retracted_requests_total": {reading: assay.EnginePreemptions},
		"sglang:prompt_tokens_total":          {reading: assay.EnginePromptTokens},
		"sglang:generation_tokens_total":      {reading: assay.EngineOutputTokens},
	},
	"tgi": {
		"tgi_batch_current_size":           {reading: assay.EngineRunning},
		"tgi_queue_size":                   {reading: assay.EngineWaiting},
		"tgi_request_input_length_sum":     {reading: assay.EnginePromptTokens},
		"tgi_request_generated_tokens_sum": {reading: assay.EngineOutputTokens},
	},
	"llama.cpp": {
		"llamacpp:requests_processing":    {reading: assay.EngineRunning},
		"llamacpp:requests_deferred":      {reading: assay.EngineWaiting},
		"llamacpp:kv_cache_usage_ratio":   {reading: assay.EngineKVCache, highest: true}, // until 2025
		"llamacpp:prompt_tokens_total":    {reading: assay.EnginePromptTokens},
		"llamacpp:tokens_predicted_total": {reading: assay.EngineOutputTokens},
	},
}

// processNames are those of the usual client libraries, and alone make no
// engine.
var processNames = map[string]engineName{
	"process_resident_memory_bytes": {reading: assay.EngineResidentMemory},
	"process_start_time_seconds":    {reading: assay.EngineStarted, highest: true},
}

// NewEngine looks at the page once to see which engine it is. One without a
// page, or with names that are not known here, is ErrNoMetrics.
func NewEngine(ctx context.Context, o EngineOptions) (*Engine, error) {
	address, err := metricsURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("the engine's metrics: %w", err)
	}
	p, err := newPage(address, o.Header, o.Timeout, o.TLS)
	if err != nil {
		return nil, fmt.Errorf("the engine's metrics: %w", err)
	}
	e := &Engine{page: p, filter: newFilter()}
	_, err = p.read(ctx, func(name string) bool {
		if e.kind == "" {
			for kind, names := range engineNames {
				if _, ok := names[name]; ok {
					e.kind = kind
				}
			}
		}
		return false
	}, nil)
	if e.kind == "" {
		_ = p.close()
		if err != nil && !errors.Is(err, errNotFound) {
			return nil, fmt.Errorf("%w: %w", ErrNoMetrics, err)
		}
		return nil, fmt.Errorf("%w: %s", ErrNoMetrics, address)
	}
	p.next = time.Time{} // the first Read may look at once
	return e, nil
}

// metricsURL is where an engine has its page.
func metricsURL(engine string) (string, error) {
	u, err := url.Parse(engine)
	if err != nil {
		return "", err
	}
	path := strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1")
	u.Path, u.RawPath, u.RawQuery, u.Fragment = path+"/metrics", "", "", ""
	return u.String(), nil
}

// Kind is the engine that the page is of: vllm, sglang, tgi, llama.cpp.
func (e *Engine) Kind() string { return e.kind }

// Name is "engine".
func (e *Engine) Name() string { return "engine" }

// Close ends the source.
func (e *Engine) Close() error { return e.page.close() }

// Read looks at the page, at most once a second.
func (e *Engine) Read(ctx context.Context, emit func(assay.Reading)) error {
	names := engineNames[e.kind]
	look := func(name string) (engineName, bool) {
		if n, ok := names[name]; ok {
			return n, true
		}
		n, ok := processNames[name]
		return n, ok
	}
	sum := map[string]float64{}
	var order []string
	_, err := e.page.read(ctx, func(name string) bool { _, ok := look(name); return ok }, func(s sample) {
		if otherRank(s) {
			return
		}
		n, _ := look(s.name)
		switch before, again := sum[n.reading]; {
		case !again:
			order, sum[n.reading] = append(order, n.reading), s.value
		case n.highest:
			sum[n.reading] = max(before, s.value)
		default:
			sum[n.reading] = before + s.value
		}
	})
	for _, name := range order {
		e.filter.emit(emit, name, "", sum[name])
	}
	return err
}
