package server

import (
	"context"
	"net/http"
	"time"
)

// batcher brings requests that come one by one together into one piece of work.
// Who comes alone is served at once; while work is under way, or less than Every
// has passed since the last, others gather. An answer comes when the work is done:
// so it says what is stored, and whoever got none asks again.
type batcher[I, O any] struct {
	every time.Duration
	most  int                                     // in one batch
	do    func(context.Context, []I) ([]O, error) // an output for each input, in order
	in    chan batched[I, O]
}

type batched[I, O any] struct {
	input I
	out   chan result[O]
}

type result[O any] struct {
	output O
	err    error
}

// maxGathering is how many may wait for a batch.
const maxGathering = 20_000

func newBatcher[I, O any](every time.Duration, most int, do func(context.Context, []I) ([]O, error)) *batcher[I, O] {
	return &batcher[I, O]{every: every, most: most, do: do, in: make(chan batched[I, O], maxGathering)}
}

// submit waits for the outcome of a batch.
func (b *batcher[I, O]) submit(ctx context.Context, input I) (O, error) {
	one := batched[I, O]{input, make(chan result[O], 1)}
	var none O
	select {
	case b.in <- one:
	default:
		return none, refuseFor(http.StatusServiceUnavailable, 10*time.Second, "%d others wait already", maxGathering)
	}
	select {
	case r := <-one.out:
		return r.output, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// run works until ctx ends. What waits then is refused.
func (b *batcher[I, O]) run(ctx context.Context) {
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			b.drain(ctx)
			return
		case first := <-b.in:
			batch := b.gather(ctx, first, last.Add(b.every))
			last = time.Now()
			b.work(ctx, batch)
		}
	}
}

// gather takes what comes until a time, or until the batch is full.
func (b *batcher[I, O]) gather(ctx context.Context, first batched[I, O], until time.Time) []batched[I, O] {
	batch := []batched[I, O]{first}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for len(batch) < b.most {
		select {
		case one := <-b.in:
			batch = append(batch, one)
			continue
		default:
		}
		select {
		case one := <-b.in:
			batch = append(batch, one)
		case <-timer.C:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

func (b *batcher[I, O]) work(ctx context.Context, batch []batched[I, O]) {
	inputs := make([]I, len(batch))
	for i, one := range batch {
		inputs[i] = one.input
	}
	outputs, err := b.do(ctx, inputs)
	for i, one := range batch {
		r := result[O]{err: err}
		if err == nil {
			r.output = outputs[i]
		}
		one.out <- r
	}
}

func (b *batcher[I, O]) drain(ctx context.Context) {
	for {
		select {
		case one := <-b.in:
			one.out <- result[O]{err: context.Cause(ctx)}
		default:
			return
		}
	}
}
