package telemetry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/assay-bench/assay"
)

// maxModels bounds the models that one page may speak of.
const maxModels = 256

// engineTotals says, for each engine that is known, which of its names are
// which total. Several names of one engine may be of different versions: a page
// has one of them.
var engineTotals = map[string]map[string]string{
	"vllm": with(map[string]string{
		"vllm:request_success_total":   assay.TotalRequests,
		"vllm:prompt_tokens_total":     assay.TotalPromptTokens,
		"vllm:generation_tokens_total": assay.TotalOutputTokens,
	}, map[string]string{
		"vllm:time_to_first_token_seconds":           assay.TotalTTFT,
		"vllm:e2e_request_latency_seconds":           assay.TotalE2E,
		"vllm:request_decode_time_seconds":           assay.TotalAfterFirst,
		"vllm:inter_token_latency_seconds":           assay.TotalStep,
		"vllm:request_time_per_output_token_seconds": assay.TotalTPOT,
		"vllm:request_queue_time_seconds":            assay.TotalQueue,
	}),
	// SGLang counts a gap once for each of its tokens and shares it out among
	// them, so only the sum is a time between the first token and the last.
	"sglang": with(map[string]string{
		"sglang:num_requests_total":              assay.TotalRequests,
		"sglang:num_aborted_requests_total":      assay.TotalAborted,
		"sglang:prompt_tokens_total":             assay.TotalPromptTokens,
		"sglang:generation_tokens_total":         assay.TotalOutputTokens,
		"sglang:inter_token_latency_seconds_sum": assay.TotalAfterFirst + "_seconds",
	}, map[string]string{
		"sglang:time_to_first_token_seconds": assay.TotalTTFT,
		"sglang:e2e_request_latency_seconds": assay.TotalE2E,
	}),
	"tgi": with(map[string]string{
		"tgi_request_success":              assay.TotalRequests,
		"tgi_request_input_length_sum":     assay.TotalPromptTokens,
		"tgi_request_generated_tokens_sum": assay.TotalOutputTokens,
	}, map[string]string{
		"tgi_request_duration":                     assay.TotalE2E,
		"tgi_request_mean_time_per_token_duration": assay.TotalTokenTime,
		"tgi_request_queue_duration":               assay.TotalQueue,
	}),
	"llama.cpp": {
		"llamacpp:prompt_tokens_total":            assay.TotalPromptTokens,
		"llamacpp:tokens_predicted_total":         assay.TotalOutputTokens,
		"llamacpp:tokens_predicted_seconds_total": assay.TotalAfterFirst + "_seconds",
	},
}

// with adds the sum and the count of histograms to a list of counters.
func with(counters, histograms map[string]string) map[string]string {
	for name, total := range histograms {
		counters[name+"_sum"], counters[name+"_count"] = total+"_seconds", total+"_count"
	}
	return counters
}

// Totals reads what an engine has counted since it was started, from its
// /metrics page: sums and counts as the engine gives them, for the one who takes
// the difference of two readings. It looks whenever it is asked to.
type Totals struct {
	page  *page
	kind  string
	model string
}

// NewTotals looks at the page once to see which engine it is. One without a
// page, or without names that are known here, is [ErrNoMetrics].
func NewTotals(ctx context.Context, o EngineOptions) (*Totals, error) {
	e, err := NewEngine(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Totals{page: e.page, kind: e.kind, model: o.Model}, nil
}

// Kind is the engine that the page is of: vllm, sglang, tgi, llama.cpp.
func (t *Totals) Kind() string { return t.kind }

// Close ends the source.
func (t *Totals) Close() error { return t.page.close() }

// Read gives the totals of the model that was asked for, by the names that
// package assay has for them. Series of several engines, replicas or ways to end
// are added up. A page that speaks of one model only is taken to speak of ours,
// which may have a second name.
func (t *Totals) Read(ctx context.Context) (map[string]float64, error) {
	names := engineTotals[t.kind]
	models := map[string]map[string]float64{}
	var bad error
	t.page.next = time.Time{}
	_, err := t.page.read(ctx, func(name string) bool {
		_, ok := names[name]
		return ok || name == "process_start_time_seconds"
	}, func(s sample) {
		if otherRank(s) {
			return
		}
		if math.IsNaN(s.value) || math.IsInf(s.value, 0) || s.value < 0 {
			bad = fmt.Errorf("%s is %g", s.name, s.value)
			return
		}
		model := s.label("model_name")
		of := models[model]
		if of == nil {
			if len(models) >= maxModels {
				bad = fmt.Errorf("the page speaks of more than %d models", maxModels)
				return
			}
			of = map[string]float64{}
			models[model] = of
		}
		if s.name == "process_start_time_seconds" {
			of[assay.TotalStarted] = max(of[assay.TotalStarted], s.value)
			return
		}
		of[totalOf(names[s.name], s)] += s.value
	})
	if err := errors.Join(err, bad); err != nil {
		return nil, fmt.Errorf("the engine's totals: %w", err)
	}
	return t.ours(models)
}

// totalOf sends requests that did not end in an answer to a count of their own.
func totalOf(total string, s sample) string {
	if reason := s.label("finished_reason"); total == assay.TotalRequests && (reason == "abort" || reason == "error") {
		return assay.TotalAborted
	}
	return total
}

// ours chooses our model's totals; what has no model belongs to all.
func (t *Totals) ours(models map[string]map[string]float64) (map[string]float64, error) {
	all := models[""]
	delete(models, "")
	of := models[t.model]
	if of == nil && len(models) == 1 {
		for _, only := range models {
			of = only
		}
	}
	if of == nil && len(models) > 0 {
		var names []string
		for name := range models {
			names = append(names, word(name))
		}
		slices.Sort(names)
		return nil, fmt.Errorf("the engine's totals: the page speaks of the models %s, and not of %s", strings.Join(names[:min(len(names), 8)], ", "), word(t.model))
	}
	out := map[string]float64{}
	for _, m := range []map[string]float64{all, of} {
		for k, v := range m {
			out[k] = v
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the engine's totals: %w", ErrNoMetrics)
	}
	return out, nil
}

// otherRank reports whether a series repeats what another one says: ranks of
// one replica all say the same, and the first speaks for them.
func otherRank(s sample) bool {
	for _, rank := range []string{"tp_rank", "pp_rank"} {
		if r := s.label(rank); r != "" && r != "0" {
			return true
		}
	}
	return false
}
