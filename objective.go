package assay

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"
)

// Limit is what one request must keep to count as good: vLLM's
// "--goodput ttft:200", in milliseconds.
type Limit struct {
	Metric string  `json:"metric"` // ttft, tpot, e2el
	MaxMS  float64 `json:"max_ms"`
}

var limitForm = regexp.MustCompile(`^(ttft|tpot|e2el|e2e):([0-9.]+)$`)

// ParseLimit reads "ttft:200".
func ParseLimit(s string) (Limit, error) {
	m := limitForm.FindStringSubmatch(s)
	if m == nil {
		return Limit{}, fmt.Errorf("%q is not a goodput limit; write NAME:MILLISECONDS with NAME one of ttft, tpot, e2el, for example ttft:200", s)
	}
	v, err := strconv.ParseFloat(m[2], 64)
	if err != nil || v <= 0 {
		return Limit{}, fmt.Errorf("%q: the limit must be a positive number of milliseconds", s)
	}
	if m[1] == "e2e" {
		m[1] = "e2el"
	}
	return Limit{Metric: m[1], MaxMS: v}, nil
}

// Objective is what a stage must keep: "ttft_p99<200ms", "error_rate<1%".
type Objective struct {
	Metric string  `json:"metric"`         // a name of [Metrics], without its unit: ttft, tpot, itl, e2e, ttft_intended, error_rate
	Stat   string  `json:"stat,omitempty"` // p50 … p99.9, mean; empty for error_rate
	Max    float64 `json:"max"`            // milliseconds, or a ratio for error_rate
}

var objectiveForm = regexp.MustCompile(`^\s*(?:(ttft|ttft_intended|ttfo|tpot|itl|e2e|e2e_intended)_(p[0-9]{1,2}(?:\.[0-9]{1,3})?|mean)|(error_rate))\s*(?:<=|<)\s*([0-9.]+[a-zµ%]*)\s*$`)

// ParseObjective reads "ttft_p99<200ms" or "error_rate<1%". A bare number is
// milliseconds, or a ratio for error_rate.
func ParseObjective(s string) (Objective, error) {
	m := objectiveForm.FindStringSubmatch(s)
	if m == nil {
		return Objective{}, fmt.Errorf("%q is not an objective; write METRIC_pNN<DURATION with METRIC one of ttft, ttft_intended, ttfo, tpot, itl, e2e, e2e_intended, or error_rate<1%%; for example ttft_p99<200ms", s)
	}
	o := Objective{Metric: m[1], Stat: m[2]}
	if m[3] != "" {
		o.Metric = m[3]
		text, scale := m[4], 1.0
		if n := len(text); text[n-1] == '%' {
			text, scale = text[:n-1], 0.01
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return Objective{}, fmt.Errorf("%q: %q is not a ratio; write 0.01 or 1%%", s, m[4])
		}
		o.Max = v * scale
		return o, nil
	}
	if v, err := strconv.ParseFloat(m[4], 64); err == nil {
		o.Max = v
	} else if d, err := time.ParseDuration(m[4]); err == nil {
		o.Max = float64(d) / float64(time.Millisecond)
	} else {
		return Objective{}, fmt.Errorf("%q: %q is not a duration; write 200ms", s, m[4])
	}
	if o.Max <= 0 || math.IsInf(o.Max, 0) {
		return Objective{}, fmt.Errorf("%q: the limit must be positive", s)
	}
	if o.Stat == "p0" {
		return Objective{}, fmt.Errorf("%q: there is no 0th percentile", s)
	}
	return o, nil
}

// Level is the percentile that the objective speaks of; ok is false for mean
// and for error_rate.
func (o Objective) Level() (level float64, ok bool) {
	if len(o.Stat) < 2 || o.Stat[0] != 'p' {
		return 0, false
	}
	v, err := strconv.ParseFloat(o.Stat[1:], 64)
	return v, err == nil
}

func (o Objective) String() string {
	if o.Metric == "error_rate" {
		return fmt.Sprintf("error_rate<%g%%", o.Max*100)
	}
	return fmt.Sprintf("%s_%s<%gms", o.Metric, o.Stat, o.Max)
}
