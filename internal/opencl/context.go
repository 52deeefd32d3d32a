package opencl

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/assay-bench/assay/internal/foreign"
)

// Context is a device at work: a context and one queue in order, with
// profiling. It is not for use by several goroutines.
type Context struct {
	device *Device
	api    *api
	ctx    handle
	queue  handle
	undo   []func() error // releases, in the order of creation
}

// NewContext opens the device. Close gives everything back.
func (d *Device) NewContext() (*Context, error) {
	c := &Context{device: d, api: d.api}
	var code int32
	id := d.id
	c.ctx = c.api.createContext(nil, 1, &id, 0, 0, &code)
	if err := check("clCreateContext", code); err != nil {
		return nil, err
	}
	c.onClose(func() error { return check("clReleaseContext", c.api.releaseContext(c.ctx)) })
	const profiling = 1 << 1
	c.queue = c.api.createCommandQueue(c.ctx, id, profiling, &code)
	if err := check("clCreateCommandQueue", code); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.onClose(func() error { return check("clReleaseCommandQueue", c.api.releaseCommandQueue(c.queue)) })
	return c, nil
}

func (c *Context) onClose(f func() error) { c.undo = append(c.undo, f) }

// Close waits for what is under way and releases what was created, newest
// first. The context is of no use after it.
func (c *Context) Close() error {
	var errs []error
	if c.queue != 0 {
		errs = append(errs, c.Finish())
	}
	for _, f := range slices.Backward(c.undo) {
		errs = append(errs, f())
	}
	c.undo, c.queue, c.ctx = nil, 0, 0
	return errors.Join(errs...)
}

// Finish waits until the device has done all that was asked of it.
func (c *Context) Finish() error { return check("clFinish", c.api.finish(c.queue)) }

// Build compiles source. When that fails the error holds the compiler's log.
func (c *Context) Build(source, options string) (*Program, error) {
	if source == "" {
		return nil, errors.New("build: no source")
	}
	src := []byte(source)
	ptr, size := unsafe.Pointer(&src[0]), uintptr(len(src))
	// The array of pointers is Go memory that holds a pointer to Go memory.
	var pin runtime.Pinner
	pin.Pin(&src[0])
	defer pin.Unpin()
	var code int32
	p := &Program{c: c}
	p.id = c.api.createProgramWithSource(c.ctx, 1, &ptr, &size, &code)
	if err := check("clCreateProgramWithSource", code); err != nil {
		return nil, err
	}
	c.onClose(func() error { return check("clReleaseProgram", c.api.releaseProgram(p.id)) })
	id := c.device.id
	if err := check("clBuildProgram", c.api.buildProgram(p.id, 1, &id, options, 0, 0)); err != nil {
		log := raw(func(_ handle, what uint32, n uintptr, to unsafe.Pointer, size *uintptr) int32 {
			return c.api.getProgramBuildInfo(p.id, id, what, n, to, size)
		}, id, 0x1183)
		log, _, _ = bytes.Cut(log, []byte{0})
		return nil, fmt.Errorf("%w: %s", err, foreign.Clip(log, maxLog))
	}
	return p, nil
}

// Program is compiled source.
type Program struct {
	c  *Context
	id handle
}

// Kernel finds a kernel of the program.
func (p *Program) Kernel(name string) (*Kernel, error) {
	var code int32
	k := &Kernel{c: p.c, name: name}
	k.id = p.c.api.createKernel(p.id, name, &code)
	if err := check("clCreateKernel "+name, code); err != nil {
		return nil, err
	}
	p.c.onClose(func() error { return check("clReleaseKernel", p.c.api.releaseKernel(k.id)) })
	return k, nil
}

// Kernel is one entry of a program.
type Kernel struct {
	c    *Context
	id   handle
	name string
}

// Launch queues the kernel over global work-items in groups of local (nil: as
// the driver likes). Arguments are *Buffer, int32, uint32 or uint64.
func (k *Kernel) Launch(global, local []int, args ...any) (*Event, error) {
	if len(global) == 0 || len(global) > 3 || local != nil && len(local) != len(global) {
		return nil, fmt.Errorf("launch %s: %d global and %d local dimensions", k.name, len(global), len(local))
	}
	for i, a := range args {
		var code int32
		switch v := a.(type) {
		case *Buffer:
			code = k.c.api.setKernelArg(k.id, uint32(i), unsafe.Sizeof(v.id), unsafe.Pointer(&v.id))
		case int32:
			code = k.c.api.setKernelArg(k.id, uint32(i), 4, unsafe.Pointer(&v))
		case uint32:
			code = k.c.api.setKernelArg(k.id, uint32(i), 4, unsafe.Pointer(&v))
		case uint64:
			code = k.c.api.setKernelArg(k.id, uint32(i), 8, unsafe.Pointer(&v))
		default:
			return nil, fmt.Errorf("launch %s: argument %d is a %T", k.name, i, a)
		}
		if err := check(fmt.Sprintf("clSetKernelArg %s %d", k.name, i), code); err != nil {
			return nil, err
		}
	}
	var g, l [3]uintptr
	for i := range global {
		g[i] = uintptr(global[i])
		if local != nil {
			l[i] = uintptr(local[i])
		}
	}
	var lp *uintptr
	if local != nil {
		lp = &l[0]
	}
	e := &Event{c: k.c}
	code := k.c.api.enqueueNDRangeKernel(k.c.queue, k.id, uint32(len(global)), nil, &g[0], lp, 0, 0, &e.id)
	if err := check("clEnqueueNDRangeKernel "+k.name, code); err != nil {
		return nil, err
	}
	return e, nil
}

// Event is one launch under way. Wait or Drop releases it.
type Event struct {
	c  *Context
	id handle
}

// Wait waits for the launch and gives the time for which the device ran it, by
// the device's own clock.
func (e *Event) Wait() (time.Duration, error) {
	defer e.Drop()
	if err := check("clWaitForEvents", e.c.api.waitForEvents(1, &e.id)); err != nil {
		return 0, err
	}
	var at [2]uint64
	for i, what := range []uint32{0x1282, 0x1283} { // start, end
		code := e.c.api.getEventProfilingInfo(e.id, what, 8, unsafe.Pointer(&at[i]), nil)
		if err := check("clGetEventProfilingInfo", code); err != nil {
			return 0, err
		}
	}
	if at[1] < at[0] || at[1]-at[0] > uint64(time.Hour) {
		return 0, fmt.Errorf("the device's clock gave start %d and end %d ns", at[0], at[1])
	}
	return time.Duration(at[1] - at[0]), nil
}

// Drop releases the event without looking at it.
func (e *Event) Drop() {
	if e.id != 0 {
		e.c.api.releaseEvent(e.id)
		e.id = 0
	}
}
