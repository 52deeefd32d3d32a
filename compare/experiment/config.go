package experiment

import (
	"fmt"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/compare"
)

// Config is an experiment as it was asked for. Resolved (see [ReadConfig]), it is
// what runs, what is hashed and what experiment.json keeps.
//
// Everything in it is kept with the result, so secrets do not belong here: name
// the environment variable that holds one (pass_env, api_key_env).
type Config struct {
	Benchmark  BenchmarkConfig  `yaml:"benchmark" json:"benchmark"`
	Engines    []EngineConfig   `yaml:"engines" json:"engines"`
	Workloads  []WorkloadConfig `yaml:"workloads" json:"workloads"`
	Analysis   AnalysisConfig   `yaml:"analysis" json:"analysis"`
	System     SystemConfig     `yaml:"system" json:"system"`
	Monitoring MonitoringConfig `yaml:"monitoring" json:"monitoring"`
	Experiment PlanConfig       `yaml:"experiment" json:"experiment"`
}

// BenchmarkConfig names the experiment.
type BenchmarkConfig struct {
	Name string `yaml:"name" json:"name"`
	// OutputDir is where results go, unless the command line says otherwise.
	OutputDir string `yaml:"output_dir" json:"output_dir,omitempty"`
	// ModelPath is a file or directory, hashed into each local engine's lock and
	// put in the place of {model_path} in commands.
	ModelPath string `yaml:"model_path" json:"model_path,omitempty"`
}

// EngineConfig is one engine: exactly one of Serve, URL and BinaryPath.
type EngineConfig struct {
	Name    string `yaml:"name" json:"name"`
	Enabled *bool  `yaml:"enabled" json:"enabled"` // nil: true

	// BinaryPath is a benchmark binary (docs/formats/benchmark-binary.md).
	BinaryPath string   `yaml:"binary_path" json:"binary_path,omitempty"`
	Args       []string `yaml:"args" json:"args,omitempty"`
	// URL is an engine that already runs, and is left alone.
	URL string `yaml:"url" json:"url,omitempty"`
	// Serve starts an engine.
	Serve *ServeConfig `yaml:"serve" json:"serve,omitempty"`

	// Model is the name sent to the engine; empty: the first that it serves.
	Model   string `yaml:"model" json:"model,omitempty"`
	Backend string `yaml:"backend" json:"backend,omitempty"` // empty: as it answers
	// ModelPath is the engine's own, above the benchmark's.
	ModelPath string `yaml:"model_path" json:"model_path,omitempty"`
	// Env is added to the environment of the engine's processes, PassEnv names
	// variables of ours that they get too. The rest of ours stays out, but for
	// PATH and HOME.
	Env     map[string]string `yaml:"env" json:"env,omitempty"`
	PassEnv []string          `yaml:"pass_env" json:"pass_env,omitempty"`
	// APIKeyEnv names the variable that holds the engine's API key.
	APIKeyEnv string `yaml:"api_key_env" json:"api_key_env,omitempty"`
	// Extra is merged into every request's body, such as Ollama's options.
	Extra map[string]any `yaml:"extra_body" json:"extra_body,omitempty"`
}

// ServeConfig is a command that starts an HTTP engine.
type ServeConfig struct {
	// Command and its arguments; {port}, {model} and {model_path} are filled in,
	// as in values of Env.
	Command []string `yaml:"command" json:"command"`
	Dir     string   `yaml:"dir" json:"dir,omitempty"`   // empty: ours
	Port    int      `yaml:"port" json:"port,omitempty"` // 0: a free one
	// Health is the path that answers 200 when the engine is ready; empty: ready
	// when it lists its models.
	Health string `yaml:"health" json:"health,omitempty"`
	// ReadyTimeout bounds the start; 0: 5 minutes.
	ReadyTimeout assay.Duration `yaml:"ready_timeout" json:"ready_timeout"`
	// Grace is the time that it has to end after SIGTERM; 0: 10 s.
	Grace assay.Duration `yaml:"grace" json:"grace"`
	// Env, PassEnv, Model as of the engine; here because they belong to it.
	Env     map[string]string `yaml:"env" json:"env,omitempty"`
	PassEnv []string          `yaml:"pass_env" json:"pass_env,omitempty"`
	Model   string            `yaml:"model" json:"model,omitempty"`
}

// TestCase is one prompt.
type TestCase struct {
	Prompt      string   `yaml:"prompt" json:"prompt"`
	MaxTokens   int      `yaml:"max_tokens" json:"max_tokens"`
	Temperature *float64 `yaml:"temperature" json:"temperature,omitempty"`
}

// WorkloadConfig is one load, the same for every engine.
type WorkloadConfig struct {
	Name        string     `yaml:"name" json:"name"`
	Description string     `yaml:"description" json:"description,omitempty"`
	TestCases   []TestCase `yaml:"test_cases" json:"test_cases,omitempty"`
	// Iterations of each test case, after WarmupIterations of each.
	Iterations       int `yaml:"iterations" json:"iterations"`
	WarmupIterations int `yaml:"warmup_iterations" json:"warmup_iterations"`

	// InputLen and OutputLen ask for random prompts of that many tokens in the
	// place of test cases.
	InputLen  int `yaml:"input_len" json:"input_len,omitempty"`
	OutputLen int `yaml:"output_len" json:"output_len,omitempty"`
	// Concurrency is the number of requests under way; 0: 1, and no cap with a
	// RequestRate.
	Concurrency int `yaml:"concurrency" json:"concurrency"`
	// RequestRate is arrivals a second (Poisson); 0: the next request goes out
	// when one has ended.
	RequestRate float64 `yaml:"request_rate" json:"request_rate,omitempty"`
	// IgnoreEOS has engines go on until max_tokens, so that all do the same work;
	// nil: true.
	IgnoreEOS *bool `yaml:"ignore_eos" json:"ignore_eos"`
	// Connection is keep (also when empty) or fresh: a new one for each request,
	// for engines that close theirs without notice.
	Connection string `yaml:"connection" json:"connection"`
	// Timeout bounds one run of it; 0: 30 minutes.
	Timeout assay.Duration `yaml:"timeout" json:"timeout"`
}

// AnalysisConfig is what the analysis is asked for; [compare.AnalysisKeys] has what
// each member means, and the defaults.
type AnalysisConfig struct {
	ConfidenceLevel  float64 `yaml:"confidence_level" json:"confidence_level"`
	RemoveOutliers   bool    `yaml:"remove_outliers" json:"remove_outliers"`
	OutlierThreshold float64 `yaml:"outlier_threshold" json:"outlier_threshold"` // 0: not said
	SignificanceTest string  `yaml:"significance_test" json:"significance_test"`
	Adjust           string  `yaml:"adjust" json:"adjust"`
	GeneratePlots    *bool   `yaml:"generate_plots" json:"generate_plots"`
	ExportRawData    *bool   `yaml:"export_raw_data" json:"export_raw_data"`
	// Prices are of an hour of the node, as decimal text, by engine; "default" is
	// for all others.
	Prices   map[string]string `yaml:"price_per_hour" json:"price_per_hour,omitempty"`
	Currency string            `yaml:"currency" json:"currency,omitempty"`
	SLO      []string          `yaml:"slo" json:"slo,omitempty"` // such as ttft_p99<200ms
}

// SystemConfig is the machine's part.
type SystemConfig struct {
	// GPUDevice is what engines see as CUDA_VISIBLE_DEVICES; nil: all.
	GPUDevice *int `yaml:"gpu_device" json:"gpu_device,omitempty"`
	// MaxMemoryGB bounds the resident memory of an engine's whole tree, in 2^30
	// bytes; 0: no limit.
	MaxMemoryGB float64 `yaml:"max_memory_gb" json:"max_memory_gb,omitempty"`
	CPUAffinity []int   `yaml:"cpu_affinity" json:"cpu_affinity,omitempty"`
	// ThermalLimit pauses the experiment while a GPU is hotter; 0: none.
	ThermalLimit float64 `yaml:"thermal_limit_celsius" json:"thermal_limit_celsius,omitempty"`
	// CoolDownSeconds is the least time between engines (nil: 5; 0: there is no
	// cool-down). It goes on until GPUs are within CoolDownTolerance degrees (0: 5)
	// and the processors within CoolDownLoad (0: 0.1 of them) of the start's
	// level, but no longer than CoolDownTimeout (0: 2 minutes).
	CoolDownSeconds   *float64       `yaml:"cool_down_seconds" json:"cool_down_seconds"`
	CoolDownTolerance float64        `yaml:"cool_down_tolerance_celsius" json:"cool_down_tolerance_celsius"`
	CoolDownLoad      float64        `yaml:"cool_down_load" json:"cool_down_load"`
	CoolDownTimeout   assay.Duration `yaml:"cool_down_timeout" json:"cool_down_timeout"`
}

// MonitoringConfig is what is read meanwhile.
type MonitoringConfig struct {
	SampleIntervalMS int   `yaml:"sample_interval_ms" json:"sample_interval_ms"` // 0: 100
	GPUMetrics       *bool `yaml:"gpu_metrics" json:"gpu_metrics"`               // nil: true, as the others
	MemoryTracking   *bool `yaml:"memory_tracking" json:"memory_tracking"`
	PowerMonitoring  *bool `yaml:"power_monitoring" json:"power_monitoring"`
	// HardwareCounters has perf stat count in the engines' processes. Absent in
	// experiments of before it, whose hash must stay.
	HardwareCounters *bool `yaml:"hardware_counters" json:"hardware_counters,omitempty"`
}

// PlanConfig is how much is measured.
type PlanConfig struct {
	// Rounds is a fixed number; 0: as many as the pilot asks for, at least 10.
	Rounds    int `yaml:"rounds" json:"rounds,omitempty"`
	MaxRounds int `yaml:"max_rounds" json:"max_rounds"` // 0: 100
	// Pilot is the number of passes before the first judged round; nil: 3. With
	// none, Rounds must be given.
	Pilot *int `yaml:"pilot" json:"pilot"`
	// TimeBudget bounds the whole; 0: none.
	TimeBudget    assay.Duration `yaml:"time_budget" json:"time_budget,omitempty"`
	Effect        float64        `yaml:"effect" json:"effect"` // 0: 0.05
	Level         float64        `yaml:"level" json:"level"`   // 0: 1 − confidence_level
	Power         float64        `yaml:"power" json:"power"`   // 0: 0.9
	PrimaryMetric string         `yaml:"primary_metric" json:"primary_metric"`
	Seed          uint64         `yaml:"seed" json:"seed"` // 0: 1
	// Looks is how often the verdict is looked at, evenly spaced, to stop early;
	// 0: 1, only at the end.
	Looks int `yaml:"looks" json:"looks"`
}

// On reports whether the engine takes part.
func (e EngineConfig) On() bool { return e.Enabled == nil || *e.Enabled }

// kind is which of the three it is.
func (e EngineConfig) kind() string {
	switch {
	case e.Serve != nil:
		return "serve"
	case e.URL != "":
		return "url"
	}
	return "binary"
}

// model is the name that the engine is asked for.
func (e EngineConfig) model() string {
	if e.Model == "" && e.Serve != nil {
		return e.Serve.Model
	}
	return e.Model
}

// cases is the number of test cases; random data counts as one.
func (w WorkloadConfig) cases() int { return max(1, len(w.TestCases)) }

func (w WorkloadConfig) requests() int { return w.Iterations * w.cases() }
func (w WorkloadConfig) warmups() int  { return w.WarmupIterations * w.cases() }

// temperature is that of all test cases; nil: not said.
func (w WorkloadConfig) temperature() *float64 {
	if len(w.TestCases) == 0 {
		return nil
	}
	return w.TestCases[0].Temperature
}

// exact reports whether answers can be compared with each other.
func (w WorkloadConfig) exact() bool {
	t := w.temperature()
	return t != nil && *t == 0
}

// load says how the workload loads an engine. How often it is repeated is no part
// of the work.
func (w WorkloadConfig) load() compare.Load {
	l := compare.Load{Workload: w.Name}
	if w.RequestRate == 0 {
		l.Concurrency = w.Concurrency
	}
	w.Name, w.Description, w.Iterations, w.WarmupIterations, w.Concurrency, w.Timeout = "", "", 0, 0, 0, 0
	l.Work = compare.WorkOf(w)
	return l
}

// notes are remarks on what the configuration asks for and does not get.
func (c Config) notes() []string {
	out := []string{}
	if t := c.Analysis.OutlierThreshold; t > 0 {
		out = append(out, fmt.Sprintf("outlier_threshold: %g removes nothing: runs outside Tukey's fences are marked, and remove_outliers adds a trimmed mean beside the mean of all (docs/adr/010-outliers-are-marked.md)", t))
	}
	return out
}
