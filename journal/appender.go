package journal

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// file is what an appender needs of an *os.File.
type file interface {
	io.WriteCloser
	Truncate(size int64) error
	Sync() error
}

const (
	// wakeAt is how much may be buffered before the flusher is woken early.
	wakeAt = 256 << 10
	// holdAt is how much may be buffered before who appends has to write: it
	// bounds memory when the disk is slower than the run.
	holdAt = 8 << 20
)

// appender is one file of whole lines. Lines are gathered in one buffer while
// the other is being written, so that nobody who records waits for the disk.
//
// Invariant: what is in the file is whole lines, also after a failed write. The
// first error stays: a file with a hole would be worse than one that ends.
type appender struct {
	name string
	wake chan<- struct{}

	mu     sync.Mutex // guards buf, err, closed
	buf    []byte
	err    error
	closed bool

	out   sync.Mutex // held while writing; taken before mu
	f     file
	spare []byte
	size  int64
}

// append takes whole lines.
func (a *appender) append(lines []byte) error {
	a.mu.Lock()
	if a.err != nil || a.closed {
		err := a.err
		a.mu.Unlock()
		if err == nil {
			err = ErrClosed
		}
		return err
	}
	a.buf = append(a.buf, lines...)
	n := len(a.buf)
	a.mu.Unlock()
	if n >= holdAt {
		_, err := a.flush()
		return err
	}
	if n >= wakeAt {
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// flush gives what is buffered to the operating system, and says how long the
// file is then.
func (a *appender) flush() (size int64, err error) {
	a.out.Lock()
	defer a.out.Unlock()
	a.mu.Lock()
	buf := a.buf
	err = a.err
	if err == nil {
		a.buf = a.spare[:0]
	}
	a.mu.Unlock()
	if err != nil || len(buf) == 0 {
		if err == nil {
			a.spare = buf
		}
		return a.size, err
	}
	n, err := a.f.Write(buf)
	if err != nil {
		// Keep the lines that went through whole; take back the rest of one.
		whole := int64(bytes.LastIndexByte(buf[:max(0, min(n, len(buf)))], '\n') + 1)
		if terr := a.f.Truncate(a.size + whole); terr == nil {
			a.size += whole
		}
		err = fmt.Errorf("write %s: %w", a.name, err)
		a.mu.Lock()
		a.err = err
		a.mu.Unlock()
		return a.size, err
	}
	a.size += int64(n)
	a.spare = buf[:0]
	if cap(buf) > 2*holdAt { // one flood must not stay in memory for ever
		a.spare = nil
	}
	return a.size, nil
}

// sync flushes, and waits until the disk has it.
func (a *appender) sync() error {
	if _, err := a.flush(); err != nil {
		return err
	}
	a.out.Lock()
	defer a.out.Unlock()
	if err := a.f.Sync(); err != nil {
		return a.fail(fmt.Errorf("sync %s: %w", a.name, err))
	}
	return nil
}

func (a *appender) fail(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.err = err
	}
	return a.err
}

func (a *appender) close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	err := a.sync()
	if cerr := a.f.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close %s: %w", a.name, cerr)
	}
	return err
}
