package nvml

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"unsafe"
)

// Memory is a GPU's memory in bytes. Used leaves out what the driver reserves
// where the driver tells the two apart.
type Memory struct{ Total, Used, Free uint64 }

// Memory asks for the memory in use.
func (d *Device) Memory() (Memory, Return) {
	s := d.l.s
	if !d.noMemory2 {
		s.mem2 = memory2{Version: version(unsafe.Sizeof(s.mem2), 2)}
		r := d.l.call(d.l.fn.DeviceMemory2, d.h, uintptr(unsafe.Pointer(&s.mem2)))
		if r == Success {
			return Memory{Total: s.mem2.Total, Used: s.mem2.Used, Free: s.mem2.Free}, r
		}
		if !r.Absent() && r != InvalidArgument {
			return Memory{}, r
		}
		d.noMemory2 = true
	}
	r := d.l.call(d.l.fn.DeviceMemory, d.h, uintptr(unsafe.Pointer(&s.mem)))
	return Memory{Total: s.mem.Total, Used: s.mem.Used, Free: s.mem.Free}, r
}

// Utilization asks for the share of the driver's last sample period in which
// some kernel ran, and in which memory was used.
func (d *Device) Utilization() (gpu, memory float64, r Return) {
	u := &d.l.s.util
	r = d.l.call(d.l.fn.DeviceUtilization, d.h, uintptr(unsafe.Pointer(u)))
	if r == Success && (u.GPU > 100 || u.Memory > 100) {
		return 0, 0, NoData // not a percentage
	}
	return float64(u.GPU) / 100, float64(u.Memory) / 100, r
}

// Temperature is the chip's, in degrees Celsius.
func (d *Device) Temperature() (float64, Return) {
	r := d.l.call(d.l.fn.DeviceTemperature, d.h, 0, d.l.s.addr32(0))
	return float64(int32(d.l.s.u32[0])), r
}

// Power is the power draw in watts: of this instant where the driver gives
// that, else what it calls usage, which on most cards since 2020 is the average
// of a second.
func (d *Device) Power() (watts float64, instant bool, r Return) {
	if !d.noInstant {
		v, r := d.field(fieldPowerInstant)
		switch {
		case r == Success:
			return float64(v) / 1e3, true, r
		case !r.Absent() && r != InvalidArgument:
			return 0, false, r
		}
		d.noInstant = true
	}
	r = d.l.call(d.l.fn.DevicePower, d.h, d.l.s.addr32(0))
	return float64(d.l.s.u32[0]) / 1e3, false, r
}

// Energy is what the GPU used since the driver was loaded, in joules.
func (d *Device) Energy() (float64, Return) {
	r := d.l.call(d.l.fn.DeviceEnergy, d.h, d.l.s.addr64(0))
	return float64(d.l.s.u64[0]) / 1e3, r
}

// Clock is one of a GPU's clocks.
type Clock uintptr

// The clocks that are asked for; the numbers are NVML's.
const (
	SM          Clock = 1
	MemoryClock Clock = 2
)

// Clock is a clock's present frequency in hertz.
func (d *Device) Clock(c Clock) (float64, Return) {
	r := d.l.call(d.l.fn.DeviceClock, d.h, uintptr(c), d.l.s.addr32(0))
	return float64(d.l.s.u32[0]) * 1e6, r
}

// MaxClock is a clock's highest frequency in hertz.
func (d *Device) MaxClock(c Clock) (float64, Return) {
	r := d.l.call(d.l.fn.DeviceMaxClock, d.h, uintptr(c), d.l.s.addr32(0))
	if r != Success {
		return 0, r
	}
	return float64(d.l.s.u32[0]) * 1e6, r
}

// PowerLimit is the limit in force, in watts.
func (d *Device) PowerLimit() (float64, Return) {
	r := d.l.call(d.l.fn.DevicePowerLimit, d.h, d.l.s.addr32(0))
	if r != Success {
		return 0, r
	}
	return float64(d.l.s.u32[0]) / 1e3, r
}

// FanSpeed is the share of the fan's full speed that the driver asks for.
func (d *Device) FanSpeed() (float64, Return) {
	r := d.l.call(d.l.fn.DeviceFan, d.h, d.l.s.addr32(0))
	return float64(d.l.s.u32[0]) / 100, r
}

// ClockReasons asks why clocks are not higher now, as the bits of
// nvmlClocksEventReasons.
func (d *Device) ClockReasons() (uint64, Return) {
	r := d.l.call(d.l.fn.DeviceReasons, d.h, d.l.s.addr64(0))
	return d.l.s.u64[0], r
}

// SupportedClockReasons asks which of the bits this GPU can ever set.
func (d *Device) SupportedClockReasons() (uint64, Return) {
	r := d.l.call(d.l.fn.DeviceReasonsSupported, d.h, d.l.s.addr64(0))
	return d.l.s.u64[0], r
}

// Fields of nvmlDeviceGetFieldValues.
const (
	fieldRetiredSBE        = 29
	fieldRetiredDBE        = 30
	fieldPowerViolation    = 74
	fieldThermalViolation  = 75
	fieldMemoryTemperature = 82
	fieldNVLinkCount       = 91
	fieldPowerInstant      = 186
	fieldRecoveryAction    = 230
	// Of one link, which is the scope; the last three from the fifth generation on.
	fieldLinkReplays        = 161
	fieldLinkRecoveries     = 162
	fieldLinkCRC            = 163
	fieldLinkState          = 165
	fieldLinkReceiveErrors  = 208
	fieldLinkIntegrity      = 211
	fieldLinkRecoveryEvents = 215
)

// throttleFields are where the ns counters of software thermal, hardware
// thermal and power brake slowdown may begin; they are three ids in a row. The
// headers of CUDA 12.9 and 13.0 (drivers 575 to 589) have them from 251 on; those
// since 13.1 (driver 590) from 269 on, and 251 to 253 mean power smoothing, as
// they did before 12.9. So which are right is looked at, too: see ThrottleTimes.
func throttleFields(driver string) []uint32 {
	major, _, _ := strings.Cut(driver, ".")
	n, err := strconv.Atoi(major)
	switch {
	case err != nil || n < 575:
		return nil
	case n < 590:
		return []uint32{251, 269}
	}
	return []uint32{269}
}

// field asks for one field as a whole number.
func (d *Device) field(id uint32) (uint64, Return) {
	f := &d.l.s.fields[0]
	*f = fieldValue{ID: id, Ret: int32(Unknown)}
	if r := d.l.call(d.l.fn.DeviceFields, d.h, 1, uintptr(unsafe.Pointer(f))); r != Success {
		return 0, r
	}
	return f.whole()
}

// ask fills the scratch's fields by one call for several ids of one scope.
func (d *Device) ask(scope uint32, ids ...uint32) ([]fieldValue, Return) {
	f := d.l.s.fields[:min(len(ids), maxFields)]
	for i := range f {
		f[i] = fieldValue{ID: ids[i], Scope: scope, Ret: int32(Unknown)}
	}
	r := d.l.call(d.l.fn.DeviceFields, d.h, uintptr(len(f)), uintptr(unsafe.Pointer(&f[0])))
	return f, r
}

// whole is a field's value where it is a number that cannot be negative.
func (f *fieldValue) whole() (uint64, Return) {
	if r := Return(f.Ret); r != Success {
		return 0, r
	}
	u := binary.NativeEndian.Uint64(f.Value[:])
	switch f.Type {
	case 0:
		if v := math.Float64frombits(u); v >= 0 && v < 1<<63 {
			return uint64(v), Success
		}
		return 0, NoData
	case 1:
		return uint64(binary.NativeEndian.Uint32(f.Value[:])), Success
	case 2, 3:
		return u, Success
	case 4:
		if int64(u) < 0 {
			return 0, NoData
		}
		return u, Success
	case 5:
		v := int32(binary.NativeEndian.Uint32(f.Value[:]))
		if v < 0 {
			return 0, NoData
		}
		return uint64(v), Success
	case 6:
		return uint64(binary.NativeEndian.Uint16(f.Value[:])), Success
	}
	return 0, NoData
}

// counter is whole for a field that must be a 64-bit counter.
func (f *fieldValue) counter() (uint64, Return) {
	if f.Type != 2 && f.Type != 3 && Return(f.Ret) == Success {
		return 0, NoData
	}
	return f.whole()
}
