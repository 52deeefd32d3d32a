package report

import (
	"math"
	"strconv"
	"time"

	"github.com/assay-bench/assay"
)

// missing is what stands where there is no value.
const missing = "–"

// Number writes a figure as every page does.
func Number(v float64) string { return number(v) }

// number writes three significant digits, and whole numbers above a hundred.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return missing
	case a >= 99.95 || a == 0:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.9995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
}

// streams writes a load: three significant digits, and no more than needed.
func streams(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return missing
	}
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// fewMark marks a percentile of too few samples for an interval.
const fewMark = "~"

// percentile writes a percentile, with a mark where the samples are too few for
// an interval.
func percentile(d assay.Dist, level float64) string {
	p, ok := d.P(level)
	switch {
	case d.N == 0 || !ok:
		return missing
	case !p.Held():
		return number(p.Value) + fewMark
	}
	return number(p.Value)
}

func percent(ratio float64) string { return number(ratio*100) + " %" }

// spell writes a duration as people say it.
func spell(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return d.Round(time.Minute).String()
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
