package telemetry

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/assay-bench/assay"
)

// Meter counts what reading costs: the processor time of the reads in this
// process, recording included, and that of the children that read for it.
type Meter struct {
	own      atomic.Int64 // nanoseconds
	unknown  atomic.Bool  // this system does not say
	children []meteredChild
}

// meteredChild is a source whose work is done by a process of its own.
type meteredChild interface {
	// cpu is the processor time of the process that runs now; ok is false when
	// none runs or nobody says.
	cpu() (d time.Duration, ok bool)
}

// Metered wraps sources so that the meter sees their reads.
func (m *Meter) Metered(sources []Source) []Source {
	out := make([]Source, len(sources))
	for i, s := range sources {
		if c, ok := s.(meteredChild); ok {
			m.children = append(m.children, c)
		}
		out[i] = metered{s, m}
	}
	return out
}

type metered struct {
	Source
	m *Meter
}

func (s metered) Read(ctx context.Context, emit func(assay.Reading)) error {
	// A goroutine may move between threads; this one must not while its thread's
	// clock is read.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, ok := threadTime()
	err := s.Source.Read(ctx, emit)
	after, _ := threadTime()
	if ok {
		s.m.own.Add(int64(after - before))
	} else {
		s.m.unknown.Store(true)
	}
	return err
}

// Seconds is the processor time so far, in seconds. A child that ended takes
// its share with it.
func (m *Meter) Seconds() (s float64, ok bool) {
	if m.unknown.Load() {
		return 0, false
	}
	sum := time.Duration(m.own.Load())
	for _, c := range m.children {
		if d, ok := c.cpu(); ok {
			sum += d
		}
	}
	return sum.Seconds(), true
}

func (c *Child) cpu() (time.Duration, bool) {
	pid, ok := c.kept.PID()
	if !ok {
		return 0, false
	}
	return processTime(pid)
}
