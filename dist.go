package assay

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Dist is a distribution, reduced. Percentiles are by nearest rank from the raw
// samples. Of gaps between tokens those that are only bounds are left out of the
// percentiles, and counted in everything else. In JSON the percentiles stand beside the rest as p50, p99, p99.9…,
// and their 95 % intervals under ci95.
type Dist struct {
	N int
	// Effective is N divided by the autocorrelation time: how many independent
	// samples the interval may count on.
	Effective   float64
	Mean        float64
	Stddev      float64 // of the sample, n−1
	Min, Max    float64
	Percentiles []Percentile
}

// Histogram counts values in ranges of equal width: Counts[i] are at least
// Edges[i] and below Edges[i+1]. The last count is of all that are above.
type Histogram struct {
	Edges  []float64 `json:"edges"`
	Counts []int     `json:"counts"`
}

// Percentile is one percentile of a Dist.
type Percentile struct {
	Level  float64 // in (0,100)
	Value  float64
	Lo, Hi float64 // exact equal-tailed 95 % interval; NaN when there are too few samples for one
	Need   int     // effective samples that an interval needs
}

// Held reports whether the samples suffice for a 95 % interval. A percentile that
// is not held up is printed with a mark, and decides nothing.
func (p Percentile) Held() bool { return !math.IsNaN(p.Lo) && !math.IsNaN(p.Hi) }

// Name is the percentile's key in JSON: p50, p99.9.
func (p Percentile) Name() string { return PercentileName(p.Level) }

// PercentileName is the key of a level: 99.9 gives p99.9.
func PercentileName(level float64) string {
	return "p" + strconv.FormatFloat(level, 'f', -1, 64)
}

// P gives the percentile of a level, ok false when it was not computed.
func (d Dist) P(level float64) (Percentile, bool) {
	for _, p := range d.Percentiles {
		if p.Level == level {
			return p, true
		}
	}
	return Percentile{}, false
}

// Needed is about how many samples give as many independent ones as p needs for
// an interval, when they depend on each other as those of d do.
func (d Dist) Needed(p Percentile) int {
	if !(d.Effective > 0) {
		return p.Need
	}
	return int(math.Ceil(float64(p.Need)*float64(d.N)/d.Effective/10) * 10)
}

// MarshalJSON writes {n, n_effective, mean, stddev, min, max, p50, …, ci95}. An
// empty distribution is {"n":0}: its figures are absent, not zero. Where the
// samples are too few for an interval, ci95 has {"interval": null, needs_n, why}
// in its place.
func (d Dist) MarshalJSON() ([]byte, error) {
	if d.N == 0 {
		return []byte(`{"n":0}`), nil
	}
	b := make([]byte, 0, 256)
	b = append(b, `{"n":`...)
	b = strconv.AppendInt(b, int64(d.N), 10)
	num := func(key string, v float64) {
		b = append(b, `,"`...)
		b = append(b, key...)
		b = append(b, `":`...)
		b = appendFloat(b, v)
	}
	num("n_effective", d.Effective)
	num("mean", d.Mean)
	if d.N > 1 {
		num("stddev", d.Stddev)
	}
	num("min", d.Min)
	num("max", d.Max)
	for _, p := range d.Percentiles {
		num(p.Name(), p.Value)
	}
	b = append(b, `,"ci95":{`...)
	for i, p := range d.Percentiles {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = append(b, p.Name()...)
		b = append(b, `":`...)
		if !p.Held() {
			b = append(b, fmt.Sprintf(`{"interval":null,"needs_n":%d,"why":"%.0f effective samples of %d needed"}`, p.Need, math.Floor(d.Effective), p.Need)...)
			continue
		}
		b = append(b, '[')
		b = appendFloat(b, p.Lo)
		b = append(b, ',')
		b = appendFloat(b, p.Hi)
		b = append(b, ']')
	}
	return append(b, '}', '}'), nil
}

func appendFloat(b []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, v, 'g', 10, 64)
}

// UnmarshalJSON reads what MarshalJSON writes, and what it wrote before 0.2:
// {"needs_n"} for an interval that there is not.
func (d *Dist) UnmarshalJSON(data []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	*d = Dist{}
	for key, dst := range map[string]*float64{
		"n_effective": &d.Effective, "mean": &d.Mean, "stddev": &d.Stddev, "min": &d.Min, "max": &d.Max,
	} {
		if v, ok := raw[key]; ok {
			if err := json.Unmarshal(v, dst); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	if v, ok := raw["n"]; ok {
		if err := json.Unmarshal(v, &d.N); err != nil {
			return fmt.Errorf("n: %w", err)
		}
	}
	ci := map[string]json.RawMessage{}
	if v, ok := raw["ci95"]; ok {
		if err := json.Unmarshal(v, &ci); err != nil {
			return fmt.Errorf("ci95: %w", err)
		}
	}
	for key, v := range raw {
		level, err := strconv.ParseFloat(strings.TrimPrefix(key, "p"), 64)
		if !strings.HasPrefix(key, "p") || err != nil {
			continue
		}
		p := Percentile{Level: level, Lo: math.NaN(), Hi: math.NaN()}
		if err := json.Unmarshal(v, &p.Value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		var pair [2]float64
		var needs struct {
			N int `json:"needs_n"`
		}
		if c, ok := ci[key]; ok {
			if json.Unmarshal(c, &pair) == nil {
				p.Lo, p.Hi = pair[0], pair[1]
			} else if json.Unmarshal(c, &needs) == nil {
				p.Need = needs.N
			}
		}
		d.Percentiles = append(d.Percentiles, p)
	}
	slices.SortFunc(d.Percentiles, func(a, b Percentile) int {
		if a.Level < b.Level {
			return -1
		}
		return 1
	})
	return nil
}
