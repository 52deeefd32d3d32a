package telemetry

import (
	"errors"
	"math"
	"time"

	"github.com/assay-bench/assay"
)

// errClosed is what a closed source answers.
var errClosed = errors.New("the source was closed")

// slowEvery is how often a reading is given that hardly changes, or whose
// source should not be asked more often.
const slowEvery = time.Second

// say hands on readings of one source after a look at them: a name must be one
// of the table, and a value must be one that such a thing can have. A driver
// that says 4294967295 W, or an exporter's "blank" number, said nothing.
type say struct {
	unit map[string]string
	now  func() time.Time
	last map[said]heard
}

type said struct{ name, device string }

type heard struct {
	value float64
	at    time.Time
}

func newSay() *say {
	s := &say{unit: map[string]string{}, now: time.Now, last: map[said]heard{}}
	for _, n := range assay.ReadingNames() {
		s.unit[n.Name] = n.Unit
	}
	return s
}

// give hands the reading to emit if it can be true, and reports whether it was.
func (s *say) give(emit func(assay.Reading), name, device string, v float64) bool {
	unit, ok := s.unit[name]
	if !ok {
		return false
	}
	if v, ok = plausible(name, unit, v); !ok {
		return false
	}
	emit(assay.Reading{Name: name, Device: device, Value: &v})
	return true
}

// slowly is give, at most once in slowEvery.
func (s *say) slowly(emit func(assay.Reading), name, device string, v float64) {
	now, key := s.now(), said{name, device}
	if h, ok := s.last[key]; ok && now.Sub(h.at) < slowEvery-tickSlack {
		return
	}
	if s.give(emit, name, device, v) {
		s.last[key] = heard{v, now}
	}
}

// changes is give when the value changed, and otherwise at most once in
// slowEvery: a flag's course is known exactly, and costs little.
func (s *say) changes(emit func(assay.Reading), name, device string, v float64) {
	now, key := s.now(), said{name, device}
	if h, ok := s.last[key]; ok && h.value == v && now.Sub(h.at) < slowEvery-tickSlack {
		return
	}
	if s.give(emit, name, device, v) {
		s.last[key] = heard{v, now}
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
func (s *say) reasons(emit func(assay.Reading), device string, active, supported uint64) {
	for _, r := range clockReasons {
		if (active|supported)&r.bit == 0 {
			continue
		}
		v := 0.
		if active&r.bit != 0 {
			v = 1
		}
		s.changes(emit, r.name, device, v)
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
