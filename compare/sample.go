// Package compare says which of several engines is faster, and whether the
// difference is more than noise. It reads runs, and starts nothing: package
// experiment does.
package compare

import (
	"encoding/json"

	"github.com/assay-bench/assay"
)

// ExperimentFormat names the format of experiment.json that this version writes.
const ExperimentFormat = "assay/experiment/v1"

// Sample is one run of one engine on one workload in one round: the unit of
// every comparison. Requests within a run depend on each other, runs do not.
type Sample struct {
	Engine   string `json:"engine"`
	Workload string `json:"workload"`
	Round    int    `json:"round"` // from 1; 0 is the pilot, which is kept and not judged
	Order    int    `json:"order"` // place within the round, from 1
	Started  int64  `json:"started_ns"`
	Ended    int64  `json:"ended_ns"`
	// Dir is the run directory, from the experiment's.
	Dir string `json:"dir,omitempty"`
	// Failed says why there are no figures; empty: there are.
	Failed string `json:"failed,omitempty"`
	// Metrics by name; one that is not available is not there. See Metrics.
	Metrics  map[string]float64 `json:"metrics"`
	Requests int                `json:"requests"` // judged
	OK       int                `json:"ok"`
	// OutputTokens and InputTokens are means a request, to see whether engines
	// did the same work.
	OutputTokens float64           `json:"output_tokens_mean"`
	InputTokens  float64           `json:"input_tokens_mean"`
	Client       assay.Certificate `json:"client"`
	// RatesOf is "whole" for a run without a steady window: its throughput then
	// has filling and draining in it. Whole are the rates of the whole of each
	// run, by which a workload is compared when one of its runs has no others.
	RatesOf string             `json:"rates_of,omitempty"`
	Whole   map[string]float64 `json:"whole_metrics,omitempty"`
	// Latencies are E2E of each judged request that succeeded, in ms, in the
	// order sent: for within-run intervals and the count of measurements.
	Latencies []float64 `json:"latencies_ms,omitempty"`
	// Needed is, for each percentile that rests on too few requests to be told,
	// about how many the run would need. Such a figure decides no gate.
	Needed map[string]int `json:"requests_needed,omitempty"`
	// Texts are SHA-256 of the answers by test case, at temperature 0 only.
	Texts []string `json:"text_sha256,omitempty"`
	// Cases is the number of different test cases in the workload; 0 says that
	// it is not known, and counts as one.
	Cases int `json:"cases,omitempty"`
	// Within are intervals of metrics from this run alone. They say how well the
	// run knows its own figure, and decide nothing between engines.
	Within map[string]assay.Quantity `json:"within_run,omitempty"`
	// Series are figures over the time of this run, for charts: see SeriesMemory and
	// SeriesGPUMemory. One that was not read is not there.
	Series map[string]Series `json:"series,omitempty"`
	// Counters are what the processors and the kernel counted in the engine's
	// processes during the run; see CounterNames. One that they do not give is not there.
	Counters map[string]float64 `json:"counters,omitempty"`
}

// Metric is one figure of a sample that engines are compared by.
type Metric struct {
	Name   string          `json:"name"`
	Unit   string          `json:"unit"`
	Better assay.Direction `json:"-"`
	// SameWork: only comparable when output lengths agree.
	SameWork bool   `json:"same_work,omitempty"`
	Help     string `json:"-"`
}

// Metrics are those that engines are compared by, in the order of tables. Unit
// and direction are those of the root's table.
func Metrics() []Metric {
	out := []Metric{
		{Name: "ttft_ms_p50", Help: "median time to first token"},
		{Name: "ttft_ms_p99", Help: "99th percentile of it"},
		{Name: "tpot_ms_p50", Help: "median time per output token after the first"},
		{Name: "e2e_ms_mean", SameWork: true, Help: "mean time of a whole answer; what summary.json calls latency"},
		{Name: "e2e_ms_p50", SameWork: true, Help: "its median"},
		{Name: "e2e_ms_p99", SameWork: true, Help: "its 99th percentile"},
		{Name: "output_tokens_per_second", SameWork: true, Help: "output tokens a second in the steady window, or of the whole runs where one has no window; what summary.json calls throughput"},
		{Name: "requests_per_second", SameWork: true, Help: "requests a second"},
		{Name: "error_rate", Help: "share of requests that the engine failed"},
		{Name: "gpu_utilization_mean", Help: "mean utilization of the GPUs; a duty cycle"},
		{Name: "gpu_memory_peak_bytes", Help: "highest memory in use on one GPU"},
		{Name: "memory_peak_bytes", Help: "highest resident memory of the engine's processes"},
		{Name: "tokens_per_joule", SameWork: true, Help: "output tokens a joule of the GPUs"},
	}
	for i := range out {
		m, _ := assay.MetricOf(out[i].Name) // that each is there is tested
		out[i].Unit, out[i].Better = m.Unit, m.Better
	}
	return out
}

// Engine is one of the things compared, as it was when it ran.
type Engine struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // serve, url, binary, runs
	// Lock is what identifies it: versions, hashes, flags, model. --locked
	// refuses an engine that differs.
	Lock map[string]string `json:"lock"`
	// Packages are those of its Python, as name==version; none: it has none, or they
	// could not be listed. The lock has their hash.
	Packages []string `json:"python_packages,omitempty"`
	// Isolation says in words how its processes were kept apart.
	Isolation string `json:"isolation,omitempty"`
	// Failed is why it was dropped; LogTail the end of its log then.
	Failed  string `json:"failed,omitempty"`
	LogTail string `json:"log_tail,omitempty"`
}

// Plan is what the experiment set out to do, fixed before its first judged run.
type Plan struct {
	Seed    uint64  `json:"seed"`
	Primary string  `json:"primary_metric"`
	Effect  float64 `json:"effect"` // smallest difference worth finding, as a share: 0.05
	Level   float64 `json:"level"`  // of the whole family of tests
	Power   float64 `json:"power"`
	Rounds  int     `json:"rounds"`        // as computed, or as asked
	Needed  int     `json:"rounds_needed"` // what the pilot's variance asks for; more than Rounds when time did not allow
	PilotSD float64 `json:"pilot_sd_log_ratio"`
	Tests   int     `json:"tests"`  // in the family: pairs × metrics that decide × workloads
	Test    string  `json:"test"`   // signed_rank, mann_whitney_u
	Adjust  string  `json:"adjust"` // holm, bonferroni
	Looks   int     `json:"looks"`  // planned looks at the verdict; 1: only at the end
	Why     string  `json:"why,omitempty"`
}

// Experiment is experiment.json together with its samples (raw_data): all that
// the analysis reads.
type Experiment struct {
	Format  string        `json:"format"`
	ID      string        `json:"id"`
	Name    string        `json:"name"`
	Created int64         `json:"created_ns"`
	Ended   int64         `json:"ended_ns"`
	Version assay.Version `json:"version"`
	// Command is the command line that began it; empty: not known.
	Command []string   `json:"command,omitempty"`
	Node    assay.Node `json:"node"`
	// ConfigSHA256 is of the resolved configuration, which is kept beside.
	ConfigSHA256 string          `json:"config_sha256"`
	Config       json.RawMessage `json:"config"`  // whoever ran it knows its form
	Engines      []Engine        `json:"engines"` // in the order of the file; the first is the baseline
	Workloads    []string        `json:"workloads"`
	// Loads say how workloads load an engine, for charts over it. A workload that is
	// not among them is of an experiment of before them.
	Loads    []Load      `json:"loads,omitempty"`
	Plan     Plan        `json:"plan"`
	Analysis AnalysisAsk `json:"analysis"`
	// Status is complete, or partial: interrupted, or stopped by its time budget.
	Status assay.Status `json:"status"`
	Notes  []string     `json:"notes"`
	// Paired: every engine ran once in each round, so that rounds are blocks.
	Paired bool `json:"paired"`

	Samples []Sample `json:"-"`
}

// AnalysisAsk is what the configuration asks of the analysis.
type AnalysisAsk struct {
	Confidence     float64 `json:"confidence_level"`
	RemoveOutliers bool    `json:"remove_outliers"` // adds a trimmed column; drops nothing
	Threshold      float64 `json:"outlier_threshold"`
	Test           string  `json:"significance_test"`
	Plots          bool    `json:"generate_plots"`
	Raw            bool    `json:"export_raw_data"`
	// Prices of an hour of the node for each engine or all ("" key), for advice.
	Prices map[string]assay.Money `json:"prices,omitempty"`
	SLO    []assay.Objective      `json:"slo,omitempty"`
}
