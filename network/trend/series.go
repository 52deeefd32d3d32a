package trend

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/assay-bench/assay"
)

// Metrics of which a history is looked at, as a report's figures name them.
const (
	Throughput = "output_tokens_per_second"
	TTFT       = "ttft_p99_ms"
	TPOT       = "tpot_p50_ms"
	Efficiency = "tokens_per_joule"
)

// Metrics are the names of all that a history has.
func Metrics() []string { return []string{Throughput, TPOT, TTFT, Efficiency} }

// better is +1 where more of a metric is better, and -1 where less is.
func better(metric string) float64 {
	switch metric {
	case TTFT, TPOT:
		return -1
	}
	return 1
}

// Of takes a metric's value from the figures of a report; NaN: it has none.
func Of(metric string, b assay.Baseline) float64 {
	var p *float64
	switch metric {
	case Throughput:
		p = b.OutputTokensPerSecond
	case TTFT:
		p = b.TTFTp99MS
	case TPOT:
		p = b.TPOTp50MS
	case Efficiency:
		p = b.TokensPerJoule
	}
	if p == nil || !positive(*p) {
		return math.NaN()
	}
	return *p
}

// positive says whether v can be looked at: a logarithm is taken of it.
func positive(v float64) bool { return v > 0 && !math.IsInf(v, 0) }

// Figure is a metric of a report, as it is kept.
type Figure struct {
	Value float64  `json:"value"`
	Low   *float64 `json:"low,omitempty"` // of its own 95 % interval; absent: it has none
	High  *float64 `json:"high,omitempty"`
}

// Figures are those of a report by metric.
type Figures map[string]Figure

// ParseFigures reads figures. What a later version wrote may be none.
func ParseFigures(text []byte) Figures {
	var f Figures
	if json.Unmarshal(text, &f) != nil {
		return nil
	}
	return f
}

// Point is what one report says of a metric.
type Point struct {
	At    time.Time
	Value float64
	// Low and High are its own 95 % interval; NaN: the report has none. An interval
	// within one run says nothing of the next, so they are shown and decide nothing.
	Low, High float64
	Report    string
	// Config is what the figure was measured with: two points can be compared if
	// theirs is the same.
	Config string
}

// Latest is the newest series of a history: the points since the configuration last
// changed, in the order of time. Points without a value are left out.
func Latest(history []Point) []Point {
	out := make([]Point, 0, len(history))
	for _, p := range history {
		if positive(p.Value) && !p.At.IsZero() {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b Point) int { return a.At.Compare(b.At) })
	from := 0
	for i := 1; i < len(out); i++ {
		if out[i].Config != out[i-1].Config {
			from = i
		}
	}
	return out[from:]
}
