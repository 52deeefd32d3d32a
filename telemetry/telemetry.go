// Package telemetry reads what happened around a measurement: to the host, the
// GPUs, the engine, and to the measuring process itself.
//
// A reading that could not be obtained is absent. It is never zero, and no
// source invents a value to keep a line unbroken.
package telemetry

import (
	"context"
	"fmt"
	"time"

	"github.com/assay-bench/assay"
)

// Source gives readings of one kind. Read hands each reading that it could
// obtain to emit; an error says that the source as a whole failed this time,
// and does not take back what was emitted before it.
type Source interface {
	Name() string
	Read(ctx context.Context, emit func(assay.Reading)) error
	Close() error
}

// Poll reads the sources every interval until the context ends, and once more
// then. A source that fails is reported once through failed, not at every
// reading; it is asked again all the same, since what failed may come back.
// Each reading is stamped with now, the run's time-line.
func Poll(ctx context.Context, interval time.Duration, now func() int64, sources []Source, emit func(assay.Reading), failed func(error)) {
	said := make([]bool, len(sources))
	read := func(ctx context.Context) {
		for i, s := range sources {
			at := now()
			err := s.Read(ctx, func(r assay.Reading) {
				r.At, r.Source = at, s.Name()
				emit(r)
			})
			if err != nil && ctx.Err() == nil && !said[i] {
				said[i] = true
				failed(fmt.Errorf("reading %s: %w", s.Name(), err))
			}
		}
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			read(context.WithoutCancel(ctx))
			return
		case <-tick.C:
			read(ctx)
		}
	}
}

// value is a reading of one number.
func value(name string, v float64) assay.Reading { return assay.Reading{Name: name, Value: &v} }
