// Package nvml asks NVIDIA's management library, loaded at run time, without
// cgo. It promises that nothing here is invented: a call gives its value and a
// [Return], and the value means something only when that is [Success].
//
// Every symbol is optional. One that this driver does not have answers
// [FunctionNotFound], as the library itself would, and where a call has several
// versions the newest that is there is used. What the driver writes is not
// trusted further than it must be: text is cut at its buffer and cleaned, counts
// are compared with the room that was offered.
//
// The driver can hang. Nothing here can be called off, so it belongs in a child
// process that somebody else has the power to kill. One goroutine at a time may
// use a [Library] and its devices.
package nvml

import (
	"errors"
	"fmt"

	"github.com/assay-bench/assay/internal/foreign"
)

// MaxDevices is the most GPUs that a library is believed to have.
const MaxDevices = 64

// names are where the driver's packages put the library.
var names = []string{"libnvidia-ml.so.1", "libnvidia-ml.so"}

// Library is a loaded and initialised NVML.
type Library struct {
	fn functions
	// s is what the driver writes into. It lies on the heap once, so that a
	// sample allocates nothing and no stack moves under the driver.
	s        *scratch
	devices  []*Device
	lost     []int
	driver   string
	cuda     int
	throttle []uint32 // see throttleFields
}

// Open loads NVML and initialises it. An empty path means the usual names, by
// the system's search. A GPU that is there and does not answer is not among
// the devices but in [Library.Lost].
func Open(path string) (*Library, error) {
	tries := names
	if path != "" {
		tries = []string{path}
	}
	var errs []error
	for _, name := range tries {
		h, err := load(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("loading %s: %w", name, err))
			continue
		}
		l := &Library{s: new(scratch)}
		l.fn.find(h)
		if err := l.begin(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return l, nil
	}
	return nil, errors.Join(errs...)
}

func (l *Library) begin() error {
	if r := l.call(l.fn.Init); r != Success {
		return fmt.Errorf("initialising NVML: %w", r)
	}
	l.driver, _ = l.text(l.fn.SystemDriverVersion, 0, 80)
	if r := l.call(l.fn.SystemCudaDriverVersion, l.s.addr32(0)); r == Success && l.s.u32[0] < 1e6 {
		l.cuda = int(l.s.u32[0])
	}
	l.throttle = throttleFields(l.driver)
	if r := l.call(l.fn.DeviceCount, l.s.addr32(0)); r != Success {
		return fmt.Errorf("counting GPUs: %w", r)
	}
	n := l.s.u32[0]
	if n > MaxDevices {
		return fmt.Errorf("counting GPUs: the driver claims %d, more than the %d that are believed", n, MaxDevices)
	}
	for i := range n {
		r := l.call(l.fn.DeviceHandleByIndex, uintptr(i), l.s.addrPtr())
		d := &Device{l: l, h: l.s.ptr, Index: int(i)}
		if r == Success {
			d.UUID, r = l.text(l.fn.DeviceUUID, d.h, 96)
		}
		switch r {
		case Success:
			l.devices = append(l.devices, d)
		case NoPermission, NotFound:
			// A container is shown the count of the host and not its GPUs.
		default:
			l.lost = append(l.lost, int(i))
		}
	}
	return nil
}

// Close shuts NVML down. The library stays mapped: drivers keep threads of
// their own, which would not survive an unmapping.
func (l *Library) Close() error {
	if r := l.call(l.fn.Shutdown); r != Success && r != FunctionNotFound {
		return fmt.Errorf("shutting NVML down: %w", r)
	}
	return nil
}

// Devices are the GPUs that answered, in the driver's order.
func (l *Library) Devices() []*Device { return l.devices }

// Lost are the indices of GPUs that the driver counts and cannot reach.
func (l *Library) Lost() []int { return l.lost }

// Driver is the driver's version, empty if it does not say.
func (l *Library) Driver() string { return l.driver }

// CUDA is the newest CUDA version that the driver supports, for example
// "12.8"; empty if it does not say.
func (l *Library) CUDA() string {
	if l.cuda == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d", l.cuda/1000, l.cuda%1000/10)
}

// maxText bounds a text of the driver, in bytes; its header has 96 at most.
const maxText = 256

// text calls a function that fills a buffer of at most size bytes.
func (l *Library) text(fn, device uintptr, size int) (string, Return) {
	buf := l.s.text[:min(size, len(l.s.text))]
	clear(buf)
	var r Return
	if device == 0 {
		r = l.call(fn, l.s.addrText(), uintptr(len(buf)))
	} else {
		r = l.call(fn, device, l.s.addrText(), uintptr(len(buf)))
	}
	if r != Success {
		return "", r
	}
	return foreign.Native(buf, maxText), Success
}
