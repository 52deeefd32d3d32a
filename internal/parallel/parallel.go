// Package parallel does pieces of work on all cores.
package parallel

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// step is how many pieces are taken at once: enough that taking them costs
// nothing, few enough that the last worker does not keep the others waiting.
const step = 8

// Do calls do for 0 to n-1 and returns when all calls have. Where ctx ends early,
// some are left out: the caller is about to stop.
func Do(ctx context.Context, n int, do func(int)) {
	workers := min(runtime.GOMAXPROCS(0), (n+step-1)/step)
	var next atomic.Int64
	work := func() {
		for ctx.Err() == nil {
			from := int(next.Add(step)) - step
			if from >= n {
				return
			}
			for i := from; i < min(from+step, n); i++ {
				do(i)
			}
		}
	}
	var wg sync.WaitGroup
	for range workers - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}
