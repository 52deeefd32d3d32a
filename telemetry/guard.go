package telemetry

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/assay-bench/assay"
)

// guard calls a function that may hang in the kernel, where no context reaches
// it. The call that hangs is left alone and waited for again next time: there
// is never more than one of them.
type guard struct {
	what     string
	deadline time.Duration
	pending  chan answer
	closed   atomic.Bool
}

type answer struct {
	readings []assay.Reading
	err      error
}

// read gives what f emitted if f comes back in time. Of an f that comes back
// late, nothing is given: its readings would carry the wrong time.
func (g *guard) read(ctx context.Context, f func(emit func(assay.Reading)) error, emit func(assay.Reading)) error {
	if g.closed.Load() {
		return errClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	late := time.NewTimer(g.deadline)
	defer late.Stop()
	if g.pending != nil {
		select {
		case <-g.pending:
			g.pending = nil
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			return fmt.Errorf("%s still does not answer", g.what)
		}
	}
	got := make(chan answer, 1)
	go func() {
		var a answer
		a.err = f(func(r assay.Reading) { a.readings = append(a.readings, r) })
		got <- a
	}()
	select {
	case a := <-got:
		for _, r := range a.readings {
			emit(r)
		}
		return a.err
	case <-ctx.Done():
		g.pending = got
		return ctx.Err()
	case <-late.C:
		g.pending = got
		return fmt.Errorf("%s did not answer within %v", g.what, g.deadline)
	}
}
