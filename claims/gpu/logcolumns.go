package gpu

import (
	"github.com/assay-bench/assay"
)

// logColumn is a column of the log: dmon's name and unit, and how its value comes
// from the readings now and at the line before; nil: no source reads it.
type logColumn struct {
	name, unit string
	value      func(now, before map[string]assay.Reading) (float64, bool)
}

// logColumns are those of nvidia-smi dmon -s pucvmet, in its order.
var logColumns = []logColumn{
	{"pwr", "W", scaled(assay.GPUPower, 1)},
	{"gtemp", "C", scaled(assay.GPUTemperature, 1)},
	{"mtemp", "C", scaled(assay.GPUMemoryTemperature, 1)},
	{"sm", "%", scaled(assay.GPUUtilization, 100)},
	{"mem", "%", scaled(assay.GPUMemoryUtilization, 100)},
	{"enc", "%", nil},
	{"dec", "%", nil},
	{"jpg", "%", nil},
	{"ofa", "%", nil},
	{"mclk", "MHz", scaled(assay.GPUMemoryClock, 1e-6)},
	{"pclk", "MHz", scaled(assay.GPUSMClock, 1e-6)},
	{"pviol", "%", shareOfTime(assay.GPUPowerCapSeconds)},
	{"tviol", "bool", anyOf(assay.GPUThrottledSWThermal, assay.GPUThrottledHWThermal)},
	{"fb", "MB", scaled(assay.GPUMemoryUsed, 1.0/(1<<20))},
	{"bar1", "MB", nil},
	{"sbecc", "errs", scaled(assay.GPUECCCorrected, 1)},
	{"dbecc", "errs", scaled(assay.GPUECCUncorrected, 1)},
	{"pci", "errs", scaled(assay.GPUPCIeReplays, 1)},
	{"rxpci", "MB/s", nil},
	{"txpci", "MB/s", nil},
}

func scaled(name string, by float64) func(now, before map[string]assay.Reading) (float64, bool) {
	return func(now, _ map[string]assay.Reading) (float64, bool) {
		r, ok := now[name]
		if !ok {
			return 0, false
		}
		return *r.Value * by, true
	}
}

// shareOfTime is how much of the time between two readings a counter of seconds
// rose by, in percent.
func shareOfTime(name string) func(now, before map[string]assay.Reading) (float64, bool) {
	return func(now, before map[string]assay.Reading) (float64, bool) {
		b, okB := now[name]
		a, okA := before[name]
		if !okA || !okB || b.At <= a.At || *b.Value < *a.Value {
			return 0, false
		}
		return 100 * (*b.Value - *a.Value) / (float64(b.At-a.At) / 1e9), true
	}
}

// anyOf is 1 when one of the flags is set, and known when one of them is or all
// of them are read.
func anyOf(names ...string) func(now, before map[string]assay.Reading) (float64, bool) {
	return func(now, _ map[string]assay.Reading) (float64, bool) {
		all := true
		for _, name := range names {
			r, ok := now[name]
			if ok && *r.Value > 0 {
				return 1, true
			}
			all = all && ok
		}
		return 0, all
	}
}
