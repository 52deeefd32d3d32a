package telemetry

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-bench/assay"
)

// tick is how often Client looks whether the process is let run at all. A tick
// that comes more than tickSlack late was held up by something other than the
// timer.
const (
	tick      = 10 * time.Millisecond
	tickSlack = 20 * time.Millisecond
)

// Client reads the measuring process itself: CPU time, the time that its
// threads were ready and not let run, the time in which nothing of it ran at
// all, memory, and open descriptors. The client certificate rests on these.
type Client struct {
	stalled atomic.Int64 // nanoseconds
	stop    chan struct{}
	once    sync.Once
	done    sync.WaitGroup
	reads   int
}

// NewClient starts watching the process.
func NewClient() *Client {
	c := &Client{stop: make(chan struct{})}
	began := time.Now() // not when the goroutine first runs: it may stand still before
	c.done.Go(func() { c.watch(began) })
	return c
}

// watch notices when the whole process stands still: stopped by a signal, out
// of its CPU quota, or on a machine that was suspended.
func (c *Client) watch(last time.Time) {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-t.C:
		}
		now := time.Now()
		if late := now.Sub(last) - tick; late > tickSlack {
			c.stalled.Add(int64(late))
		}
		last = now
	}
}

// Name is "client".
func (c *Client) Name() string { return "client" }

// Read gives what the system says of the process.
func (c *Client) Read(ctx context.Context, emit func(assay.Reading)) error {
	select {
	case <-c.stop:
		return errClosed
	default:
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	emit(value("client_suspended_seconds_total", time.Duration(c.stalled.Load()).Seconds()))
	var errs []error
	get := func(name string, f func() (float64, error)) {
		v, err := f()
		if err != nil {
			errs = append(errs, err)
			return
		}
		emit(value(name, v))
	}
	get("client_cpu_seconds_total", cpuSeconds)
	get("client_run_delay_seconds_total", runDelaySeconds)
	get("client_resident_memory_bytes", residentBytes)
	// Counting descriptors means listing them, which is not free with
	// thousands of connections.
	if c.reads%5 == 0 {
		get("client_open_fds", openDescriptors)
	}
	c.reads++
	return errors.Join(errs...)
}

// Close stops watching.
func (c *Client) Close() error {
	c.once.Do(func() { close(c.stop) })
	c.done.Wait()
	return nil
}
