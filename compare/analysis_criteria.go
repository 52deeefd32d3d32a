package compare

import (
	"fmt"
	"math"
	"strconv"

	"github.com/assay-bench/assay"
)

// Criterion is one of the success criteria.
type Criterion struct {
	Name string `json:"name"`
	Met  bool   `json:"met"`
	// Measured is what was found, in words.
	Measured string `json:"measured"`
}

const (
	minMeasurements = 50   // a test case must have more
	maxCV           = 0.10 // within an engine
)

func (b *bench) criteria(a Analysis) []Criterion {
	return []Criterion{b.enough(), b.steady(a), b.significant(a), b.enclosed(a), b.sized(a)}
}

// enough: more than 50 measurements for each test case of each engine.
func (b *bench) enough() Criterion {
	c := Criterion{Name: "more than 50 measurements a test case", Measured: "nothing was measured"}
	fewest := -1
	for _, w := range b.Workloads {
		for _, e := range b.engines {
			runs := b.runs[key{e, w}]
			if len(runs) == 0 {
				continue
			}
			n := 0
			for _, s := range runs {
				n += s.OK / max(1, s.Cases)
			}
			if fewest < 0 || n < fewest {
				fewest = n
				c.Measured = fmt.Sprintf("at least %d (%s, %s)", n, e, w)
			}
		}
	}
	c.Met = fewest > minMeasurements
	return c
}

// steady: a coefficient of variation below 10 % within each engine.
func (b *bench) steady(a Analysis) Criterion {
	c := Criterion{Name: "variation below 10 % within an engine", Measured: "not known: no engine has two runs"}
	worst := -1.0
	for _, f := range a.Figures {
		if f.Metric != a.Family.Primary && f.Metric != latencyMetric && f.Metric != throughputMetric || f.CV == nil {
			continue
		}
		if *f.CV > worst {
			worst = *f.CV
			c.Measured = fmt.Sprintf("at most %s (%s, %s, %s)", percent(worst), f.Engine, f.Workload, f.Metric)
		}
	}
	c.Met = worst >= 0 && worst < maxCV
	return c
}

// significant: p < 0.05 for the differences, by the adjusted p of the primary
// metric against the first engine.
func (b *bench) significant(a Analysis) Criterion {
	c := Criterion{Name: "p below 0.05 for the differences in " + a.Family.Primary}
	below, of := 0, 0
	for _, x := range a.Comparisons {
		if x.Metric != a.Family.Primary || x.Against != b.engines[0] {
			continue
		}
		of++
		if x.Adjusted != nil && *x.Adjusted < 0.05 {
			below++
		}
	}
	c.Met = of > 0 && below == of
	c.Measured = fmt.Sprintf("%d of %d comparisons with %s, adjusted for %d tests", below, of, b.first(), a.Family.Tests)
	return c
}

func (b *bench) first() string {
	if len(b.engines) == 0 {
		return "nothing"
	}
	return b.engines[0]
}

// enclosed: an interval for every comparison that could be made.
func (b *bench) enclosed(a Analysis) Criterion {
	c := Criterion{Name: fmt.Sprintf("%s confidence intervals", confidence(a.Family.Confidence))}
	have, of := 0, 0
	for _, x := range a.Comparisons {
		if x.Verdict == NotComparable {
			continue
		}
		of++
		if x.Change.Known() && !math.IsNaN(x.Change.Lo) && !math.IsNaN(x.Change.Hi) {
			have++
		}
	}
	c.Met, c.Measured = of > 0 && have == of, fmt.Sprintf("%d of %d comparisons have one", have, of)
	return c
}

// sized: an effect size for every comparison that could be made.
func (b *bench) sized(a Analysis) Criterion {
	c := Criterion{Name: "effect sizes"}
	have, of := 0, 0
	for _, x := range a.Comparisons {
		if x.Verdict == NotComparable {
			continue
		}
		of++
		if x.Cliff != nil {
			have++
		}
	}
	c.Met, c.Measured = of > 0 && have == of, fmt.Sprintf("%d of %d comparisons have one", have, of)
	return c
}

// number writes three significant digits, and whole numbers above a hundred.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= 99.95 || a == 0:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.9995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func percent(share float64) string { return number(share*100) + " %" }

// confidence writes a level of confidence: 95 %, 99.9 %.
func confidence(level float64) string {
	return strconv.FormatFloat(math.Round(level*1e6)/1e4, 'f', -1, 64) + " %"
}

// change writes a ratio as people say it, with its interval.
func change(c Comparison, q assay.Quantity) string {
	if !q.Known() {
		return "–"
	}
	write := func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
	if c.Scale == "difference" {
		write = func(v float64) string {
			if c.Unit == "ratio" {
				return strconv.FormatFloat(v*100, 'f', 2, 64) + " %"
			}
			return number(v)
		}
	} else if math.Abs(q.Est) >= 10 {
		write = number
	}
	if math.IsNaN(q.Lo) || math.IsNaN(q.Hi) {
		return write(q.Est)
	}
	return fmt.Sprintf("%s [%s, %s]", write(q.Est), write(q.Lo), write(q.Hi))
}
