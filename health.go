package assay

// HealthFormat names the format of health.json that this version writes.
const HealthFormat = "assay/health/v1"

// Health is health.json: what a run says of the node. The keys node_id,
// timestamp, hardware_info, health_score, performance_metrics, cost_analysis
// and those in them that the profiler specification (docs/origins.md) names keep
// its names and meanings; everything else stands beside them. What is not known
// is null.
type Health struct {
	Format    string `json:"format"`
	RunID     string `json:"run_id"`
	NodeID    string `json:"node_id"`
	Timestamp string `json:"timestamp"` // RFC 3339, of the run's end

	// Verdict is the node's. Findings are why, worst first.
	Verdict  Verdict     `json:"verdict"`
	Because  string      `json:"because"` // one sentence
	Findings []Finding   `json:"findings"`
	GPUs     []GPUHealth `json:"gpus"`

	Hardware    HardwareInfo       `json:"hardware_info"`
	Score       HealthScore        `json:"health_score"`
	Performance PerformanceMetrics `json:"performance_metrics"`
	Cost        CostAnalysis       `json:"cost_analysis"`
}

// Finding is one sign of bad health, or of its cause.
type Finding struct {
	Rule    string  `json:"rule"`             // stable: hw_thermal_slowdown, sw_thermal, ecc_uncorrected, xid, lost…
	Device  string  `json:"device,omitempty"` // a GPU's UUID; empty: the node or the engine
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"`             // what was seen, in words with its figures
	Action  string  `json:"action,omitempty"` // what to do next
	// Hard findings make the verdict fail whatever the score.
	Hard   bool               `json:"hard,omitempty"`
	Values map[string]float64 `json:"values,omitempty"`
}

// GPUHealth is the verdict on one GPU.
type GPUHealth struct {
	UUID    string  `json:"uuid"`
	Name    string  `json:"name,omitempty"`
	Index   int     `json:"index"`
	Verdict Verdict `json:"verdict"`
	Because string  `json:"because"`
}

// HardwareInfo is what the node is made of. GPUMemory and RAM are in words, as
// the specification has them; the figures stand beside.
type HardwareInfo struct {
	GPUModel  *string `json:"gpu_model"` // of the first GPU; null: none was found
	GPUMemory *string `json:"gpu_memory"`
	CPUModel  *string `json:"cpu_model"`
	RAM       *string `json:"ram"`

	GPUCount       int    `json:"gpu_count"`
	GPUMemoryBytes *int64 `json:"gpu_memory_bytes"`
	RAMBytes       *int64 `json:"ram_bytes"`
}

// HealthScore is five numbers in [0,1] against a baseline, or against what the
// card's maker states. A part that could
// not be scored is null; its weight is shared out among the others.
type HealthScore struct {
	Overall    *float64 `json:"overall"`
	Latency    *float64 `json:"latency"`
	Throughput *float64 `json:"throughput"`
	Stability  *float64 `json:"stability"`
	Efficiency *float64 `json:"efficiency"`

	// Intervals holds for each scored part a 95 % bootstrap interval.
	Intervals map[string]Interval `json:"intervals"`
	// Coverage is the share of the weight whose parts were scored; below a half
	// overall is null.
	Coverage float64 `json:"coverage"`
	// Unknown says for each part without a score why.
	Unknown    map[string]string  `json:"unknown"`
	Weights    map[string]float64 `json:"weights"`
	Deductions []Deduction        `json:"deductions"`
	Baseline   string             `json:"baseline,omitempty"` // its name
	// Against is what latency, throughput and efficiency are shares of:
	// AgainstBaseline, or for a node without one AgainstCatalogue, the figures of
	// its card's maker. Empty: none of them was scored.
	Against string `json:"against,omitempty"`
	Stage   string `json:"stage,omitempty"` // the stage that was compared with it
}

// What a score is against.
const (
	AgainstBaseline  = "baseline"
	AgainstCatalogue = "catalogue"
)

// Interval is a range from low to high.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Deduction explains a lost part of a score.
type Deduction struct {
	Part     string  `json:"part"`
	Metric   string  `json:"metric"`
	Measured float64 `json:"measured"`
	Expected float64 `json:"expected"`
	// Lost is how much of the part's score this cost.
	Lost    float64 `json:"lost"`
	Because string  `json:"because"`
}

// PerformanceMetrics are the specification's five figures, and ours beside.
type PerformanceMetrics struct {
	MaxThroughput     *float64 `json:"max_throughput"`      // requests a second: the highest goodput of a stage
	AvgLatencyMS      *float64 `json:"avg_latency_ms"`      // mean E2E at the judged stage
	P99LatencyMS      *float64 `json:"p99_latency_ms"`      // p99 E2E there; null when the samples do not carry it
	MaxGPUUtilization *float64 `json:"max_gpu_utilization"` // highest reading; a duty cycle
	PeakMemoryUsage   *string  `json:"peak_memory_usage"`   // of one GPU, in words

	PeakMemoryBytes       *float64 `json:"peak_memory_bytes"`
	OutputTokensPerSecond *float64 `json:"output_tokens_per_second"`
	TTFTp99MS             *float64 `json:"ttft_p99_ms"`
	TPOTp50MS             *float64 `json:"tpot_p50_ms"`
	ErrorRate             *float64 `json:"error_rate"`
	MaxTemperature        *float64 `json:"max_gpu_temperature_celsius"`
	MeanPowerWatts        *float64 `json:"mean_gpu_power_watts"` // of all GPUs together
	TokensPerJoule        *float64 `json:"tokens_per_joule"`
	CPUUtilization        *float64 `json:"cpu_utilization"`
	Stage                 string   `json:"stage,omitempty"`
	// RatesOf is RatesOfWhole when the stage had no steady window; else empty.
	RatesOf string `json:"rates_of,omitempty"`
}

// CostAnalysis is what a token costs. The three figures of the specification
// are in units of the currency a token, at the utilization that is named; a
// price a million tokens stands beside.
type CostAnalysis struct {
	EnergyCostPerToken *float64 `json:"energy_cost_per_token"`
	RentalCostPerToken *float64 `json:"rental_cost_per_token"`
	TotalCostPerToken  *float64 `json:"total_cost_per_token"`

	Currency string `json:"currency,omitempty"`
	// Utilization is load ÷ measured capacity at which the rental price stands.
	Utilization *float64 `json:"utilization"`
	// A million output tokens.
	EnergyPerMillion *Money `json:"energy_cost_per_million_tokens"`
	RentalPerMillion *Money `json:"rental_cost_per_million_tokens"`
	TotalPerMillion  *Money `json:"total_cost_per_million_tokens"`
	// A million tokens of either kind, when the cost is laid on input and output
	// tokens alike.
	BlendedPerMillion *Money `json:"blended_cost_per_million_tokens"`
	// Curve is the rental price over utilization from 0.1 to 1.
	Curve []CostPoint `json:"curve"`
	// AtGoodput is the rental price of a million tokens of requests that kept
	// the limits, at full load; null without limits.
	AtGoodput *Money            `json:"rental_cost_per_million_good_tokens"`
	Energy    *EnergySummary    `json:"energy"`
	Price     *Money            `json:"price_per_hour"`
	Rate      *Money            `json:"energy_rate_per_kwh"`
	Unknown   map[string]string `json:"unknown"` // why a figure is null
}

// CostPoint is one point of the curve.
type CostPoint struct {
	Utilization float64 `json:"utilization"`
	PerMillion  Money   `json:"cost_per_million_tokens"`
}

// BaselineFormat names the format of a baseline file.
const BaselineFormat = "assay/baseline/v1"

// Baseline is what a node is compared with: the catalogue's figure, or the
// node's own accepted one. A figure that is null is not scored.
type Baseline struct {
	Format string `json:"format"`
	Name   string `json:"name"`
	Source string `json:"source"` // the run's id, or where the figure was published
	// What it was measured with; a run of something else is compared with it
	// only with a warning.
	GPUModel string `json:"gpu_model,omitempty"`
	GPUCount int    `json:"gpu_count,omitempty"`
	Engine   string `json:"engine,omitempty"`
	Model    string `json:"model,omitempty"`
	// Load of the stage that these figures are of.
	Load LoadKind `json:"load,omitempty"`
	At   float64  `json:"at,omitempty"` // streams or requests a second

	TTFTp99MS             *float64 `json:"ttft_p99_ms"`
	TPOTp50MS             *float64 `json:"tpot_p50_ms"`
	OutputTokensPerSecond *float64 `json:"output_tokens_per_second"`
	TokensPerJoule        *float64 `json:"tokens_per_joule"`
}
