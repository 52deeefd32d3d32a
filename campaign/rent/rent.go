// Package rent is the life of one rented instance: intend, create, renew, end, settle.
// Workers and reap both call it, so that there is one way to do each.
//
// What it promises: create is called at most once for a label, after the label was
// committed with its reservation and looked for. An error that carries an instance is
// an instance; an answer that was lost is looked for by its label until a list would
// show it. An instance is destroyed until its end is proved by two looks beyond the
// provider's lag, and only then is its money settled. Where a provider cannot prove an
// end, the reservation stays until an operator confirms.
//
// What it refuses: to take an error for an empty list, to retry a create, to create
// where a provider refuses to destroy or its list is not believed.
//
// Everything that it knows is in the store: a process may die between any two
// statements, and another one goes on by calling the same functions again.
package rent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/store"
)

// Cloud is a provider with what is known of it. Its adapter waits by
// [store.Store.Limits], so that all processes keep its limits together.
type Cloud struct {
	Provider provider.Provider
	Traits   provider.Traits
}

// Options are how instances are rented. The zero value is for real clouds.
type Options struct {
	// Period is that of reap: an instance may live so much longer than its lease, and
	// money is reserved for it. Zero: a minute.
	Period time.Duration
	// Scale is how much faster the clouds' clocks run than ours, as a sandbox' does:
	// an hour of ours costs so many of theirs. Zero: 1.
	Scale float64
	// Timeout bounds one call. Zero: a minute of the clouds' time, and at least five
	// seconds of ours.
	Timeout time.Duration
	// Step is called before each step with its name, for tests that end there.
	Step func(name string)
}

// Renter rents at some clouds. It is safe for concurrent use.
type Renter struct {
	store  *store.Store
	clouds map[string]Cloud
	// looking is held by who looks at a cloud.
	looking map[string]chan struct{}
	o       Options
}

// ErrLost says that create may or may not have made an instance, and that no list has
// shown it: it is looked for from now on, and its money stays reserved. Go on with
// another offer.
var ErrLost = errors.New("nobody knows whether the instance was created")

// New makes a Renter.
func New(s *store.Store, clouds []Cloud, o Options) *Renter {
	if o.Period == 0 {
		o.Period = time.Minute
	}
	if o.Scale == 0 {
		o.Scale = 1
	}
	if o.Timeout == 0 {
		o.Timeout = max(time.Duration(float64(time.Minute)/o.Scale), 5*time.Second)
	}
	if o.Step == nil {
		o.Step = func(string) {}
	}
	r := &Renter{store: s, clouds: map[string]Cloud{}, looking: map[string]chan struct{}{}, o: o}
	for _, c := range clouds {
		r.clouds[c.Traits.Name] = c
		r.looking[c.Traits.Name] = make(chan struct{}, 1)
	}
	return r
}

// Clouds are the names of the clouds, sorted.
func (r *Renter) Clouds() []string { return slices.Sorted(maps.Keys(r.clouds)) }

// Cloud gives one of them.
func (r *Renter) Cloud(name string) (Cloud, error) {
	c, ok := r.clouds[name]
	if !ok {
		return c, fmt.Errorf("provider %s is not configured here: give its credentials", name)
	}
	return c, nil
}

// Want is an instance that somebody wants.
type Want struct {
	Cell     string
	Provider string
	Offer    provider.Offer
	Lease    time.Duration // until its first renewal
	Life     time.Duration // the longest
	Down, Up int64         // bytes that it may transfer at most: image, model, results
}

// Intend commits an instance for a cell, with a label and a reservation: the price of
// its longest life and of what reap may take to end it, its disk and its bandwidth.
func (r *Renter) Intend(ctx context.Context, w Want) (store.Intent, error) {
	c, err := r.Cloud(w.Provider)
	if err != nil {
		return store.Intent{}, err
	}
	t := store.Terms{Cell: w.Cell, Provider: w.Provider, Offer: w.Offer.ID, Machine: w.Offer.Machine, Location: w.Offer.Location,
		Lease: w.Lease, Life: w.Life, Lag: c.Traits.ListLag, Again: c.Traits.Owned}
	if err := r.price(&t, w, c.Traits); err != nil {
		return store.Intent{}, fmt.Errorf("reserve for cell %s: %w", w.Cell, err)
	}
	r.o.Step("intend")
	return r.store.Intend(ctx, t)
}

// price fills in what an instance costs by our clock.
func (r *Renter) price(t *store.Terms, w Want, traits provider.Traits) (err error) {
	p := w.Offer.Price
	if p.Hour, err = p.Hour.Times(r.o.Scale); err != nil {
		return err
	}
	t.Hour = p.Hour
	if t.Extra, err = p.Cost(0, w.Down, w.Up); err != nil {
		return err
	}
	t.Reserve, err = p.Cost(w.Life+r.o.Period+traits.ListLag, w.Down, w.Up)
	return err
}

// Renew prolongs a lease, at most to the longest life. [store.ErrLease]: stop, the
// instance is being ended.
func (r *Renter) Renew(ctx context.Context, label string, d time.Duration) (time.Time, error) {
	r.o.Step("renew")
	return r.store.Renew(ctx, label, d)
}

// bounded gives a call to a provider its time, whatever becomes of who asked for it:
// an answer that nobody waits for any more is an instance that nobody knows.
func (r *Renter) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), r.o.Timeout)
}

// tooFast has everybody wait for a while, where a provider says so.
func (r *Renter) tooFast(ctx context.Context, t provider.Traits, c provider.Call, err error) error {
	if !errors.Is(err, provider.ErrRate) {
		return err
	}
	const times = 4
	pause := times * max(t.MinInterval[c], t.MinAny)
	return errors.Join(err, r.store.Backoff(context.WithoutCancel(ctx), t.Name, c, pause))
}

// sleep waits, or until the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
