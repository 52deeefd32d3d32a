package nvml

import (
	"time"
	"unsafe"
)

// Span is a time that may not be known.
type Span struct {
	time.Duration
	Known bool
}

// ThrottleTimes are how long each reason has held the clocks down since the
// driver was loaded.
type ThrottleTimes struct{ PowerCap, SWThermal, HWThermal, PowerBrake Span }

// ThrottleTimes asks for the counters of throttled time. Drivers before 575 have
// none of hardware slowdowns.
func (d *Device) ThrottleTimes() (ThrottleTimes, Return) {
	if d.throttle == 0 {
		// Under a wrong id stands something else. It is taken for the counters
		// when all three are 64-bit counters, which power smoothing's flags and
		// percentages are not.
		for _, id := range d.l.throttle {
			f, r := d.ask(0, id, id+1, id+2)
			if r == Success && f[0].span().Known && f[1].span().Known && f[2].span().Known {
				d.throttle = id
				break
			}
		}
	}
	ids := [...]uint32{fieldPowerViolation, fieldThermalViolation, d.throttle, d.throttle + 1, d.throttle + 2}
	n := 5
	if d.throttle == 0 {
		n = 2
	}
	f, r := d.ask(0, ids[:n]...)
	if r != Success {
		return ThrottleTimes{}, r
	}
	t := ThrottleTimes{PowerCap: f[0].span(), SWThermal: f[1].span()}
	if n == 5 {
		t.HWThermal, t.PowerBrake = f[3].span(), f[4].span()
		if s := f[2].span(); s.Known {
			t.SWThermal = s // field 75 is the same by an older name
		}
	}
	return t, Success
}

// span is a field's value as a time in ns.
func (f *fieldValue) span() Span {
	v, r := f.counter()
	if r != Success || v > 1<<63-1 {
		return Span{}
	}
	return Span{time.Duration(v), true}
}

// MemoryTemperature is the memory's, in degrees Celsius.
func (d *Device) MemoryTemperature() (float64, Return) {
	v, r := d.field(fieldMemoryTemperature)
	return float64(v), r
}

// RecoveryAction is what the driver asks for: 0 nothing, 1 reset of the GPU,
// 2 reboot of the node, 3 drain of peer traffic, 4 drain and reset, 5 recovery
// of the IMEX domain.
func (d *Device) RecoveryAction() (uint64, Return) { return d.field(fieldRecoveryAction) }

// ECC counts memory errors since the driver was loaded.
func (d *Device) ECC() (corrected, uncorrected uint64, r Return) {
	s := d.l.s
	if r = d.l.call(d.l.fn.DeviceECCTotal, d.h, 0, 0, s.addr64(0)); r != Success {
		return 0, 0, r
	}
	r = d.l.call(d.l.fn.DeviceECCTotal, d.h, 1, 0, s.addr64(1))
	return s.u64[0], s.u64[1], r
}

// RetiredPages counts pages of memory that were taken out of use, for single
// and for double bit errors.
func (d *Device) RetiredPages() (uint64, Return) {
	if f, r := d.ask(0, fieldRetiredSBE, fieldRetiredDBE); r == Success {
		single, r1 := f[0].whole()
		double, r2 := f[1].whole()
		if r1 == Success && r2 == Success && single < 1<<32 && double < 1<<32 {
			return single + double, Success
		}
	}
	var sum uint64
	s := d.l.s
	for cause := range uintptr(2) {
		s.u32[0] = maxRetired
		r := d.l.call(d.l.fn.DeviceRetired, d.h, cause, s.addr32(0), uintptr(unsafe.Pointer(&s.retired)))
		if r != Success && r != InsufficientSize {
			return 0, r
		}
		sum += uint64(s.u32[0]) // also what would not fit
	}
	return sum, Success
}

// Remap says how rows of memory were replaced.
type Remap struct {
	Corrected, Uncorrected uint32
	Pending, Failed        bool
}

// RemappedRows asks for it.
func (d *Device) RemappedRows() (Remap, Return) {
	s := d.l.s
	r := d.l.call(d.l.fn.DeviceRemapped, d.h, s.addr32(0), s.addr32(1), s.addr32(2), s.addr32(3))
	return Remap{s.u32[0], s.u32[1], s.u32[2] != 0, s.u32[3] != 0}, r
}

// PCIeReplays counts transfers that had to be repeated.
func (d *Device) PCIeReplays() (uint32, Return) {
	r := d.l.call(d.l.fn.DeviceReplays, d.h, d.l.s.addr32(0))
	return d.l.s.u32[0], r
}

// PCIeLink is a PCIe link: 0 is not known.
type PCIeLink struct{ Generation, GenerationMax, Width, WidthMax uint32 }

// PCIeLink asks for the link as it is and as it could be.
func (d *Device) PCIeLink() PCIeLink {
	f := &d.l.fn
	return PCIeLink{d.number(f.DeviceGen), d.number(f.DeviceGenMax), d.number(f.DeviceWidth), d.number(f.DeviceWidthMax)}
}

// maxLinks is NVML_NVLINK_MAX_LINKS.
const maxLinks = 36

// NVLinks are a GPU's links, those of them that are up, and the replays,
// recoveries and CRC errors of all of them.
type NVLinks struct {
	Links, Up   int
	Errors      uint64
	ErrorsKnown bool
}

// NVLinks asks link by link. There are fields for totals, but the header does
// not say clearly whether those are of the GPU or of one link.
func (d *Device) NVLinks() (NVLinks, Return) {
	var n NVLinks
	most := uint64(maxLinks)
	if c, r := d.field(fieldNVLinkCount); r == Success {
		most = min(most, c)
	} else if !r.Absent() && r != InvalidArgument {
		return n, r
	}
	for i := range uint32(most) {
		// One call for what newer drivers have as fields of a link.
		f, r := d.ask(i, fieldLinkState, fieldLinkReplays, fieldLinkRecoveries, fieldLinkCRC, fieldLinkReceiveErrors, fieldLinkIntegrity, fieldLinkRecoveryEvents)
		if r == GPUIsLost {
			return n, r
		}
		state, stateReturn := uint64(0), r
		known := false
		if r == Success {
			state, stateReturn = f[0].whole()
			for _, e := range f[1:] {
				if v, r := e.whole(); r == Success {
					n.Errors, known = n.Errors+v, true
				}
			}
		}
		if stateReturn != Success {
			stateReturn = d.l.call(d.l.fn.DeviceLinkState, d.h, uintptr(i), d.l.s.addr32(0))
			state = uint64(d.l.s.u32[0])
		}
		if stateReturn.Absent() || stateReturn == InvalidArgument {
			continue // no such link; there may be later ones
		}
		if stateReturn != Success {
			return n, stateReturn
		}
		n.Links++
		if state != 0 { // a link that sleeps is up
			n.Up++
		}
		for counter := uintptr(0); counter < 4 && !known; counter++ { // replays, recoveries, CRC of flits and of data
			if r := d.l.call(d.l.fn.DeviceLinkErrors, d.h, uintptr(i), counter, d.l.s.addr64(0)); r == Success {
				n.Errors += d.l.s.u64[0]
				n.ErrorsKnown = true
			}
		}
		n.ErrorsKnown = n.ErrorsKnown || known
	}
	if n.Links == 0 {
		return n, NotSupported
	}
	return n, Success
}

// OnNVSwitch says whether a GPU's first link leads to a switch. All GPUs of one
// node that hang on switches reach one another.
func (d *Device) OnNVSwitch() bool {
	const deviceTypeSwitch = 2
	r := d.l.call(d.l.fn.DeviceLinkRemote, d.h, 0, d.l.s.addr32(0))
	return r == Success && d.l.s.u32[0] == deviceTypeSwitch
}

// Reaches says whether two GPUs can talk over NVLink.
func (d *Device) Reaches(peer *Device) (bool, Return) {
	const capsNVLink = 2
	r := d.l.call(d.l.fn.DeviceP2P, d.h, peer.h, capsNVLink, d.l.s.addr32(0))
	return d.l.s.u32[0] == 0, r
}

// FabricReady says whether the fabric manager has finished with this GPU, with
// success. A GPU that needs no fabric manager is NotSupported.
func (d *Device) FabricReady() (bool, Return) {
	const completed = 3
	s := d.l.s
	s.fabric2 = fabricInfo2{Version: version(unsafe.Sizeof(s.fabric2), 2)}
	r := d.l.call(d.l.fn.DeviceFabricV, d.h, uintptr(unsafe.Pointer(&s.fabric2)))
	state, status := s.fabric2.State, s.fabric2.Status
	if r.Absent() || r == InvalidArgument {
		r = d.l.call(d.l.fn.DeviceFabric, d.h, uintptr(unsafe.Pointer(&s.fabric)))
		state, status = s.fabric.State, s.fabric.Status
	}
	if r == Success && state == 0 {
		r = NotSupported
	}
	return state == completed && Return(status) == Success, r
}

// Process is one that computes on a GPU. PID is of the host's namespace, which
// in a container is not ours. Bytes is 0 where the driver does not say.
type Process struct {
	PID   uint32
	Bytes uint64
}

// Processes asks for those that compute on the GPU, into a slice that is
// used again. When there are more than fit, those that fit are not known
// either, and only the count is given.
func (d *Device) Processes(into []Process) (list []Process, count int, r Return) {
	s := d.l.s
	into = into[:0]
	s.u32[0] = maxProcesses
	r = d.l.call(d.l.fn.DeviceProcesses, d.h, s.addr32(0), uintptr(unsafe.Pointer(&s.processes)))
	old := r == FunctionNotFound
	if old {
		s.u32[0] = maxProcesses
		r = d.l.call(d.l.fn.DeviceProcesses1, d.h, s.addr32(0), uintptr(unsafe.Pointer(&s.processes)))
	}
	n := s.u32[0]
	if n > maxProcesses {
		if n > 1<<20 || r != InsufficientSize {
			return into, 0, NoData // more than we offered room for, and called a success
		}
		return into, int(n), Success
	}
	if r != Success {
		return into, 0, r
	}
	one := (*[maxProcesses]process1)(unsafe.Pointer(&s.processes))
	for i := range n {
		p := Process{s.processes[i].PID, s.processes[i].Bytes}
		if old {
			p = Process{one[i].PID, one[i].Bytes}
		}
		if p.Bytes == ^uint64(0) {
			p.Bytes = 0 // NVML_VALUE_NOT_AVAILABLE
		}
		into = append(into, p)
	}
	return into, int(n), Success
}
