package telemetry

import (
	"strconv"
	"strings"

	"github.com/assay-bench/assay"
)

// smiField is one column of nvidia-smi's --query-gpu.
type smiField struct {
	name string
	// old is what an older driver called it; it is tried when name is refused.
	old     string
	renamed bool
	// reading is what the column gives, in units of factor. Columns that need
	// more than that are read by smiRow.emit.
	reading string
	factor  float64
	pace    pace
}

// pace is how often a reading is given.
type pace uint8

const (
	fast   pace = iota // each time
	slow               // once a second
	change             // when it changed, and once a second
)

// smiFields are the columns that are asked for. nvidia-smi has neither energy
// nor XIDs nor PCIe replays here: those readings are absent with this source.
var smiFields = []smiField{
	{name: "index"},
	{name: "uuid"},
	{name: "utilization.gpu", reading: assay.GPUUtilization, factor: 0.01},
	{name: "utilization.memory", reading: assay.GPUMemoryUtilization, factor: 0.01},
	{name: "memory.total", reading: assay.GPUMemoryTotal, factor: 1 << 20, pace: slow},
	{name: "memory.used", reading: assay.GPUMemoryUsed, factor: 1 << 20},
	{name: "memory.free", reading: assay.GPUMemoryFree, factor: 1 << 20, pace: slow},
	{name: "temperature.gpu", reading: assay.GPUTemperature, factor: 1},
	{name: "temperature.memory", reading: assay.GPUMemoryTemperature, factor: 1, pace: slow},
	{name: "power.draw.instant"},
	{name: "power.draw"},
	{name: "enforced.power.limit", reading: assay.GPUPowerLimit, factor: 1, pace: slow},
	{name: "clocks.current.sm", reading: assay.GPUSMClock, factor: 1e6},
	{name: "clocks.current.memory", reading: assay.GPUMemoryClock, factor: 1e6},
	{name: "clocks.max.sm", reading: assay.GPUSMClockMax, factor: 1e6, pace: slow},
	{name: "clocks.max.memory", reading: assay.GPUMemoryClockMax, factor: 1e6, pace: slow},
	{name: "fan.speed", reading: assay.GPUFanSpeed, factor: 0.01, pace: slow},
	{name: "clocks_event_reasons.active", old: "clocks_throttle_reasons.active"},
	{name: "clocks_event_reasons.supported", old: "clocks_throttle_reasons.supported"},
	{name: "clocks_event_reasons_counters.sw_power_cap", reading: assay.GPUPowerCapSeconds, factor: 1e-6, pace: slow},
	{name: "clocks_event_reasons_counters.sw_thermal_slowdown", reading: assay.GPUSWThermalSeconds, factor: 1e-6, pace: slow},
	{name: "clocks_event_reasons_counters.hw_thermal_slowdown", reading: assay.GPUHWThermalSeconds, factor: 1e-6, pace: slow},
	{name: "clocks_event_reasons_counters.hw_power_brake_slowdown", reading: assay.GPUPowerBrakeSeconds, factor: 1e-6, pace: slow},
	{name: "ecc.errors.corrected.volatile.total", reading: assay.GPUECCCorrected, factor: 1, pace: change},
	{name: "ecc.errors.uncorrected.volatile.total", reading: assay.GPUECCUncorrected, factor: 1, pace: change},
	{name: "retired_pages.single_bit_ecc.count"},
	{name: "retired_pages.double_bit.count"},
	{name: "remapped_rows.pending"},
	{name: "remapped_rows.failure"},
	{name: "gpu_recovery_action"},
	{name: "pcie.link.gen.gpucurrent", old: "pcie.link.gen.current", reading: assay.GPUPCIeLinkGeneration, factor: 1, pace: change},
	{name: "pcie.link.gen.max", reading: assay.GPUPCIeLinkGenMax, factor: 1, pace: slow},
	{name: "pcie.link.width.current", reading: assay.GPUPCIeLinkWidth, factor: 1, pace: change},
	{name: "pcie.link.width.max", reading: assay.GPUPCIeLinkWidthMax, factor: 1, pace: slow},
	{name: "fabric.state"},
	{name: "fabric.status"},
}

// smiRow is one line of answer: the columns that were asked for, as words.
type smiRow struct {
	fields []smiField
	values []string
}

// newSMIRow reads a line. It has to have a word for each column; anything else
// is a message or a line cut short.
func newSMIRow(fields []smiField, line string) (smiRow, bool) {
	if strings.Count(line, ",") != len(fields)-1 {
		return smiRow{}, false
	}
	values := strings.Split(line, ",")
	for i, v := range values {
		values[i] = strings.TrimSpace(v)
	}
	return smiRow{fields, values}, true
}

func (r smiRow) word(name string) string {
	for i, f := range r.fields {
		if f.name == name || f.old == name {
			return r.values[i]
		}
	}
	return ""
}

// number reads a column as a number. All the ways of saying that there is no
// value ([N/A], [Not Supported], [Unknown Error], ERR!…) are no numbers.
func (r smiRow) number(name string) (float64, bool) { return decimal(r.word(name)) }

func decimal(s string) (float64, bool) {
	if s == "" || strings.Trim(s, "0123456789.-") != "" { // no hexadecimal, no "Infinity"
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil
}

func (r smiRow) mask(name string) (uint64, bool) {
	hex, ok := strings.CutPrefix(r.word(name), "0x")
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseUint(hex, 16, 64)
	return v, err == nil
}

func (r smiRow) flag(name string) (float64, bool) {
	switch strings.ToLower(r.word(name)) {
	case "yes", "1":
		return 1, true
	case "no", "0":
		return 0, true
	}
	return 0, false
}

// lost reports whether any column says that the GPU fell off the bus.
func (r smiRow) lost() bool {
	for _, v := range r.values {
		if saysLost(v) {
			return true
		}
	}
	return false
}

func saysLost(s string) bool { return strings.Contains(strings.ToLower(s), "gpu is lost") }

// recoveryActions are the driver's words for what NVML has as numbers. A word
// that is not here is absent, not "none".
var recoveryActions = map[string]float64{
	"none": 0, "reset": 1, "gpu reset": 1, "reboot": 2, "node reboot": 2,
	"drain p2p": 3, "drain and reset": 4,
}

func (r smiRow) emit(s *filter, emit func(assay.Reading), device string) {
	emitAt := func(p pace, name string, v float64) {
		switch p {
		case slow:
			s.emitEvery(emit, name, device, v)
		case change:
			s.emitChange(emit, name, device, v)
		default:
			s.emit(emit, name, device, v)
		}
	}
	for i, f := range r.fields {
		if f.reading == "" {
			continue
		}
		if v, ok := decimal(r.values[i]); ok {
			emitAt(f.pace, f.reading, v*f.factor)
		}
	}
	if v, ok := r.number("power.draw.instant"); ok {
		emitAt(fast, assay.GPUPower, v)
		emitAt(slow, assay.GPUPowerInstant, 1)
	} else if v, ok := r.number("power.draw"); ok {
		emitAt(fast, assay.GPUPower, v)
		emitAt(slow, assay.GPUPowerInstant, 0)
	}
	if active, ok := r.mask("clocks_event_reasons.active"); ok {
		supported, ok := r.mask("clocks_event_reasons.supported")
		if !ok {
			supported = ^uint64(0)
		}
		s.reasons(emit, device, active, supported)
	}
	single, ok1 := r.number("retired_pages.single_bit_ecc.count")
	double, ok2 := r.number("retired_pages.double_bit.count")
	if ok1 && ok2 {
		emitAt(change, assay.GPURetiredPages, single+double)
	}
	if v, ok := r.flag("remapped_rows.pending"); ok {
		emitAt(change, assay.GPURowRemapPending, v)
	}
	if v, ok := r.flag("remapped_rows.failure"); ok {
		emitAt(change, assay.GPURowRemapFailed, v)
	}
	if v, ok := recoveryActions[strings.ToLower(r.word("gpu_recovery_action"))]; ok {
		emitAt(change, assay.GPURecoveryAction, v)
	}
	switch state, status := r.word("fabric.state"), r.word("fabric.status"); {
	case state == "Completed" && status == "Success":
		emitAt(change, assay.GPUFabricReady, 1)
	case state == "Completed" && status != "" && !strings.Contains(status, "N/A"),
		state == "In Progress", state == "Not Started":
		emitAt(change, assay.GPUFabricReady, 0)
	}
}
