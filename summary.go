package assay

// SummaryFormat names the format of summary.json that this version writes.
const SummaryFormat = "assay/summary/v1"

// Summary is summary.json: a run, reduced to numbers. It is derived: it can be
// made again from the other files.
type Summary struct {
	Format  string         `json:"format"`
	RunID   string         `json:"run_id"`
	Status  Status         `json:"status"`
	Engine  Engine         `json:"engine"`
	Started int64          `json:"started_ns"`
	Ended   int64          `json:"ended_ns"`
	Client  ClientSummary  `json:"client"`
	Stages  []StageSummary `json:"stages"`
	Scaling *Scaling       `json:"scaling,omitempty"`
	FindMax *FindMax       `json:"find_max,omitempty"`
	Runs    []Variation    `json:"runs,omitempty"` // run-to-run variation with --num-runs
	Lengths *Lengths       `json:"prompt_lengths,omitempty"`
	// What the readings say of the node meanwhile; empty and null where nothing
	// was read.
	GPUs     []GPUSummary   `json:"gpus,omitempty"`
	Host     *HostSummary   `json:"host,omitempty"`
	Energy   *EnergySummary `json:"energy,omitempty"` // of all GPUs together
	Sampling *Sampling      `json:"sampling,omitempty"`
	Windows  []Window       `json:"windows,omitempty"`
	Trends   []Trend        `json:"trends,omitempty"`
	// Restarts of the engine that were seen.
	Restarts int       `json:"engine_restarts,omitempty"`
	Warnings []Warning `json:"warnings"`
}

// Warning is a doubt about the run, as data.
type Warning struct {
	Kind  string `json:"kind"` // stable: token_count_disagrees, little, clock_step, torn_line…
	Stage string `json:"stage,omitempty"`
	Text  string `json:"text"`
}

// Certificate says whether the numbers are about the server or about us.
type Certificate string

// The certificates of MEASUREMENT. A run that sent nothing has none.
const (
	Certified  Certificate = "certified"
	DegradedBy Certificate = "degraded" // usable, with the error bar
	Invalid    Certificate = "invalid"  // the client was the bottleneck
	NoClient   Certificate = "unknown"
)

// ClientSummary is what the measuring process did to the measurement.
type ClientSummary struct {
	Certificate Certificate `json:"certificate"`
	// Cause is the limit that the client met: cpu, file_descriptors, ports, memory, disk.
	Cause string `json:"cause,omitempty"`
	// Why says in words what kept the certificate from being better.
	Why     []string    `json:"why,omitempty"`
	Clock   ClockSource `json:"clock"`
	LagUS   Dist        `json:"lag_us"`      // read − arrived, of every read
	SendLag Dist        `json:"send_lag_us"` // sent − allowed, of every request
	// AllowedLagUS is what was allowed of SendLag, and by the user clock of LagUS:
	// max(1 ms, 1 % of median TTFT).
	AllowedLagUS float64 `json:"allowed_lag_us"`
	Reads        int     `json:"reads"`
	MergedReads  int     `json:"merged_reads"`
	MergedShare  float64 `json:"merged_share"`
	Dropped      int     `json:"dropped"` // schedule slots that could not be used for want of our own means
	ErrorBarUS   float64 `json:"error_bar_us"`
	// Readings of the process itself; null where they were not obtained.
	CPUSeconds   *float64 `json:"cpu_seconds"`
	CPUShare     *float64 `json:"cpu_share"`       // of the cores that it may use
	RunDelay     *float64 `json:"run_delay_share"` // share of the time that its threads waited for a CPU
	Suspended    *float64 `json:"suspended_share"` // time in which the whole process was stopped, over wall time
	PeakRSSBytes *float64 `json:"peak_rss_bytes"`
}

// StageSummary is one stage in numbers. Latencies are those of judged requests
// that succeeded.
type StageSummary struct {
	Name string `json:"name"`
	Plan Stage  `json:"plan"`
	// Complete is false for a stage that was interrupted.
	Complete bool `json:"complete"`

	Started int64 `json:"started_ns"`
	// The steady window: filling, warm-up and drain excluded. Both are zero for
	// a stage that has none.
	SteadyFrom int64 `json:"steady_from_ns"`
	SteadyTo   int64 `json:"steady_to_ns"`
	Ended      int64 `json:"ended_ns"`
	// RatesOf says what the rates are of: RatesOfWindow, or RatesOfWhole for a
	// stage without a steady window. Empty, in summaries of before 0.2: the
	// window, which then was all of the time in which requests were sent.
	RatesOf string `json:"rates_of,omitempty"`
	// WindowWhy says why there is no steady window, and what would make one.
	WindowWhy string `json:"window_why,omitempty"`

	Requests  int             `json:"requests"` // judged: all but warm-ups
	Warmups   int             `json:"warmups"`
	OK        int             `json:"ok"`
	Failed    int             `json:"failed"` // the engine's failures
	ErrorRate float64         `json:"error_rate"`
	Errors    map[Failure]int `json:"errors"`
	LateSent  int             `json:"late_sent"`  // held by the cap for more than a millisecond
	NeverSent int             `json:"never_sent"` // scheduled, never sent
	Censored  int             `json:"censored"`

	TTFT Dist `json:"ttft_ms"`
	// TTFTHistogram is for looking at; percentiles are in TTFT. Nil: no request
	// had a first token.
	TTFTHistogram *Histogram `json:"ttft_histogram_ms,omitempty"`
	TTFTIntended  Dist       `json:"ttft_intended_ms"`
	TTFO          Dist       `json:"ttfo_ms"`
	TPOT          Dist       `json:"tpot_ms"`
	ITL           Dist       `json:"itl_ms"`
	ArrivalGap    Dist       `json:"arrival_gap_ms"`
	E2E           Dist       `json:"e2e_ms"`
	E2EIntended   Dist       `json:"e2e_intended_ms"`
	// MarkedGapShare is the share of gaps that the percentiles of ITL and of
	// arrival gaps leave out, because the client merged the read that they end in.
	MarkedGapShare float64 `json:"marked_gap_share"`
	// WarmupE2EMS is the mean E2E of the warm-ups; 0: none ended.
	WarmupE2EMS float64 `json:"warmup_e2e_ms_mean,omitempty"`
	// BurstShare is the share of reads whose several token chunks the engine sent
	// together, and BurstChunksMean how many chunks such a read held.
	BurstShare      float64 `json:"burst_share,omitempty"`
	BurstChunksMean float64 `json:"burst_chunks_mean,omitempty"`
	// Addresses counts the requests that were sent to each address of the
	// engine's name, warm-ups included; nil: it has one.
	Addresses map[string]int `json:"addresses,omitempty"`

	// Of the steady window, or of the whole: see RatesOf.
	RequestsPerSecond     float64 `json:"requests_per_second"`
	OutputTokensPerSecond float64 `json:"output_tokens_per_second"`
	TotalTokensPerSecond  float64 `json:"total_tokens_per_second"`
	// Goodput counts requests that kept every limit; without limits, those that succeeded.
	GoodputPerSecond float64 `json:"goodput_requests_per_second"`
	GoodShare        float64 `json:"good_share"`
	TokensPerUser    float64 `json:"output_tokens_per_second_per_user"`
	// Of the whole stage, from the first send to the last token's arrival.
	WholeRequestsPerSecond     float64 `json:"whole_requests_per_second"`
	WholeOutputTokensPerSecond float64 `json:"whole_output_tokens_per_second"`

	InputTokens  Dist   `json:"input_tokens"`
	OutputTokens Dist   `json:"output_tokens"`
	CachedTokens int64  `json:"cached_tokens"`
	TokensFrom   string `json:"tokens_from"` // usage, chunks or mixed

	Little Little       `json:"little"`
	Engine *EngineStage `json:"engine,omitempty"`
	// EngineCheck is ours beside the engine's own figures; null: it gives none.
	EngineCheck *EngineCheck `json:"engine_check,omitempty"`
	// Objectives has the verdict on each objective in this stage.
	Objectives []Held `json:"objectives,omitempty"`
	// Kept is whether all objectives held; unknown when one could not be decided.
	Kept Verdict `json:"kept"`
	// BacklogGrows: an open stage's requests piled up.
	BacklogGrows bool `json:"backlog_grows,omitempty"`
	// Slowed is when inference became slow or stuck; nil: never, or nobody looked.
	Slowed []Slowed `json:"slowed,omitempty"`
	// Joules that all GPUs used in the steady window; null: not read.
	Joules *float64 `json:"joules,omitempty"`
	// WindowCV is the standard deviation ÷ mean of tokens a second over windows
	// of the steady window, less what counting alone would give; null: too few.
	WindowCV   *float64    `json:"window_cv,omitempty"`
	Replicates *Replicates `json:"replicates,omitempty"`
}

// Slowed is a time when tokens a second for each request in flight were below
// half of those of the stage's first minute for 30 s.
type Slowed struct {
	At              int64   `json:"t_ns"` // the end of the 30 s
	TokensPerSecond float64 `json:"tokens_per_second"`
	FirstMinute     float64 `json:"first_minute"`
}

// What the rates of a stage are of.
const (
	RatesOfWindow = "window"
	RatesOfWhole  = "whole"
)

// Windowed reports whether the stage's rates are those of a steady window. What
// judges throughput, variation or drift of a stage needs one: a whole stage's
// figure, with its filling and draining, may be a third too low.
func (s *StageSummary) Windowed() bool { return s.RatesOf != RatesOfWhole }

// Little is Little's law as a check on ourselves: requests in flight by a
// sampled gauge, against arrivals times mean time in the system.
type Little struct {
	Gauge   *float64 `json:"gauge"`
	Product *float64 `json:"product"`
	Off     *float64 `json:"off"` // gauge ÷ product − 1
}

// EngineStage are the engine's own figures of a stage, beside ours.
type EngineStage struct {
	TPOT   Dist `json:"tpot_ms"`
	Prompt Dist `json:"prompt_ms"`
	Load   Dist `json:"load_ms"`
	// OursOverTheirs is the ratio of total decoding time, ours over the engine's.
	OursOverTheirs *float64 `json:"tpot_ours_over_theirs"`
}

// Held is one objective against one stage.
type Held struct {
	Objective Objective `json:"objective"`
	Measured  Quantity  `json:"measured"` // Why says what an undecided one lacks
	Verdict   Verdict   `json:"verdict"`
	// Trials are what a search judges the stage's load by.
	Trials *Trials `json:"trials,omitempty"`
}

// Trials are the judged requests of a stage (of itl, the gaps) as trials of one
// objective. The engine's failures violate every objective.
type Trials struct {
	N          int `json:"n"`
	Violations int `json:"violations"` // beyond the limit
	// Tau is the autocorrelation time: so many trials are worth one.
	Tau float64 `json:"autocorrelation_time"`
	// When the first and the last violation ended; 0: there was none.
	FirstViolation int64 `json:"first_violation_ns,omitempty"`
	LastViolation  int64 `json:"last_violation_ns,omitempty"`
	// Clustered: all of them, three or more (of fewer than 30 requests one), lie
	// within half a stage; of a mean, only one half of the stage is beyond it.
	Clustered bool `json:"clustered,omitempty"`
}

// Scaling is what a sweep or a saturation shows of throughput against load.
type Scaling struct {
	Points []ScalePoint `json:"points"`
	// Knee is X_max × R_min, in streams: where queueing begins to cost more than it brings.
	Knee Quantity `json:"knee"`
	// Peak is the load with the highest goodput.
	Peak Quantity `json:"peak"`
	// Cliff is the lowest load beyond the peak at which goodput is 10 % below its maximum.
	Cliff Quantity `json:"cliff"`
	USL   *USL     `json:"usl,omitempty"`
}

// ScalePoint is one load of a sweep.
type ScalePoint struct {
	Stage       string  `json:"stage"`
	Load        float64 `json:"load"`    // streams
	Goodput     float64 `json:"goodput"` // requests a second
	TokenRate   float64 `json:"output_tokens_per_second"`
	LatencyMS   float64 `json:"e2e_ms_mean"`
	PerUser     float64 `json:"output_tokens_per_second_per_user"`
	Degradation float64 `json:"degradation"` // X(N) ÷ (N·X(1)); 0 when X(1) was not measured
}

// USL is the Universal Scalability Law X(N) = γN / (1 + σ(N−1) + κN(N−1)).
type USL struct {
	Gamma float64 `json:"gamma"`
	Sigma float64 `json:"sigma"`
	Kappa float64 `json:"kappa"`
	R2    float64 `json:"r2"`
	// PeakN is where the law has its maximum; null when κ = 0: there is none.
	PeakN *float64 `json:"peak_n"`
}

// FindMax is the answer of a search for the highest load that keeps the objectives.
type FindMax struct {
	Of   string   `json:"of"`   // rate or concurrency
	Load Quantity `json:"load"` // Lo: highest that kept them, Hi: lowest that broke them
	// Edge: the load is the limit as nearly as the stages at it could tell, and
	// neither kept nor broken.
	Edge   bool          `json:"edge,omitempty"`
	Levels []SearchLevel `json:"levels,omitempty"` // by rising load
}

// SearchLevel is what the stages of a search at one load say together.
type SearchLevel struct {
	Load    float64 `json:"load"`
	Verdict string  `json:"verdict"` // kept, broken, edge, unknown, or open: one stage on the way
	// Stages that count, in their order; one whose violations all lie within half
	// of it is set aside, once a level.
	Stages   []string `json:"stages"`
	SetAside string   `json:"set_aside,omitempty"`
	// Requests and Violations of the objective that is nearest to breaking.
	Requests   int `json:"requests"`
	Violations int `json:"violations"`
}

// Variation is one metric over repeated runs.
type Variation struct {
	Stage  string    `json:"stage"`
	Metric string    `json:"metric"`
	Values []float64 `json:"values"`
	Mean   float64   `json:"mean"`
	CV     *float64  `json:"cv"` // standard deviation ÷ mean; null for one run
}
