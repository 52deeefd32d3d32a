package hammer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/inference"
)

// Config is everything that one run does, resolved: what runs, what --dry-run
// prints and what run.json keeps. Secrets are in fields that are not encoded.
type Config struct {
	URL      string `json:"url"`     // of the engine, without the endpoint's path
	Backend  string `json:"backend"` // openai-chat, openai, ollama, ollama-chat
	Endpoint string `json:"endpoint,omitempty"`
	// Model is the name sent to the engine; empty: the first that it serves.
	Model string `json:"model"`
	// Found says that URL was found on this machine, and not named by anybody:
	// then no API key is sent there, when the run is resumed neither.
	Found    bool `json:"found,omitempty"`
	Insecure bool `json:"insecure,omitempty"` // do not verify TLS certificates
	// CACert, Cert and Key are PEM files: authorities to trust in place of the
	// system's, and the client's own certificate and key.
	CACert string `json:"cacert,omitempty"`
	Cert   string `json:"cert,omitempty"`
	Key    string `json:"key,omitempty"`

	// What the engine says of itself and its model; the manifest keeps it.
	engineVersion string
	engineModel   inference.ModelSize

	APIKey  string            `json:"-"`
	Headers map[string]string `json:"-"`
	// HeaderNames are recorded in place of the headers, which may be secrets.
	HeaderNames []string `json:"header_names,omitempty"`

	Profile  *assay.Profile  `json:"profile,omitempty"`
	Scenario *assay.Scenario `json:"scenario,omitempty"`

	Load       Load        `json:"load"`
	Data       Data        `json:"data"`
	Sampling   Sampling    `json:"sampling"`
	Connection Connection  `json:"connection"`
	Timeouts   Timeouts    `json:"timeouts"`
	Telemetry  Telemetry   `json:"telemetry"`
	Judge      assay.Judge `json:"judge"`
	NumRuns    int         `json:"num_runs"`
	Seed       uint64      `json:"seed"`
	KeepText   bool        `json:"keep_text,omitempty"`
	UserClock  bool        `json:"user_clock,omitempty"` // do not use the kernel's stamps
	Priority   Priority    `json:"priority,omitempty"`   // of the client; run.json's client says what it got
	Metadata   []KeyValue  `json:"metadata,omitempty"`
	Label      string      `json:"label,omitempty"`
	RequestIDs string      `json:"request_id_prefix,omitempty"` // empty: made from the run's id
	// ReloadModel has Ollama unload and load its model before the load, so that
	// the GPU's memory can be seen to rise.
	ReloadModel bool            `json:"reload_model,omitempty"`
	ReadyCheck  assay.Duration  `json:"ready_check,omitempty"` // wait this long for the engine to answer
	Extra       json.RawMessage `json:"extra_body,omitempty"`  // merged into every request's body
}

// KeyValue is one pair of --metadata, in the order given.
type KeyValue struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Mode is how the load is made.
type Mode string

// The modes.
const (
	ModeClosed   Mode = "closed"
	ModeOpen     Mode = "open"
	ModeRamp     Mode = "ramp"
	ModeSweep    Mode = "sweep" // closed at each of Levels, or open at each of Rates
	ModeBatch    Mode = "batch"
	ModeReplay   Mode = "replay"
	ModeSaturate Mode = "saturate"
	ModeFindMax  Mode = "find-max"
	ModeSustain  Mode = "sustain"
)

// Load is the load to make.
type Load struct {
	Mode Mode `json:"mode"`
	// Concurrency is the number of streams (closed) or the cap (open, ramp,
	// replay; 0: none). For searches it is the highest to try.
	Concurrency int `json:"concurrency,omitempty"`
	// Rate is requests a second; 0 in mode open: all at once.
	Rate       float64 `json:"rate,omitempty"`
	Burstiness float64 `json:"burstiness,omitempty"` // 1 Poisson; 0: constant gaps
	// Normalise scales arrivals so that the last of Requests is due at
	// Requests/Rate exactly, as vLLM does.
	Normalise bool      `json:"normalise,omitempty"`
	Ramp      string    `json:"ramp,omitempty"` // linear, exponential
	RateFrom  float64   `json:"rate_from,omitempty"`
	RateTo    float64   `json:"rate_to,omitempty"`
	Levels    []int     `json:"levels,omitempty"` // sweep, batch
	Rates     []float64 `json:"rates,omitempty"`  // sweep
	// BatchMode says how a batch goes out: "parallel" as many requests, or
	// "request" as one request with many prompts.
	BatchMode string `json:"batch_mode,omitempty"`
	FindMax   string `json:"find_max,omitempty"` // rate, concurrency
	// Utilization is the share of measured capacity that sustain holds.
	Utilization float64 `json:"utilization,omitempty"`
	Trace       string  `json:"trace,omitempty"` // replay: a file
	// TraceBlock is the tokens that one of the trace's hash_ids names; 0: 512, as
	// in Mooncake's.
	TraceBlock int `json:"trace_block_tokens,omitempty"`

	// Requests and Duration are those of each stage; one may be zero. In
	// searches Duration is that of each step.
	Requests int            `json:"requests,omitempty"`
	Duration assay.Duration `json:"duration,omitempty"`
	// Hold is how long sustain holds its load.
	Hold    assay.Duration `json:"hold,omitempty"`
	RampUp  assay.Duration `json:"ramp_up,omitempty"`
	Grace   assay.Duration `json:"grace"`
	Warmups int            `json:"warmups"` // requests before each run; the first stage's
}

// Data is what the requests ask.
type Data struct {
	Kind         string  `json:"kind"` // random, sharegpt, custom
	Path         string  `json:"path,omitempty"`
	InputTokens  int     `json:"input_tokens,omitempty"`
	OutputTokens int     `json:"output_tokens,omitempty"`
	InputSpread  float64 `json:"input_range_ratio,omitempty"` // lengths are uniform in ±this share
	OutputSpread float64 `json:"output_range_ratio,omitempty"`
	PrefixTokens int     `json:"prefix_tokens,omitempty"` // shared by all prompts, on top of InputTokens
	Shuffle      bool    `json:"shuffle,omitempty"`
	Oversample   bool    `json:"oversample,omitempty"` // repeat a dataset that is too short
}

// Sampling is sent to the engine; nil fields are not.
type Sampling struct {
	Temperature       *float64 `json:"temperature,omitempty"`
	TopP              *float64 `json:"top_p,omitempty"`
	TopK              *int     `json:"top_k,omitempty"`
	MinP              *float64 `json:"min_p,omitempty"`
	FrequencyPenalty  *float64 `json:"frequency_penalty,omitempty"`
	PresencePenalty   *float64 `json:"presence_penalty,omitempty"`
	RepetitionPenalty *float64 `json:"repetition_penalty,omitempty"`
	Logprobs          *int     `json:"logprobs,omitempty"`
	IgnoreEOS         bool     `json:"ignore_eos,omitempty"`
}

// Telemetry is what is read beside the load.
type Telemetry struct {
	// Interval is how often GPUs, host and engine are read; 0: not at all.
	Interval assay.Duration `json:"interval"`
	// DCGM is the URL of a dcgm-exporter to read GPUs from; empty: their driver.
	DCGM string `json:"dcgm_exporter,omitempty"`
}

// Connection says whether connections are kept between requests.
type Connection string

// The two ways to connect.
const (
	ConnectionKeep  Connection = "keep"
	ConnectionFresh Connection = "fresh"
)

// Timeouts are the four limits of one request.
type Timeouts struct {
	Connect    assay.Duration `json:"connect"`
	FirstToken assay.Duration `json:"first_token"`
	Gap        assay.Duration `json:"gap"`
	Total      assay.Duration `json:"total"`
}

// DefaultConfig is what runs when nothing is asked: a minute of closed-loop
// load at one, four and sixteen streams with short prompts.
func DefaultConfig() Config {
	c := Config{
		Data:       Data{Kind: "random", InputTokens: 256, OutputTokens: 64, Shuffle: true, Oversample: true},
		Sampling:   Sampling{IgnoreEOS: true},
		Connection: ConnectionKeep,
		Timeouts: Timeouts{
			Connect:    assay.Duration(10 * time.Second),
			FirstToken: assay.Duration(30 * time.Minute), // as Total: an engine that queues is not dead
			Gap:        assay.Duration(time.Minute),
			Total:      assay.Duration(30 * time.Minute),
		},
		Telemetry: Telemetry{Interval: assay.Duration(100 * time.Millisecond)},
		NumRuns:   1,
		Priority:  PriorityNormal, // a command raises its own process; a library does not
	}
	c.Load.Grace = assay.Duration(30 * time.Second)
	quick := BuiltinScenarios()[0]
	if err := c.Apply(quick); err != nil {
		panic(fmt.Sprintf("built-in scenario %s: %v", quick.Name, err)) // a mistake in this package
	}
	return c
}

// searchStreams is the most streams that a search of a scenario tries.
const searchStreams = 256

// BuiltinProfiles are the workloads of the profiler specification
// (docs/origins.md).
func BuiltinProfiles() []assay.Profile {
	return []assay.Profile{
		{Name: "small_model", ModelSize: "7B", ContextLength: 2048, ExpectedTokens: 256},
		{Name: "medium_model", ModelSize: "13B", ContextLength: 4096, ExpectedTokens: 512},
		{Name: "large_model", ModelSize: "70B", ContextLength: 8192, ExpectedTokens: 1024},
	}
}

// BuiltinScenarios are the quick answer and the profiler specification's three
// scenarios.
func BuiltinScenarios() []assay.Scenario {
	s := func(n int) assay.Duration { return assay.Duration(time.Duration(n) * time.Second) }
	return []assay.Scenario{
		{Name: "quick", Duration: s(45), RampUp: s(3), Pattern: "parallel", MaxConcurrency: 16, Levels: []int{1, 4, 16}, Grace: s(5)},
		{Name: "baseline_capacity", Duration: s(300), RampUp: s(30), Pattern: "parallel", MaxConcurrency: 64},
		{Name: "sustained_load", Duration: s(1800), Pattern: "sustained", TargetUtilization: 0.8},
		{Name: "batch_optimization", Duration: s(600), Pattern: "batch", BatchSizes: []int{1, 4, 8, 16, 32}},
	}
}

// SetProfile takes the lengths of a profile.
func (c *Config) SetProfile(p assay.Profile) {
	c.Profile, c.Judge.ModelSize = &p, p.ModelSize
	c.Data.InputTokens, c.Data.OutputTokens = p.InputTokens(), p.ExpectedTokens
}

// Apply sets the load of a scenario. The scenario's duration and ramp-up are
// shared out evenly among its levels. How many steps a saturation takes nobody
// knows before: its duration is shared out among the doublings, and it takes
// less where goodput stops rising early, and more for the steps in between.
func (c *Config) Apply(s assay.Scenario) error {
	l := Load{Grace: c.Load.Grace, Warmups: c.Load.Warmups}
	if s.Grace > 0 {
		l.Grace = s.Grace
	}
	share := func(d assay.Duration, n int) assay.Duration { return d / assay.Duration(n) }
	switch s.Pattern {
	case "parallel":
		l.Mode = ModeSweep
		l.Levels = s.Levels
		if len(l.Levels) == 0 {
			if s.MaxConcurrency < 1 {
				return fmt.Errorf("scenario %s: pattern parallel needs max_concurrency", s.Name)
			}
			for n := 1; n < s.MaxConcurrency; n *= 2 {
				l.Levels = append(l.Levels, n)
			}
			l.Levels = append(l.Levels, s.MaxConcurrency)
		}
		l.Duration, l.RampUp = share(s.Duration, len(l.Levels)), share(s.RampUp, len(l.Levels))
	case "sequential":
		if s.Requests < 0 || s.Requests == 0 && s.Duration <= 0 {
			return fmt.Errorf("scenario %s: pattern sequential needs requests or a duration", s.Name)
		}
		l.Mode, l.Concurrency = ModeClosed, 1
		l.Requests, l.Duration, l.RampUp = s.Requests, s.Duration, s.RampUp
	case "saturation":
		l.Mode, l.Concurrency = ModeSaturate, s.MaxConcurrency
		if l.Concurrency == 0 {
			l.Concurrency = searchStreams
		}
		if l.Concurrency < 1 {
			return fmt.Errorf("scenario %s: max_concurrency must be at least 1, not %d", s.Name, s.MaxConcurrency)
		}
		l.Duration = share(s.Duration, bits.Len(uint(l.Concurrency)))
		l.RampUp = share(s.RampUp, bits.Len(uint(l.Concurrency)))
	case "batch":
		if len(s.BatchSizes) == 0 {
			return fmt.Errorf("scenario %s: pattern batch needs batch_sizes", s.Name)
		}
		l.Mode, l.Levels, l.BatchMode = ModeBatch, s.BatchSizes, "parallel"
		l.Duration, l.RampUp = share(s.Duration, len(l.Levels)), share(s.RampUp, len(l.Levels))
	case "sustained":
		if s.TargetUtilization <= 0 || s.TargetUtilization > 1 {
			return fmt.Errorf("scenario %s: pattern sustained needs target_utilization in (0,1]", s.Name)
		}
		l.Mode, l.Utilization, l.Hold, l.RampUp = ModeSustain, s.TargetUtilization, s.Duration, s.RampUp
		l.Concurrency, l.Burstiness = searchStreams, 1
		l.Duration = assay.Duration(min(20*time.Second, time.Duration(s.Duration)/10))
	default:
		return fmt.Errorf("scenario %s: unknown pattern %q; known are parallel, sequential, batch, saturation, sustained", s.Name, s.Pattern)
	}
	if s.Requests != 0 && s.Pattern != "sequential" {
		return fmt.Errorf("scenario %s: requests goes with pattern sequential; pattern %s is timed by its duration", s.Name, s.Pattern)
	}
	if s.Duration < 0 || s.Duration == 0 && s.Requests == 0 {
		return fmt.Errorf("scenario %s: needs a duration", s.Name)
	}
	c.Scenario, c.Load = &s, l
	return nil
}

// Validate says what is wrong with the configuration, all at once.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	l := c.Load
	bounded := l.Requests > 0 || l.Duration > 0
	switch l.Mode {
	case ModeClosed:
		if l.Concurrency < 1 {
			bad("a closed loop needs a concurrency of at least 1")
		}
	case ModeOpen:
		if l.Rate < 0 || math.IsNaN(l.Rate) || math.IsInf(l.Rate, 0) {
			bad("the request rate must be positive")
		}
		if l.Rate == 0 && l.Requests < 1 {
			bad("all requests at once needs a number of them: --num-prompts")
		}
	case ModeRamp:
		if l.RateTo < l.RateFrom || l.RateTo <= 0 || l.RateFrom < 0 {
			bad("a ramp must rise: from %g to %g requests/s does not", l.RateFrom, l.RateTo)
		}
		if l.Ramp == "exponential" && l.RateFrom <= 0 {
			bad("an exponential ramp cannot start at 0 requests/s")
		}
		if l.Ramp != "linear" && l.Ramp != "exponential" {
			bad("unknown ramp %q; known are linear, exponential", l.Ramp)
		}
	case ModeSweep, ModeBatch:
		if len(l.Levels) == 0 && len(l.Rates) == 0 {
			bad("%s needs at least one level", l.Mode)
		}
		if slices.ContainsFunc(l.Levels, func(n int) bool { return n < 1 }) {
			bad("every level must be at least 1: %v", l.Levels)
		}
		if slices.ContainsFunc(l.Rates, func(r float64) bool { return !(r > 0) || math.IsInf(r, 0) }) {
			bad("every rate must be positive: %v", l.Rates)
		}
	case ModeSaturate, ModeFindMax:
		if l.Mode == ModeFindMax && len(c.Judge.Objectives) == 0 {
			bad("--find-max needs an objective, for example --slo \"ttft_p99<200ms\"")
		}
		if l.Mode == ModeFindMax && l.FindMax != "rate" && l.FindMax != "concurrency" {
			bad("--find-max is rate or concurrency, not %q", l.FindMax)
		}
	case ModeSustain:
		if !(l.Utilization > 0 && l.Utilization <= 1) {
			bad("--sustain needs a share of capacity in (0,1], not %g", l.Utilization)
		}
		if l.Hold <= 0 {
			bad("--sustain needs a duration")
		}
	case ModeReplay:
		if l.Trace == "" {
			bad("replay needs a trace file")
		}
		if l.TraceBlock < 0 {
			bad("the blocks of a trace have at least 1 token, not %d", l.TraceBlock)
		}
		bounded = true
	default:
		bad("unknown load mode %q", l.Mode)
	}
	if !bounded {
		bad("the load needs an end: --num-prompts or --duration")
	}
	if l.Burstiness < 0 {
		bad("burstiness must be positive, not %g", l.Burstiness)
	}
	if l.BatchMode == "request" && c.Backend != "" && c.Backend != "openai" && c.Backend != "vllm" {
		bad("--batch-mode request needs the completions endpoint (--backend openai): chat takes one prompt a request")
	}
	switch c.Data.Kind {
	case "random":
		if c.Data.InputTokens < 1 || c.Data.OutputTokens < 1 {
			bad("input and output length must be at least 1 token, not %d and %d", c.Data.InputTokens, c.Data.OutputTokens)
		}
		if c.Data.Path != "" {
			bad("--dataset-path does not go with random data")
		}
	case "sharegpt", "custom":
		if c.Data.Path == "" {
			bad("data %q needs --dataset-path, a local file", c.Data.Kind)
		}
	default:
		bad("unknown data %q; known are random, sharegpt, custom", c.Data.Kind)
	}
	for name, r := range map[string]float64{"input": c.Data.InputSpread, "output": c.Data.OutputSpread} {
		if r < 0 || r >= 1 {
			bad("the %s range ratio must be in [0,1), not %g", name, r)
		}
	}
	if c.Connection != ConnectionKeep && c.Connection != ConnectionFresh {
		bad("--connection is keep or fresh, not %q", c.Connection)
	}
	switch c.Priority {
	case "", PriorityNormal, PriorityHigh, PriorityRealtime:
	default:
		bad("--priority is high, normal or realtime, not %q", c.Priority)
	}
	if c.NumRuns < 1 {
		bad("--num-runs must be at least 1")
	}
	if len(c.Extra) > 0 && !json.Valid(c.Extra) {
		bad("--extra-body is not JSON")
	}
	return errors.Join(errs...)
}
