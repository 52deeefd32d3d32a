package assay

import "time"

// Profile is a workload by the length of its context and answer.
type Profile struct {
	Name           string `json:"name" yaml:"name"`
	ModelSize      string `json:"model_size,omitempty" yaml:"model_size"`
	ContextLength  int    `json:"context_length" yaml:"context_length"`
	ExpectedTokens int    `json:"expected_tokens" yaml:"expected_tokens"`
}

// InputTokens is the length of the prompts: what the answer leaves of the context.
func (p Profile) InputTokens() int { return max(1, p.ContextLength-p.ExpectedTokens) }

// Scenario is a load by name.
type Scenario struct {
	Name              string   `json:"name" yaml:"name"`
	Duration          Duration `json:"duration" yaml:"duration"`
	RampUp            Duration `json:"ramp_up,omitempty" yaml:"ramp_up"`
	Pattern           string   `json:"pattern" yaml:"pattern"` // parallel, sustained, batch
	MaxConcurrency    int      `json:"max_concurrency,omitempty" yaml:"max_concurrency"`
	Levels            []int    `json:"levels,omitempty" yaml:"levels"` // parallel: 1, 2, 4 … MaxConcurrency when empty
	TargetUtilization float64  `json:"target_utilization,omitempty" yaml:"target_utilization"`
	BatchSizes        []int    `json:"batch_sizes,omitempty" yaml:"batch_sizes"`
	Grace             Duration `json:"grace,omitempty" yaml:"grace"` // how long each stage may drain
}

// Duration is a time.Duration that is written as text, "300s", in JSON and YAML.
type Duration time.Duration

// MarshalText writes the duration as Go does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads "300s", "5m".
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

func (d Duration) String() string { return time.Duration(d).String() }
