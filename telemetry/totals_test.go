package telemetry

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

func totals(t *testing.T, page, model string) (map[string]float64, error) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(page)) }))
	t.Cleanup(srv.Close)
	e, err := NewTotals(t.Context(), EngineOptions{URL: srv.URL + "/v1", Model: model})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	if _, err := e.Read(t.Context()); err != nil {
		return nil, err
	}
	return e.Read(t.Context()) // at once: no second's wait between two looks
}

// Each engine's sums and counts have our names, as exactly as the page has them.
func TestTotalsOfEngines(t *testing.T) {
	tests := map[string]struct {
		page string
		want map[string]float64
	}{
		"vllm: engines are added up, other models left out, aborts apart": {
			`vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny"} 3.0
vllm:request_success_total{engine="1",finished_reason="length",model_name="tiny"} 4.0
vllm:request_success_total{engine="0",finished_reason="abort",model_name="tiny"} 2.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="other"} 90.0
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 47.0
vllm:generation_tokens_total{engine="0",model_name="tiny"} 14.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="tiny"} 3.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="tiny"} 0.28575992584228516
vllm:time_to_first_token_seconds_count{engine="0",model_name="tiny"} 3.0
vllm:request_decode_time_seconds_sum{engine="0",model_name="tiny"} 0.14242501499984428
vllm:request_decode_time_seconds_count{engine="0",model_name="tiny"} 3.0
process_start_time_seconds 1.79475355299e+09
`,
			map[string]float64{assay.TotalRequests: 7, assay.TotalAborted: 2, assay.TotalPromptTokens: 47, assay.TotalOutputTokens: 14,
				"ttft_seconds": 0.28575992584228516, "ttft_count": 3, "after_first_seconds": 0.14242501499984428, "after_first_count": 3,
				assay.TotalStarted: 1.79475355299e+09}},
		"sglang: one rank speaks for all, and the gaps' sum only": {
			`sglang:num_requests_total{model_name="tiny"} 5
sglang:generation_tokens_total{model_name="tiny",tp_rank="0"} 100
sglang:generation_tokens_total{model_name="tiny",tp_rank="1"} 100
sglang:inter_token_latency_seconds_sum{model_name="tiny"} 2.5
sglang:inter_token_latency_seconds_count{model_name="tiny"} 95
sglang:e2e_request_latency_seconds_sum{model_name="tiny"} 3.5
sglang:e2e_request_latency_seconds_count{model_name="tiny"} 5
`,
			map[string]float64{assay.TotalRequests: 5, assay.TotalOutputTokens: 100, "after_first_seconds": 2.5, "e2e_seconds": 3.5, "e2e_count": 5}},
		"tgi": {
			`tgi_queue_size 0
tgi_request_success 9
tgi_request_duration_sum 4.5
tgi_request_duration_count 9
tgi_request_mean_time_per_token_duration_sum 0.09
tgi_request_mean_time_per_token_duration_count 9
`,
			map[string]float64{assay.TotalRequests: 9, "e2e_seconds": 4.5, "e2e_count": 9, "token_time_seconds": 0.09, "token_time_count": 9}},
		"llama.cpp: totals without a count of requests": {
			"llamacpp:prompt_tokens_total 7\nllamacpp:tokens_predicted_total 8\nllamacpp:tokens_predicted_seconds_total 0.027156\n",
			map[string]float64{assay.TotalPromptTokens: 7, assay.TotalOutputTokens: 8, "after_first_seconds": 0.027156}},
		"one model of another name is ours": {
			"vllm:generation_tokens_total{model_name=\"alias\"} 8\n", map[string]float64{assay.TotalOutputTokens: 8}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := totals(t, tt.page, "tiny")
			if err != nil || !maps.Equal(got, tt.want) {
				t.Errorf("%v, %v\nwant %v", got, err, tt.want)
			}
		})
	}
}

// A page that lies or belongs to others gives an error, never a figure.
func TestTotalsRefuse(t *testing.T) {
	many := &strings.Builder{}
	for i := range 2 * maxModels {
		many.WriteString("vllm:generation_tokens_total{model_name=\"m" + strings.Repeat("x", i) + "\"} 1\n")
	}
	for name, tt := range map[string]struct{ page, want string }{
		"others' models":   {"vllm:generation_tokens_total{model_name=\"a\"} 1\nvllm:generation_tokens_total{model_name=\"b\"} 1\n", "speaks of the models a, b, and not of tiny"},
		"not a number":     {"vllm:generation_tokens_total{model_name=\"tiny\"} NaN\n", "is NaN"},
		"negative":         {"vllm:generation_tokens_total{model_name=\"tiny\"} -1\n", "is -1"},
		"not well formed":  {"vllm:num_requests_running 1\nvllm:generation_tokens_total{model_name=\"tiny} 1\n", "could not be read"},
		"nothing counted":  {"vllm:num_requests_running{model_name=\"tiny\"} 1\n", ErrNoMetrics.Error()},
		"an unknown page":  {"go_goroutines 4\n", ErrNoMetrics.Error()},
		"too many models":  {many.String(), "more than 256 models"},
		"longer than 8 MB": {"vllm:num_requests_running 1\n" + strings.Repeat("# "+strings.Repeat("x", 1<<10)+"\n", 9<<10), "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := totals(t, tt.page, "tiny"); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, %v; want an error with %q", got, err, tt.want)
			}
		})
	}
}

// An engine whose page hangs is not waited for.
func TestTotalsHaveADeadline(t *testing.T) {
	block := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-block:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(srv.Close)
	defer close(block)
	start := time.Now()
	_, err := NewTotals(t.Context(), EngineOptions{URL: srv.URL, Timeout: 50 * time.Millisecond})
	if !errors.Is(err, ErrNoMetrics) || time.Since(start) > 5*time.Second {
		t.Errorf("%v after %s", err, time.Since(start))
	}
}
