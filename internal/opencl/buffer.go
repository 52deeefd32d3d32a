package opencl

import (
	"fmt"
	"unsafe"
)

// Buffer is memory of the device.
type Buffer struct {
	c    *Context
	id   handle
	size int
}

// NewBuffer allocates memory that kernels read and write. Its content is
// undefined. It lives until Free, or until the context is closed.
func (c *Context) NewBuffer(bytes int) (*Buffer, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("buffer of %d bytes", bytes)
	}
	const readWrite = 1 << 0
	var code int32
	b := &Buffer{c: c, size: bytes}
	b.id = c.api.createBuffer(c.ctx, readWrite, uintptr(bytes), nil, &code)
	if err := check("clCreateBuffer", code); err != nil {
		return nil, fmt.Errorf("buffer of %d bytes: %w", bytes, err)
	}
	c.onClose(b.Free)
	return b, nil
}

// Free gives the memory back; a second call does nothing.
func (b *Buffer) Free() error {
	if b.id == 0 {
		return nil
	}
	id := b.id
	b.id = 0
	return check("clReleaseMemObject", b.c.api.releaseMemObject(id))
}

// Size is the buffer's length in bytes.
func (b *Buffer) Size() int { return b.size }

// Write copies p to the start of the buffer and waits until it is there.
func (b *Buffer) Write(p []byte) error {
	if len(p) == 0 || len(p) > b.size {
		return fmt.Errorf("write of %d bytes to a buffer of %d", len(p), b.size)
	}
	code := b.c.api.enqueueWriteBuffer(b.c.queue, b.id, 1, 0, uintptr(len(p)), unsafe.Pointer(&p[0]), 0, 0, 0)
	return check("clEnqueueWriteBuffer", code)
}

// Read fills p from the start of the buffer, after all that was queued before.
func (b *Buffer) Read(p []byte) error {
	if len(p) == 0 || len(p) > b.size {
		return fmt.Errorf("read of %d bytes from a buffer of %d", len(p), b.size)
	}
	code := b.c.api.enqueueReadBuffer(b.c.queue, b.id, 1, 0, uintptr(len(p)), unsafe.Pointer(&p[0]), 0, 0, 0)
	return check("clEnqueueReadBuffer", code)
}
