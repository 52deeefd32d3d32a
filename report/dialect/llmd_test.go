package dialect

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

func llmdStage() assay.StageSummary {
	of := func(mean float64) assay.Dist {
		return assay.Dist{N: 100, Mean: mean, Stddev: 1, Min: mean - 2, Max: mean + 2, Percentiles: []assay.Percentile{
			{Level: 50, Value: mean, Lo: mean - 1, Hi: mean + 1}, {Level: 99, Value: mean + 2, Lo: math.NaN(), Hi: math.NaN()},
		}}
	}
	return assay.StageSummary{
		Name: "c4", Plan: assay.Stage{Name: "c4", Kind: assay.LoadClosed, Concurrency: 4}, Started: 10e9, Ended: 12.5e9,
		Requests: 110, OK: 100, Failed: 5, NeverSent: 2, Censored: 3,
		TTFT: of(50), TPOT: of(10), ITL: of(10), E2E: of(200), InputTokens: of(64), OutputTokens: assay.Dist{N: 100, Mean: 16, Min: 16, Max: 16},
		RequestsPerSecond: 40, OutputTokensPerSecond: 640, TotalTokensPerSecond: 3200,
	}
}

func TestLLMDReport(t *testing.T) {
	m := assay.Manifest{ID: "run", Version: assay.Version{Assay: "9.9"}, Config: json.RawMessage(`{"data":{"kind":"random"}}`)}
	r, err := LLMD(m, llmdStage(), 1)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"version":"0.2"`, `"uid":"run-1","eid":"run"`, `"duration":"PT2.500S"`, `"tool":"assay","tool_version":"9.9","source":"random","stage":1`, `"concurrency":4`,
		`"output_seq_len":{"distribution":"fixed","value":16,"min":16,"max":16}`, `"total":108,"failures":5,"incomplete":3`,
		`"time_to_first_token":{"units":"ms","mean":50,"stddev":1,"min":48,"p50":50,"max":52}`, `"request_rate":{"units":"queries/s","mean":40}`,
		`"time_per_output_token":{"units":"ms/token"`,
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("it lacks %s:\n%s", want, b)
		}
	}
	if strings.Contains(string(b), `"p99":`) {
		t.Error("a percentile that the samples do not carry is written")
	}
	if _, err := LLMD(assay.Manifest{Config: json.RawMessage(`{"data":7}`)}, llmdStage(), 0); err == nil {
		t.Error("a configuration that is none passes")
	}
	if r, err := LLMD(assay.Manifest{}, assay.StageSummary{}, 0); err != nil || r.Results.Performance.Aggregate.Latency.TTFT != nil {
		t.Errorf("of nothing: %+v, %v", r, err)
	}
}
