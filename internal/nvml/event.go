package nvml

import (
	"fmt"
	"unsafe"
)

// Events hears of critical errors of all GPUs, from its making on.
type Events struct {
	l *Library
	h uintptr
}

// XID is one critical error. The number is of NVIDIA's list of XIDs.
type XID struct {
	Device *Device // nil where the driver names none of ours
	Code   uint64
}

const eventXID = 0x8

// Listen begins to hear. GPUs that give no events are left out; when none does,
// it is an error.
func (l *Library) Listen() (*Events, error) {
	if r := l.call(l.fn.EventSetCreate, l.s.addrPtr()); r != Success {
		return nil, fmt.Errorf("making an event set: %w", r)
	}
	e := &Events{l: l, h: l.s.ptr}
	heard, last := 0, NotSupported
	for _, d := range l.devices {
		if r := l.call(l.fn.DeviceRegisterEvents, d.h, eventXID, e.h); r == Success {
			heard++
		} else {
			last = r
		}
	}
	if heard == 0 {
		e.Close()
		return nil, fmt.Errorf("registering for critical errors: %w", last)
	}
	return e, nil
}

// Next gives an error that has come and was not given yet, without waiting.
// The return is Timeout when there is none.
func (e *Events) Next() (XID, Return) {
	s := e.l.s
	for range 64 { // other kinds that the driver may send unasked
		s.event = eventData{}
		if r := e.l.call(e.l.fn.EventSetWait, e.h, uintptr(unsafe.Pointer(&s.event)), 0); r != Success {
			return XID{}, r
		}
		if s.event.Type&eventXID == 0 {
			continue
		}
		x := XID{Code: s.event.Data}
		for _, d := range e.l.devices {
			if d.h == s.event.Device {
				x.Device = d
			}
		}
		return x, Success
	}
	return XID{}, Timeout
}

// Close stops hearing.
func (e *Events) Close() { _ = e.l.call(e.l.fn.EventSetFree, e.h) } // nothing could be done about it
