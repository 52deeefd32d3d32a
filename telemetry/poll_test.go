package telemetry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-bench/assay"
)

// stuck hangs until it is let go, whatever the context says.
type stuck struct{ free chan struct{} }

func (s stuck) Name() string { return "stuck" }
func (s stuck) Close() error { return nil }
func (s stuck) Read(_ context.Context, emit func(assay.Reading)) error {
	<-s.free
	emit(value("late", 1))
	return errors.New("late")
}

func TestPollIsNotHeldUpByOneSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second+50*time.Millisecond)
		defer cancel()
		free := make(chan struct{})
		began := time.Now()
		got := map[string]int{}
		Poll(ctx, 100*time.Millisecond, func() int64 { return 0 }, []Source{stuck{free}, &fake{}, &fake{}},
			func(r assay.Reading) { got[r.Source]++ }, // a race if calls overlapped
			func(err error) { t.Errorf("%v", err) })
		if got["fake"] != 22 || got["stuck"] != 0 {
			t.Errorf("readings by source: %v", got)
		}
		if d := time.Since(began); d > time.Second+50*time.Millisecond+finalRead+time.Second {
			t.Errorf("the end took %v", d)
		}
		close(free) // what comes now is not given any more
		synctest.Wait()
		if got["stuck"] != 0 {
			t.Error("a reading came after the end")
		}
	})
}
