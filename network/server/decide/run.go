package decide

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/assay-bench/assay/network/store"
)

// The kinds of work that one process does at a time. Webhooks and timers are
// claimed one by one, and so shared by all.
const (
	leaseJudge   = "judge"
	leaseContact = "contact"
	leasePublish = "publish"
	leaseTidy    = "tidy"
	leaseDemand  = "demand"
	leaseMeasure = "measure"
	leaseModels  = "models"
	leaseExamine = "examine"
)

// Run does what goes on by itself until ctx ends: it judges reports, looks who is
// silent, does what is due, publishes, sends webhooks, and keeps tables tidy. The
// work is shared with other processes on the same database.
func (d *Decider) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { d.leased(ctx, leaseJudge, d.reports, d.judgeTurn) })
	all.Go(func() { d.leased(ctx, leaseContact, nil, d.contacts()) })
	all.Go(func() { d.leased(ctx, leaseTidy, nil, d.tidies()) })
	all.Go(func() { d.leased(ctx, leaseExamine, nil, d.examineTurn) })
	all.Go(func() { d.leased(ctx, leaseDemand, nil, d.demands()) })
	all.Go(func() { d.leased(ctx, leaseMeasure, nil, d.measurements()) })
	if len(d.o.Models.References) > 0 && d.o.Models.Client != nil {
		all.Go(func() { d.leased(ctx, leaseModels, nil, d.models()) })
	}
	if d.o.Sink != nil {
		all.Go(func() { d.leased(ctx, leasePublish, nil, d.publishTurn) })
	}
	if d.o.Client != nil {
		all.Go(func() { d.loop(ctx, "send webhooks", nil, d.sendWebhooks) })
	}
	all.Go(func() { d.loop(ctx, "do what is due", nil, d.doDue) })
	all.Wait()
}

// turn does a piece of work. More says that there is more of it at once.
type turn func(context.Context) (more bool, err error)

// loop takes turns until ctx ends: at once while there is more, else now and then
// or when it is woken. What fails is tried again, and told once in a while.
func (d *Decider) loop(ctx context.Context, doing string, wake <-chan struct{}, do turn) {
	var told time.Time
	failed := 0
	for ctx.Err() == nil {
		more, err := do(ctx)
		if err != nil && ctx.Err() == nil {
			failed++
			if now := d.now(); now.Sub(told) >= 30*time.Second {
				told = now
				d.log.Error("could not "+doing+"; it is tried again", "error", err)
			}
		} else {
			failed = 0
		}
		if more && err == nil {
			continue
		}
		d.pause(ctx, wake, d.o.Every*time.Duration(1+min(failed, 10)))
	}
}

func (d *Decider) pause(ctx context.Context, wake <-chan struct{}, wait time.Duration) {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-wake: // nil: never
	case <-t.C:
	}
}

// leasedTurn is a turn of who holds the lease.
type leasedTurn func(context.Context, store.Lease) (more bool, err error)

// leased takes turns while this process holds a lease. A process that has some
// already lets others go first, so that the kinds of work spread.
func (d *Decider) leased(ctx context.Context, name string, wake <-chan struct{}, do leasedTurn) {
	var l store.Lease
	had := false
	count := func(holds bool) {
		if holds == had {
			return
		}
		had = holds
		d.mu.Lock()
		defer d.mu.Unlock()
		if holds {
			d.held++
		} else {
			d.held--
		}
	}
	d.loop(ctx, "do the work "+name, wake, func(ctx context.Context) (bool, error) {
		if !had {
			d.mu.Lock()
			held := d.held
			d.mu.Unlock()
			d.pause(ctx, nil, time.Duration(held)*d.o.Every/4)
		}
		var err error
		l, err = d.store.Acquire(ctx, name, d.o.Holder, d.o.Lease)
		d.renewed(ctx, name, err)
		if errors.Is(err, store.ErrLease) {
			count(false)
			return false, nil
		}
		if err != nil {
			count(false)
			return false, err
		}
		count(true)
		more, err := do(ctx, l)
		if errors.Is(err, store.ErrLease) {
			count(false)
			return false, nil // it took longer than it may: somebody else goes on
		}
		return more, err
	})
	if had {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := d.store.Release(end, l); err != nil {
			d.log.Warn("could not give back a lease; it ends by itself", "lease", name, "error", err)
		}
	}
}

// failure is since when a lease can be neither had nor seen with somebody else.
type failure struct {
	since time.Time
	err   error
}

// renewed notes how asking for a lease went. That somebody else has it is well.
func (d *Decider) renewed(ctx context.Context, name string, err error) {
	if ctx.Err() != nil {
		return
	}
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil || errors.Is(err, store.ErrLease) {
		delete(d.failing, name)
		return
	}
	f, failed := d.failing[name]
	if !failed {
		f.since = now
	}
	f.err = err
	d.failing[name] = f
}

// Ready says whether this process can take part in the work that processes share: a
// database that can be read and not written to (its disk is full, it is a standby)
// serves nobody. A lease may fail for as long as it is held before that is said.
func (d *Decider) Ready(context.Context) error {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, f := range d.failing {
		if now.Sub(f.since) >= d.o.Lease {
			return fmt.Errorf("the lease %s could not be asked for since %s: %w", name, f.since.UTC().Format(time.RFC3339), f.err)
		}
	}
	return nil
}

func (d *Decider) judgeTurn(ctx context.Context, _ store.Lease) (bool, error) {
	n, err := d.judgeAll(ctx)
	return n > 0, err
}

// tidyEvery is how often partitions are made and old rows removed.
const tidyEvery = time.Hour

// tidies keeps the tables as they should be.
func (d *Decider) tidies() leasedTurn {
	var last time.Time
	return func(ctx context.Context, _ store.Lease) (bool, error) {
		now := d.now()
		if now.Sub(last) < tidyEvery {
			return false, nil
		}
		keep := store.DefaultRetention()
		if d.o.Retention != nil {
			keep = *d.o.Retention
		}
		if err := errors.Join(d.store.MakePartitions(ctx, now), d.store.Retain(ctx, keep, now), d.discard(ctx, now)); err != nil {
			return false, err
		}
		last = now
		return false, nil
	}
}
