package telemetry

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
)

// processorChips are the drivers under /sys/class/hwmon that measure processors;
// disks, networks and power supplies have sensors there, too.
var processorChips = []string{"coretemp", "k10temp", "zenpower", "via_cputemp", "cpu_thermal", "soc_thermal", "scpi_sensors", "apm_xgene"}

// processorZones begin the types under /sys/class/thermal that are processors,
// where no such driver is.
var processorZones = []string{"x86_pkg_temp", "cpu", "soc"}

// packageLabels are of sensors that speak for a whole processor, the best first.
// Its cores' own sensors are then left alone: asking one interrupts the core.
var packageLabels = []string{"Package", "Tdie", "Tctl"}

// temperatures gives that of each processor, as coretemp0, k10temp1 and so on. A
// virtual machine has none.
func (h *Host) temperatures(emit func(assay.Reading)) {
	seen := map[string]int{}
	put := func(kind string, v float64) {
		h.filter.emit(emit, assay.HostTemperature, fmt.Sprintf("%s%d", kind, seen[kind]), v)
		seen[kind]++
	}
	chips, err := filepath.Glob(filepath.Join(h.o.SysRoot, "class/hwmon/hwmon*"))
	if err != nil {
		return
	}
	for _, chip := range chips {
		kind := strings.TrimSpace(fileText(filepath.Join(chip, "name")))
		if !slices.Contains(processorChips, kind) {
			continue
		}
		if v, ok := chipTemperature(chip); ok {
			put(kind, v)
		}
	}
	if len(seen) > 0 {
		return
	}
	zones, err := filepath.Glob(filepath.Join(h.o.SysRoot, "class/thermal/thermal_zone*"))
	if err != nil {
		return
	}
	for _, zone := range zones {
		kind := strings.TrimSpace(fileText(filepath.Join(zone, "type")))
		for _, begin := range processorZones {
			if !strings.HasPrefix(kind, begin) {
				continue
			}
			if v, ok := fileNumber(filepath.Join(zone, "temp")); ok {
				put(begin, v/1000)
			}
			break
		}
	}
}

// chipTemperature is that of the sensor that speaks for the whole chip, or else of
// the hottest one.
func chipTemperature(chip string) (celsius float64, ok bool) {
	inputs, err := filepath.Glob(filepath.Join(chip, "temp*_input"))
	if err != nil {
		return 0, false
	}
	for _, label := range slices.Concat(packageLabels, []string{""}) {
		for _, input := range inputs {
			if label != "" && !strings.HasPrefix(fileText(strings.TrimSuffix(input, "input")+"label"), label) {
				continue
			}
			if v, there := fileNumber(input); there && (!ok || v/1000 > celsius) {
				celsius, ok = v/1000, true
			}
		}
		if ok {
			return celsius, true
		}
	}
	return 0, false
}
