package assay

// GPUSummary is what the readings say of one GPU while it was under load: from
// the first stage's start to the last one's end.
type GPUSummary struct {
	UUID   string `json:"uuid"`
	Source string `json:"source"` // whose readings
	// Stats by the name of the reading; a name that is not there was not read.
	Stats map[string]ReadingStats `json:"stats"`
	// LoadedSeconds is the time under load that readings cover.
	LoadedSeconds float64 `json:"loaded_seconds"`
	// Throttled is the share of loaded time by reason (the reading's name
	// without gpu_throttled_); a reason that is not there was not read.
	Throttled map[string]float64 `json:"throttled_share"`
	// XIDs counts errors of the driver's list by number.
	XIDs map[string]int `json:"xids"`
	Lost bool           `json:"lost,omitempty"`
	// Energy of the GPU; null: neither a counter nor power was read.
	Energy *EnergySummary `json:"energy"`
	// ReplaysPerMinute is the rate of PCIe replays; null: not read.
	ReplaysPerMinute *float64 `json:"pcie_replays_per_minute"`
}

// ReadingStats is one reading's course under load.
type ReadingStats struct {
	N     int     `json:"n"`
	First float64 `json:"first"`
	Last  float64 `json:"last"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	Mean  float64 `json:"mean"` // over time, each value held until the next
}

// EnergySummary is energy by both ways, of one GPU or of all together.
type EnergySummary struct {
	Joules     *float64 `json:"joules"` // by the counter where it is available, else by integration
	Counter    *float64 `json:"counter_joules"`
	Integrated *float64 `json:"integrated_joules"`
	// Disagreement is counter ÷ integrated − 1.
	Disagreement *float64 `json:"disagreement"`
	// Refused says why the counter was not taken: it fell.
	Refused string `json:"counter_refused,omitempty"`
	// Idle is what the same time would have taken at the idle power seen before
	// the load; only an extra column.
	Idle *float64 `json:"idle_joules"`
}

// HostSummary is what the readings say of the host under load.
type HostSummary struct {
	Stats map[string]ReadingStats `json:"stats"`
}

// Window is one of equal slices of a run's time: what a stage did over time.
type Window struct {
	Stage   string   `json:"stage"`
	From    int64    `json:"from_ns"`
	To      int64    `json:"to_ns"`
	OK      int      `json:"ok"`
	Failed  int      `json:"failed"`
	Tokens  int64    `json:"output_tokens"` // that arrived within
	TTFT    *float64 `json:"ttft_ms_mean"`  // of requests whose first token came within
	TTFTMax *float64 `json:"ttft_ms_max"`
	TPOT    *float64 `json:"tpot_ms_mean"` // of requests that ended within
}

// Trend is a course over time that was tested for drift or leak.
type Trend struct {
	Of     string `json:"of"` // output_tokens_per_second, ttft_ms, or a reading's name
	Device string `json:"device,omitempty"`
	Stage  string `json:"stage,omitempty"`
	Kind   string `json:"kind"` // drift, leak
	// Slope is a minute's change, with its interval: in the unit of the reading
	// for a leak, as a share of the median for a drift.
	Slope Quantity `json:"slope_per_minute"`
	// MinEffect is the least slope that counts; its sign is the bad direction's.
	MinEffect float64 `json:"min_effect_per_minute"`
	// P is the test's; nil where none could be made, which is neither for a
	// trend nor against one.
	P     *float64 `json:"p"`
	Level float64  `json:"level"`
	// Found is whether the interval lies wholly beyond the least effect and the
	// trend is significant; unknown when there is too little to tell.
	Found Verdict `json:"found"` // pass: no trend; fail: found
	Why   string  `json:"why,omitempty"`
	// Cause names what else changed at the same moment: gpu_clocks.
	Cause string `json:"cause,omitempty"`
	// ChangedAt is the moment of the largest change, where one stands out.
	ChangedAt *int64 `json:"changed_at_ns,omitempty"`
}

// Replicates are block bootstrap replicates of a stage's figures, drawn
// together: the nth of each list is of the same resample of windows.
type Replicates struct {
	Windows               int       `json:"windows"`
	Seed                  uint64    `json:"seed"`
	TTFTp99MS             []float64 `json:"ttft_p99_ms"`
	TPOTp50MS             []float64 `json:"tpot_p50_ms"`
	OutputTokensPerSecond []float64 `json:"output_tokens_per_second"`
	ErrorRate             []float64 `json:"error_rate"`
	TokensPerJoule        []float64 `json:"tokens_per_joule"` // empty without energy
}

// Sampling is what reading the telemetry cost.
type Sampling struct {
	IntervalNS int64    `json:"interval_ns"`
	Sources    []string `json:"sources"`
	// CPUShare is of one core, the children that call drivers included; null:
	// not known.
	CPUShare *float64 `json:"cpu_share"`
}
