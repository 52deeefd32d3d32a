package server

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestBatcherGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		b := newBatcher(time.Second, 1000, func(_ context.Context, in []int) ([]int, error) {
			sizes = append(sizes, len(in))
			out := make([]int, len(in))
			for i, v := range in {
				out[i] = 2 * v
			}
			return out, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go b.run(ctx)
		began := time.Now()
		if v, err := b.submit(ctx, 4); v != 8 || err != nil || time.Since(began) > 0 {
			t.Errorf("who comes alone waited %s for %d, %v", time.Since(began), v, err)
		}
		var all sync.WaitGroup
		for i := range 2500 {
			all.Go(func() {
				if v, err := b.submit(ctx, i); v != 2*i || err != nil {
					t.Errorf("%d: %d, %v", i, v, err)
				}
			})
		}
		all.Wait()
		if len(sizes) > 5 || sizes[0] != 1 || sizes[1] != 1000 {
			t.Errorf("batches of %v", sizes)
		}
	})
}

func TestBatcherTellsOfAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("away")
		b := newBatcher(time.Second, 10, func(context.Context, []int) ([]int, error) { return nil, away })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go b.run(ctx)
		if _, err := b.submit(ctx, 1); !errors.Is(err, away) {
			t.Errorf("%v", err)
		}
	})
}
