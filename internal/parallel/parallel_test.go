package parallel

import (
	"context"
	"sync/atomic"
	"testing"
)

func TestDo(t *testing.T) {
	for _, n := range []int{0, 1, step - 1, step, step + 1, 1000} {
		times := make([]atomic.Int32, n)
		Do(t.Context(), n, func(i int) { times[i].Add(1) })
		for i := range times {
			if got := times[i].Load(); got != 1 {
				t.Fatalf("of %d: %d was done %d times", n, i, got)
			}
		}
	}
}

func TestDoStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var done atomic.Int32
	Do(ctx, 1_000_000, func(int) {
		if done.Add(1) == 100 {
			stop()
		}
	})
	if n := done.Load(); n < 100 || n > 100_000 {
		t.Errorf("%d pieces were done after the end at 100", n)
	}
}
