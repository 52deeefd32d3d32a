package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/kafka"
	"github.com/assay-bench/assay/ledger/outbox"
)

// field is all nodes.
type field struct {
	c    config
	keys []nodeKey
	list *accepted
	pace pace

	nodes   []node
	ran     sync.WaitGroup
	stop    context.CancelFunc
	mu      sync.Mutex
	runErr  error
	refused atomic.Int64
	size    atomic.Int64
}

// node is one of them.
type node struct {
	nodeKey
	box  *outbox.Outbox
	sink *kafka.Sink
}

func newField(c config, keys []nodeKey, list *accepted) *field {
	return &field{c: c, keys: keys, list: list, pace: pace{rate: c.rate, began: time.Now()}}
}

// open opens the outboxes and begins to deliver.
func (f *field) open(conf kafka.Config, dir string) error {
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	for _, k := range f.keys {
		box, err := outbox.Open(outbox.Options{Dir: filepath.Join(dir, k.key.Node), RetryMax: time.Second, Scan: time.Second})
		if err != nil {
			return err
		}
		sink, err := kafka.NewSink(conf)
		if err != nil {
			return errors.Join(err, box.Close())
		}
		n := node{k, box, sink}
		f.nodes = append(f.nodes, n)
		f.ran.Go(func() {
			err := n.box.Run(ctx, n.sink, slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", n.key.Node))
			if err != nil {
				f.mu.Lock()
				f.runErr = errors.Join(f.runErr, fmt.Errorf("%s: %w", n.key.Node, err))
				f.mu.Unlock()
			}
		})
	}
	return nil
}

// add adds until the count is there. A node's own key goes first, as with a run
// that is signed.
func (f *field) add(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var left atomic.Int64
	left.Store(int64(f.c.count - f.list.before))
	var wg sync.WaitGroup
	for _, n := range f.nodes {
		key := ledger.Record{ID: n.key.Stamp.ID, Kind: ledger.KindEnvelope, Node: n.key.Node, Value: n.key.Envelope}
		if err := f.put(ctx, n.box, key); err != nil {
			return err
		}
		for range f.c.workers {
			wg.Go(func() {
				for ctx.Err() == nil && left.Add(-1) >= 0 {
					if err := f.one(ctx, n); err != nil {
						cancel(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (f *field) one(ctx context.Context, n node) error {
	if err := f.pace.wait(ctx); err != nil {
		return err
	}
	r, err := n.statement(ctx, time.Now())
	if err != nil {
		return err
	}
	f.size.Store(int64(len(r.Value)))
	if err := f.put(ctx, n.box, r); err != nil {
		return err
	}
	return f.list.note(r.ID)
}

// put adds a record, and waits where there is no room: a full outbox has refused
// the record aloud, and nothing was promised.
func (f *field) put(ctx context.Context, box *outbox.Outbox, r ledger.Record) error {
	for {
		err := box.Add(ctx, r)
		if !errors.Is(err, outbox.ErrFull) {
			return err
		}
		f.refused.Add(1)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// flush waits until everything is acknowledged, also what killed processes left.
func (f *field) flush(ctx context.Context, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	errs := make([]error, len(f.nodes))
	var wg sync.WaitGroup
	for i, n := range f.nodes {
		wg.Go(func() { errs[i] = n.box.Flush(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (f *field) close() error {
	f.stop()
	f.ran.Wait()
	err := f.runErr
	for _, n := range f.nodes {
		err = errors.Join(err, n.box.Close(), n.sink.Close())
	}
	return err
}

// pace lets so many through a second, however many ask.
type pace struct {
	rate  float64
	began time.Time
	n     atomic.Int64
}

func (p *pace) wait(ctx context.Context) error {
	if p.rate <= 0 {
		return ctx.Err()
	}
	due := p.began.Add(time.Duration(float64(p.n.Add(1)) / p.rate * float64(time.Second)))
	d := time.Until(due)
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
