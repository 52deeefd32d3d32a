package claims

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A written unit says of which kind it is, and how many of the kind's own unit
// it is: probes measure in the kind's own.
type writtenUnit struct {
	kind string
	of   float64
}

// Kinds of units, named by the unit in which probes measure.
const (
	unitSeconds = "s"
	unitRate    = "1/s"
	unitBytes   = "bytes"
	unitFlow    = "bytes/s"
	unitRatio   = "ratio"
)

// writtenUnits are the units that a promise may be written in. A B is a byte,
// and a kB has a thousand of them: who means 1024 writes KiB.
func writtenUnits() map[string]writtenUnit {
	all := map[string]writtenUnit{
		"ns": {unitSeconds, 1e-9}, "us": {unitSeconds, 1e-6}, "µs": {unitSeconds, 1e-6}, "μs": {unitSeconds, 1e-6},
		"ms": {unitSeconds, 1e-3}, "s": {unitSeconds, 1},
		"/s": {unitRate, 1}, "1/s": {unitRate, 1}, "ops/s": {unitRate, 1},
		"k/s": {unitRate, 1e3}, "M/s": {unitRate, 1e6}, "G/s": {unitRate, 1e9}, "T/s": {unitRate, 1e12},
		"celsius": {"celsius", 1}, "°C": {"celsius", 1}, "W": {"watts", 1}, "watts": {"watts", 1},
		"Hz": {"hertz", 1}, "MHz": {"hertz", 1e6}, "GHz": {"hertz", 1e9},
		"%": {unitRatio, 0.01}, "ratio": {unitRatio, 1}, "x": {unitRatio, 1},
	}
	for name, of := range map[string]float64{
		"B": 1, "bytes": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	} {
		all[name] = writtenUnit{unitBytes, of}
		all[name+"/s"] = writtenUnit{unitFlow, of}
	}
	return all
}

// convert gives a value written in a unit in the unit that is wanted, or says
// why it has no meaning there.
func convert(value float64, written, want string) (float64, error) {
	if written == want {
		return value, nil
	}
	if written == "" {
		switch want {
		case "", "1", unitRatio:
			return value, nil
		}
		return 0, fmt.Errorf("the value needs a unit: this metric is measured in %s (%s)", want, strings.Join(unitsOf(want), " "))
	}
	u, known := writtenUnits()[written]
	switch {
	case known && u.kind == want:
		return value * u.of, nil
	case known:
		return 0, fmt.Errorf("%s is a unit of %s, and this metric is measured in %s", written, kindWords(u.kind), inWords(want))
	}
	return 0, fmt.Errorf("%q is no unit that is known here; this metric is measured in %s", written, inWords(want))
}

func kindWords(kind string) string {
	switch kind {
	case unitSeconds:
		return "time"
	case unitRate:
		return "operations a second"
	case unitBytes:
		return "an amount of memory"
	case unitFlow:
		return "memory a second"
	case unitRatio:
		return "a share"
	}
	return kind
}

func inWords(unit string) string {
	if all := unitsOf(unit); len(all) > 0 {
		return fmt.Sprintf("%s (%s)", unit, strings.Join(all, " "))
	}
	if unit == "" || unit == "1" {
		return "plain numbers"
	}
	return unit
}

// unitsOf are the ways to write a unit, the smallest first.
func unitsOf(unit string) []string {
	known := writtenUnits()
	var out []string
	for name, u := range known {
		if u.kind == unit && name != "KB" && name != "KB/s" && name != "μs" && name != "bytes" && name != "bytes/s" {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		switch {
		case known[a].of < known[b].of:
			return -1
		case known[a].of > known[b].of:
			return 1
		}
		return strings.Compare(a, b)
	})
	return out
}

// FormatValue writes a value in the unit that people use for its size: 49.1 µs,
// 2.61 G/s, 93.4 %. A value that is not known is a dash.
func FormatValue(v float64, unit string) string { return formatValue(v, unit, 3) }

func formatValue(v float64, unit string, significant int) string {
	if math.IsNaN(v) {
		return "–"
	}
	if math.IsInf(v, 0) {
		return map[bool]string{true: "∞", false: "−∞"}[v > 0]
	}
	of, name := Scale(v, unit)
	return strings.TrimSpace(digitsOf(v/of, significant) + " " + name)
}

// Scale is the unit in which people read a value of that size, and how many of
// the probe's own unit it is: 49.1e-6 s is read in µs, each 1e-6 s.
func Scale(v float64, unit string) (of float64, name string) {
	type step struct {
		of   float64
		name string
	}
	var steps []step
	switch unit {
	case unitSeconds:
		steps = []step{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}}
	case unitRate:
		steps = []step{{1e12, "T/s"}, {1e9, "G/s"}, {1e6, "M/s"}, {1e3, "k/s"}, {1, "/s"}}
	case unitBytes:
		steps = []step{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "B"}}
	case unitFlow:
		steps = []step{{1e12, "TB/s"}, {1e9, "GB/s"}, {1e6, "MB/s"}, {1e3, "kB/s"}, {1, "B/s"}}
	case "hertz":
		steps = []step{{1e9, "GHz"}, {1e6, "MHz"}, {1, "Hz"}}
	case unitRatio:
		return 0.01, "%"
	default:
		return 1, strings.TrimPrefix(unit, "1")
	}
	if v == 0 && unit == unitSeconds {
		return 1, "s"
	}
	for _, s := range steps {
		if math.Abs(v) >= 0.9995*s.of {
			return s.of, s.name
		}
	}
	last := steps[len(steps)-1]
	return last.of, last.name
}

// digitsOf writes some significant digits, whole numbers whole, and no exponent
// in the usual range.
func digitsOf(v float64, significant int) string {
	a := math.Abs(v)
	if a == 0 {
		return "0"
	}
	if a >= 1e7 || a < 1e-4 {
		return strconv.FormatFloat(v, 'g', significant, 64)
	}
	if a < 0.9995 {
		return strconv.FormatFloat(v, 'g', significant, 64)
	}
	before := 1 + int(math.Floor(math.Log10(a*(1+5*math.Pow10(-significant-1)))))
	return strconv.FormatFloat(v, 'f', max(0, significant-before), 64)
}
