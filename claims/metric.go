package claims

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// metricKind is what is computed of a probe's samples.
type metricKind uint8

const (
	metricMean metricKind = iota
	metricPercentile
	metricMin
	metricMax
	metricThroughput
)

// figure is a metric of a probe: what is computed, its unit and direction.
type figure struct {
	name   string
	kind   metricKind
	level  float64 // of a percentile
	unit   string
	better assay.Direction
	// ofTimes says that a throughput is made of times, not of rates.
	ofTimes bool
}

// MetricNames are the metrics that a claim may name; pN stands for any
// percentile between 0 and 100.
func MetricNames() []string {
	return []string{"mean", "p50", "p90", "p95", "p99", "pN", "min", "max", "throughput"}
}

// metricOf resolves a metric's name for a probe.
func metricOf(name string, p Probe) (figure, error) {
	f := figure{name: name, unit: p.Unit, better: p.Better}
	switch name {
	case "mean", "avg":
		f.name = "mean"
		return f, nil
	case "median":
		f.name, f.kind, f.level = "p50", metricPercentile, 50
		return f, nil
	case "min":
		f.kind = metricMin
		return f, nil
	case "max":
		f.kind = metricMax
		return f, nil
	case "throughput":
		f.kind, f.better = metricThroughput, assay.Higher
		switch p.Unit {
		case unitSeconds:
			f.unit, f.ofTimes = unitRate, true
		case unitRate, unitFlow:
		default:
			return f, fmt.Errorf("%s has no throughput: it is measured in %s, not in time or in something a second", p.Name, inWords(p.Unit))
		}
		return f, nil
	}
	if digits, ok := strings.CutPrefix(name, "p"); ok {
		level, err := strconv.ParseFloat(digits, 64)
		if err == nil && level > 0 && level < 100 {
			f.kind, f.level = metricPercentile, level
			return f, nil
		}
	}
	return f, fmt.Errorf("there is no metric %q; known are %s", foreign.Line(name, 60), strings.Join(MetricNames(), " "))
}
