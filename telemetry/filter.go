package telemetry

import (
	"errors"
	"math"
	"time"

	"github.com/assay-bench/assay"
)

// errClosed is what a closed source answers.
var errClosed = errors.New("the source was closed")

// slowEvery is how often a reading is handed on that hardly changes, or whose
// source should not be asked more often.
const slowEvery = time.Second

// filter hands on the readings of one source that can be true: a name must be one
// of the table, and a value must be one that such a thing can have. 4294967295 W,
// or an exporter's "blank" number, is no reading.
type filter struct {
	unit map[string]string
	now  func() time.Time
	last map[key]lastValue
}

type key struct{ name, device string }

type lastValue struct {
	value float64
	at    time.Time
}

func newFilter() *filter {
	f := &filter{unit: map[string]string{}, now: time.Now, last: map[key]lastValue{}}
	for _, n := range assay.ReadingNames() {
		f.unit[n.Name] = n.Unit
	}
	return f
}

// emit hands the reading to emit if it can be true, and reports whether it was.
func (f *filter) emit(emit func(assay.Reading), name, device string, v float64) bool {
	unit, ok := f.unit[name]
	if !ok {
		return false
	}
	if v, ok = plausible(name, unit, v); !ok {
		return false
	}
	emit(assay.Reading{Name: name, Device: device, Value: &v})
	return true
}

// emitEvery is emit, at most once in slowEvery.
func (f *filter) emitEvery(emit func(assay.Reading), name, device string, v float64) {
	now, key := f.now(), key{name, device}
	if h, ok := f.last[key]; ok && now.Sub(h.at) < slowEvery-tickSlack {
		return
	}
	if f.emit(emit, name, device, v) {
		f.last[key] = lastValue{v, now}
	}
}

// emitChange is emit when the value changed, and otherwise at most once in
// slowEvery: a flag's course is known exactly, and costs little.
func (f *filter) emitChange(emit func(assay.Reading), name, device string, v float64) {
	now, key := f.now(), key{name, device}
	if h, ok := f.last[key]; ok && h.value == v && now.Sub(h.at) < slowEvery-tickSlack {
		return
	}
	if f.emit(emit, name, device, v) {
		f.last[key] = lastValue{v, now}
	}
}

// clockReasons are the driver's bits of why clocks are low, as words.
var clockReasons = [...]struct {
	bit  uint64
	name string
}{
	{0x1, assay.GPUThrottledIdle},
	{0x2, assay.GPUThrottledAppClocks},
	{0x4, assay.GPUThrottledPowerCap},
	{0x8, assay.GPUThrottledHWSlowdown},
	{0x10, assay.GPUThrottledSyncBoost},
	{0x20, assay.GPUThrottledSWThermal},
	{0x40, assay.GPUThrottledHWThermal},
	{0x80, assay.GPUThrottledPowerBrake},
	{0x100, assay.GPUThrottledDisplay},
}

// reasons gives a flag for each reason that the card can have. A bit that it
// does not support says nothing when it is not set.
func (f *filter) reasons(emit func(assay.Reading), device string, active, supported uint64) {
	for _, r := range clockReasons {
		if (active|supported)&r.bit == 0 {
			continue
		}
		v := 0.
		if active&r.bit != 0 {
			v = 1
		}
		f.emitChange(emit, r.name, device, v)
	}
}

// plausible says whether a thing of this unit can have this value. The bounds
// are wide: they catch garbage, and judge no card.
func plausible(name, unit string, v float64) (float64, bool) {
	lo, hi := 0., 1e18
	switch unit {
	case "ratio":
		hi = 1
		if name == assay.GPUFanSpeed {
			hi = 4 // drivers say that it may be above 1
		}
		if v > hi && v < hi+1e-6 {
			v = hi // a sum of floating point numbers
		}
	case "flag":
		return v, v == 0 || v == 1
	case "celsius":
		lo, hi = -100, 300
	case "watts":
		hi = 1e5
	case "hertz":
		hi = 1e13
	case "bytes":
		hi = 1 << 62
	case "lanes":
		hi = 64
	case "code":
		hi = 1 << 20
	case "seconds", "joules":
	default: // counts
		hi = 1 << 53
	}
	return v, !math.IsNaN(v) && v >= lo && v <= hi
}
