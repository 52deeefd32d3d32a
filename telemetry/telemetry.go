// Package telemetry reads what happened around a measurement: to the host, the
// GPUs, the engine, and to the measuring process itself.
//
// A reading that could not be obtained is absent. It is never zero, and no
// source invents a value to keep a line unbroken.
package telemetry

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/assay-bench/assay"
)

// Source gives readings of one kind. Read hands each reading that it could
// obtain to emit; an error says that the source as a whole failed this time,
// and does not take back what was emitted before it. Read and Close are called
// by one goroutine at a time, except that Close may be called while a Read
// hangs. Closing twice is allowed; reading a closed source is an error.
type Source interface {
	Name() string
	Read(ctx context.Context, emit func(assay.Reading)) error
	Close() error
}

// finalRead bounds the reading that Poll takes when it is told to end, and how
// long it waits for a source that does not come back.
const finalRead = 3 * time.Second

// Poll reads the sources every interval until the context ends, and once more
// then. Each source has a goroutine of its own: one that hangs holds up no
// other, and not the end either. Calls of emit and failed do not overlap, and
// none comes after Poll has returned.
//
// A source that fails is reported once through failed, not at every reading; it
// is asked again all the same, since what failed may come back. Each reading is
// stamped with now, the run's time-line, at the moment it was asked for.
func Poll(ctx context.Context, interval time.Duration, now func() int64, sources []Source, emit func(assay.Reading), failed func(error)) {
	var (
		mu    sync.Mutex
		ended bool
		live  sync.WaitGroup
	)
	locked := func(f func()) {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			f()
		}
	}
	for _, s := range sources {
		live.Go(func() {
			reported := false
			each(ctx, interval, func(ctx context.Context) {
				at := now()
				err := s.Read(ctx, func(r assay.Reading) {
					r.At, r.Source = at, s.Name()
					locked(func() { emit(r) })
				})
				if err != nil && ctx.Err() == nil && !reported {
					reported = true
					locked(func() { failed(fmt.Errorf("reading %s: %w", s.Name(), err)) })
				}
			})
		})
	}
	all := make(chan struct{})
	go func() { live.Wait(); close(all) }()
	<-ctx.Done()
	late := time.NewTimer(finalRead + time.Second)
	defer late.Stop()
	select {
	case <-all:
	case <-late.C:
	}
	mu.Lock()
	ended = true
	mu.Unlock()
}

// each calls f every interval until the context ends, and once more then.
func each(ctx context.Context, interval time.Duration, f func(context.Context)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalRead)
			f(last)
			cancel()
			return
		case <-tick.C:
			f(ctx)
		}
	}
}

// value is a reading of one number.
func value(name string, v float64) assay.Reading { return assay.Reading{Name: name, Value: &v} }
