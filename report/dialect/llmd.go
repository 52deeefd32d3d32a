package dialect

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/assay-bench/assay"
)

// LLMDVersion is the version of llm-d's benchmark report that is written.
const LLMDVersion = "0.2"

// LLMDReport is llm-d's benchmark report of one stage. The format gives names and
// units, and leaves it to the tool what its figures mean: they are ours, and the
// tool that it names is this one. What it does not have is left out.
type LLMDReport struct {
	Version  string       `json:"version"`
	Run      llmdRun      `json:"run"`
	Scenario llmdScenario `json:"scenario"`
	Results  llmdResults  `json:"results"`
}

type llmdRun struct {
	UID  string   `json:"uid"` // of this report
	EID  string   `json:"eid"` // of the run that it is of
	Time llmdTime `json:"time"`
}

type llmdTime struct {
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"`
	Duration string    `json:"duration"` // ISO 8601
}

type llmdScenario struct {
	Load llmdLoad `json:"load"`
}

type llmdLoad struct {
	Metadata struct {
		SchemaVersion string `json:"schema_version"`
		ConfigID      string `json:"cfg_id"`
	} `json:"metadata"`
	Standardized llmdStandardized `json:"standardized"`
	Native       struct {
		Config json.RawMessage `json:"config,omitempty"`
	} `json:"native"`
}

type llmdStandardized struct {
	Tool        string      `json:"tool"`
	ToolVersion string      `json:"tool_version"`
	Source      string      `json:"source"` // random, sampled, unknown
	Stage       int         `json:"stage"`
	Input       llmdLength  `json:"input_seq_len"`
	Output      *llmdLength `json:"output_seq_len,omitempty"`
	Rate        float64     `json:"rate_qps,omitempty"`
	Concurrency int         `json:"concurrency,omitempty"`
}

type llmdLength struct {
	Distribution string  `json:"distribution"`
	Value        float64 `json:"value"`
	Min          *int    `json:"min,omitempty"`
	Max          *int    `json:"max,omitempty"`
}

type llmdResults struct {
	Performance struct {
		Aggregate llmdAggregate `json:"aggregate"`
	} `json:"request_performance"`
}

type llmdAggregate struct {
	Requests struct {
		Total      int             `json:"total"`
		Failures   int             `json:"failures"`
		Incomplete int             `json:"incomplete"`
		Input      *llmdStatistics `json:"input_length,omitempty"`
		Output     *llmdStatistics `json:"output_length,omitempty"`
	} `json:"requests"`
	Latency struct {
		TTFT *llmdStatistics `json:"time_to_first_token,omitempty"`
		TPOT *llmdStatistics `json:"time_per_output_token,omitempty"`
		ITL  *llmdStatistics `json:"inter_token_latency,omitempty"`
		E2E  *llmdStatistics `json:"request_latency,omitempty"`
	} `json:"latency"`
	Throughput struct {
		Output   *llmdStatistics `json:"output_token_rate,omitempty"`
		Total    *llmdStatistics `json:"total_token_rate,omitempty"`
		Requests *llmdStatistics `json:"request_rate,omitempty"`
	} `json:"throughput"`
}

type llmdStatistics struct {
	Units  string   `json:"units"`
	Mean   float64  `json:"mean"`
	Stddev *float64 `json:"stddev,omitempty"`
	Min    *float64 `json:"min,omitempty"`
	P50    *float64 `json:"p50,omitempty"`
	P90    *float64 `json:"p90,omitempty"`
	P95    *float64 `json:"p95,omitempty"`
	P99    *float64 `json:"p99,omitempty"`
	P99p9  *float64 `json:"p99p9,omitempty"`
	Max    *float64 `json:"max,omitempty"`
}

// llmdOf is a distribution of ours; nil of nothing. A percentile that the samples
// do not carry is left out: the format has no mark for it.
func llmdOf(d assay.Dist, units string) *llmdStatistics {
	if d.N == 0 {
		return nil
	}
	s := &llmdStatistics{Units: units, Mean: d.Mean, Min: &d.Min, Max: &d.Max}
	if d.N > 1 {
		s.Stddev = &d.Stddev
	}
	for level, to := range map[float64]**float64{50: &s.P50, 90: &s.P90, 95: &s.P95, 99: &s.P99, 99.9: &s.P99p9} {
		if p, ok := d.P(level); ok && p.Held() {
			*to = &p.Value
		}
	}
	return s
}

// llmdRate is a rate; nil where there is none.
func llmdRate(v float64, units string) *llmdStatistics {
	if v <= 0 {
		return nil
	}
	return &llmdStatistics{Units: units, Mean: v}
}

// LLMD makes the report of stage number n of a run, from 0.
func LLMD(m assay.Manifest, stage assay.StageSummary, n int) (LLMDReport, error) {
	var config struct {
		Data struct {
			Kind string `json:"kind"`
		} `json:"data"`
	}
	if len(m.Config) > 0 {
		if err := json.Unmarshal(m.Config, &config); err != nil {
			return LLMDReport{}, fmt.Errorf("make llm-d's report: read the run's configuration: %w", err)
		}
	}
	out := LLMDReport{Version: LLMDVersion}
	out.Run = llmdRun{UID: m.ID + "-" + strconv.Itoa(n), EID: m.ID, Time: llmdTime{
		Start: time.Unix(0, stage.Started).UTC(), End: time.Unix(0, stage.Ended).UTC(),
		Duration: fmt.Sprintf("PT%.3fS", float64(max(0, stage.Ended-stage.Started))/1e9),
	}}
	load := &out.Scenario.Load
	hash := sha256.Sum256(m.Config)
	load.Metadata.SchemaVersion, load.Metadata.ConfigID = "0.0.1", hex.EncodeToString(hash[:])
	load.Native.Config = m.Config
	load.Standardized = llmdStandardized{
		Tool: "assay", ToolVersion: m.Version.Assay, Source: "unknown", Stage: n,
		Input: llmdLengthOf(stage.InputTokens), Rate: stage.Plan.Rate, Concurrency: max(stage.Plan.Concurrency, stage.Plan.Batch),
	}
	switch config.Data.Kind {
	case "random":
		load.Standardized.Source = "random"
	case "sharegpt", "custom":
		load.Standardized.Source = "sampled"
	}
	if stage.OutputTokens.N > 0 {
		l := llmdLengthOf(stage.OutputTokens)
		load.Standardized.Output = &l
	}
	a := &out.Results.Performance.Aggregate
	a.Requests.Total, a.Requests.Failures, a.Requests.Incomplete = stage.Requests-stage.NeverSent, stage.Failed, max(0, stage.Requests-stage.NeverSent-stage.OK-stage.Failed)
	a.Requests.Input, a.Requests.Output = llmdOf(stage.InputTokens, "count"), llmdOf(stage.OutputTokens, "count")
	a.Latency.TTFT, a.Latency.E2E = llmdOf(stage.TTFT, "ms"), llmdOf(stage.E2E, "ms")
	a.Latency.TPOT, a.Latency.ITL = llmdOf(stage.TPOT, "ms/token"), llmdOf(stage.ITL, "ms/token")
	a.Throughput.Requests = llmdRate(stage.RequestsPerSecond, "queries/s")
	a.Throughput.Output, a.Throughput.Total = llmdRate(stage.OutputTokensPerSecond, "tokens/s"), llmdRate(stage.TotalTokensPerSecond, "tokens/s")
	return out, nil
}

// llmdLengthOf is what lengths really were, whatever was asked for.
func llmdLengthOf(d assay.Dist) llmdLength {
	lo, hi := int(d.Min), int(d.Max)
	l := llmdLength{Distribution: "other", Value: d.Mean}
	if d.N == 0 || hi < 1 { // it wants a largest of at least one
		return l
	}
	l.Min, l.Max = &lo, &hi
	if lo == hi {
		l.Distribution = "fixed"
	}
	return l
}
