package assay

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Profile is a workload by the length of its context and answer.
type Profile struct {
	Name string `json:"name" yaml:"name"`
	// ModelSize is the number of parameters of the models that the profile is
	// for, as 7B; empty: any. What the engine serves is compared with it.
	ModelSize      string `json:"model_size,omitempty" yaml:"model_size"`
	ContextLength  int    `json:"context_length" yaml:"context_length"`
	ExpectedTokens int    `json:"expected_tokens" yaml:"expected_tokens"`
}

// InputTokens is the length of the prompts: what the answer leaves of the context.
func (p Profile) InputTokens() int { return max(1, p.ContextLength-p.ExpectedTokens) }

// modelSize is a number of parameters as people write it: 7B, 1.5b, 350M, and
// 8x7B for a mixture of experts.
var modelSize = regexp.MustCompile(`^(?:([0-9]{1,3})[xX])?([0-9]{1,6}(?:\.[0-9]{1,6})?)([KkMmBbTt])$`)

// ParseModelSize reads a number of parameters, as 7B. A mixture of experts is
// taken as the product, which is an upper bound: experts share some of them.
func ParseModelSize(s string) (parameters float64, err error) {
	m := modelSize.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return 0, fmt.Errorf("%q is not a number of parameters; write 7B, 1.5B, 350M or 8x7B", s)
	}
	unit := map[string]float64{"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}[strings.ToUpper(m[3])]
	n, err := strconv.ParseFloat(m[2], 64)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("%q is not a number of parameters above zero", s)
	}
	if m[1] != "" {
		experts, err := strconv.Atoi(m[1])
		if err != nil || experts < 1 {
			return 0, fmt.Errorf("%q names no number of experts", s)
		}
		n *= float64(experts)
	}
	return n * unit, nil
}

// Scenario is a load by name.
type Scenario struct {
	Name              string   `json:"name" yaml:"name"`
	Duration          Duration `json:"duration" yaml:"duration"`
	RampUp            Duration `json:"ramp_up,omitempty" yaml:"ramp_up"`
	Pattern           string   `json:"pattern" yaml:"pattern"` // parallel, sequential, batch, saturation, sustained
	MaxConcurrency    int      `json:"max_concurrency,omitempty" yaml:"max_concurrency"`
	Levels            []int    `json:"levels,omitempty" yaml:"levels"`     // parallel: 1, 2, 4 … MaxConcurrency when empty
	Requests          int      `json:"requests,omitempty" yaml:"requests"` // sequential: this many, instead of or within the duration
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
