package cuda

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/assay-bench/assay/internal/foreign"
)

// Context is a GPU at work with this package's kernels loaded. The driver ties
// it to an operating system thread, so NewContext locks the calling goroutine to
// its thread until Close; it is for that goroutine alone.
type Context struct {
	api    *api
	ctx    handle
	module handle
	start  handle
	end    handle
	undo   []func() error // releases, in the order of creation
}

// NewContext opens the device and compiles [Kernels], or other PTX text that
// has the same kernels. Close gives everything back.
func (d *Device) NewContext(ptx string) (*Context, error) {
	runtime.LockOSThread()
	c := &Context{api: &d.lib.api}
	if err := c.open(d.id, ptx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Context) open(device int32, ptx string) error {
	if err := check("cuCtxCreate", c.api.ctxCreate(&c.ctx, 0, device)); err != nil {
		return err
	}
	c.onClose(func() error { return check("cuCtxDestroy", c.api.ctxDestroy(c.ctx)) })
	if err := c.load(ptx); err != nil {
		return err
	}
	for _, e := range []*handle{&c.start, &c.end} {
		if err := check("cuEventCreate", c.api.eventCreate(e, 0)); err != nil {
			return err
		}
		c.onClose(func() error { return check("cuEventDestroy", c.api.eventDestroy(*e)) })
	}
	return nil
}

// load compiles the text; the compiler's log is part of the error.
func (c *Context) load(ptx string) error {
	text := append([]byte(ptx), 0)
	log := make([]byte, maxLog)
	var pin runtime.Pinner
	pin.Pin(&log[0])
	defer pin.Unpin()
	const errorLogBuffer, errorLogSize = 5, 6
	options := [2]int32{errorLogBuffer, errorLogSize}
	values := [2]uintptr{uintptr(unsafe.Pointer(&log[0])), uintptr(len(log))}
	code := c.api.moduleLoad(&c.module, &text[0], 2, &options[0], &values[0])
	if err := check("cuModuleLoadDataEx", code); err != nil {
		return fmt.Errorf("%w: %s", err, foreign.Native(log, maxLog))
	}
	c.onClose(func() error { return check("cuModuleUnload", c.api.moduleUnload(c.module)) })
	return nil
}

func (c *Context) onClose(f func() error) { c.undo = append(c.undo, f) }

// Close waits for what is under way and releases what was created, newest
// first.
func (c *Context) Close() error {
	var errs []error
	if c.ctx != 0 {
		errs = append(errs, c.Synchronize())
	}
	for _, f := range slices.Backward(c.undo) {
		errs = append(errs, f())
	}
	c.undo, c.ctx = nil, 0
	runtime.UnlockOSThread()
	return errors.Join(errs...)
}

// Synchronize waits until the device has done all that was asked of it.
func (c *Context) Synchronize() error { return check("cuCtxSynchronize", c.api.ctxSynchronize()) }

// Free is how much of the device's memory is free, and how much there is.
func (c *Context) Free() (free, total uint64, err error) {
	var f, t uintptr
	err = check("cuMemGetInfo", c.api.memGetInfo(&f, &t))
	return uint64(f), uint64(t), err
}

// Kernel finds a kernel of the loaded text.
func (c *Context) Kernel(name string) (*Kernel, error) {
	k := &Kernel{c: c, name: name}
	if err := check("cuModuleGetFunction "+name, c.api.moduleFunction(&k.fn, c.module, name)); err != nil {
		return nil, err
	}
	return k, nil
}

// Kernel is one entry of the loaded text.
type Kernel struct {
	c    *Context
	fn   handle
	name string
}

// Run launches the kernel, waits for it and gives the time that it took by the
// device's events. Arguments are *Buffer, uint32 or uint64.
func (k *Kernel) Run(grid, block [2]int, args ...any) (time.Duration, error) {
	// Parameters are passed as an array of pointers to the values; words holds
	// the values, and every value starts a word (the driver reads as many bytes
	// as the kernel declares; little endian).
	words := make([]uint64, len(args)+1)
	ptrs := make([]unsafe.Pointer, len(args)+1)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&words[0])
	for i, a := range args {
		switch v := a.(type) {
		case *Buffer:
			words[i] = uint64(v.ptr)
		case uint32:
			words[i] = uint64(v)
		case uint64:
			words[i] = v
		default:
			return 0, fmt.Errorf("launch %s: argument %d is a %T", k.name, i, a)
		}
		ptrs[i] = unsafe.Pointer(&words[i])
	}
	a := k.c.api
	if err := check("cuEventRecord", a.eventRecord(k.c.start, 0)); err != nil {
		return 0, err
	}
	code := a.launchKernel(k.fn, uint32(grid[0]), uint32(grid[1]), 1, uint32(block[0]), uint32(block[1]), 1, 0, 0, &ptrs[0], 0)
	if err := check("cuLaunchKernel "+k.name, code); err != nil {
		return 0, err
	}
	if err := check("cuEventRecord", a.eventRecord(k.c.end, 0)); err != nil {
		return 0, err
	}
	if err := check("cuEventSynchronize", a.eventSynchronize(k.c.end)); err != nil {
		return 0, err
	}
	var ms float32
	if err := check("cuEventElapsedTime", a.eventElapsed(&ms, k.c.start, k.c.end)); err != nil {
		return 0, err
	}
	if math.IsNaN(float64(ms)) || ms < 0 || ms > 3.6e6 {
		return 0, fmt.Errorf("the device's events gave %g ms", ms)
	}
	return time.Duration(float64(ms) * 1e6), nil
}

// Buffer is memory of the device.
type Buffer struct {
	c    *Context
	ptr  handle
	size int
}

// NewBuffer allocates memory; its content is undefined. It lives until Free, or
// until the context is closed.
func (c *Context) NewBuffer(bytes int) (*Buffer, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("buffer of %d bytes", bytes)
	}
	b := &Buffer{c: c, size: bytes}
	if err := check("cuMemAlloc", c.api.memAlloc(&b.ptr, uintptr(bytes))); err != nil {
		return nil, fmt.Errorf("buffer of %d bytes: %w", bytes, err)
	}
	c.onClose(b.Free)
	return b, nil
}

// Free gives the memory back; a second call does nothing.
func (b *Buffer) Free() error {
	if b.ptr == 0 {
		return nil
	}
	ptr := b.ptr
	b.ptr = 0
	return check("cuMemFree", b.c.api.memFree(ptr))
}

// Size is the buffer's length in bytes.
func (b *Buffer) Size() int { return b.size }

// Write copies p to the start of the buffer.
func (b *Buffer) Write(p []byte) error {
	if len(p) == 0 || len(p) > b.size {
		return fmt.Errorf("write of %d bytes to a buffer of %d", len(p), b.size)
	}
	return check("cuMemcpyHtoD", b.c.api.memcpyHtoD(b.ptr, &p[0], uintptr(len(p))))
}

// Read fills p from the start of the buffer, after all that was launched before.
func (b *Buffer) Read(p []byte) error {
	if len(p) == 0 || len(p) > b.size {
		return fmt.Errorf("read of %d bytes from a buffer of %d", len(p), b.size)
	}
	return check("cuMemcpyDtoH", b.c.api.memcpyDtoH(&p[0], b.ptr, uintptr(len(p))))
}
