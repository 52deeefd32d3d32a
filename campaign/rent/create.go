package rent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/store"
)

// Create makes the instance of an intent, whose label the order has. It may be called
// again after any failure, by any process: a call whose outcome is not known is not
// repeated, but looked for. As with a provider the error may come with an instance.
func (r *Renter) Create(ctx context.Context, o provider.Order) (provider.Instance, error) {
	i, err := r.store.Intent(ctx, o.Label)
	if err != nil {
		return provider.Instance{}, err
	}
	c, err := r.Cloud(i.Provider)
	if err != nil {
		return provider.Instance{}, err
	}
	switch i.State {
	case store.Intended:
		return r.create(ctx, c, o)
	case store.Creating:
		return r.find(ctx, c, i, errors.New("whoever called create is not there any more"))
	case store.Live:
		return known(i), nil
	}
	return provider.Instance{}, fmt.Errorf("create %s: %w: it is %s", o.Label, store.ErrLease, i.State)
}

// known is what the store has of an intent's instance.
func known(i store.Intent) provider.Instance {
	for _, n := range i.Instances {
		if n.Ended.IsZero() {
			return provider.Instance{ID: n.ID, Label: n.Label, Host: n.Host, Port: n.Port}
		}
	}
	return provider.Instance{Label: i.Label}
}

// create calls create, once.
func (r *Renter) create(ctx context.Context, c Cloud, o provider.Order) (provider.Instance, error) {
	// Nobody has called create for this label: that would have been committed. What a
	// look has to show is that the list can be believed, and it may be another one's.
	if err := r.lookOlder(ctx, c.Traits.Name, r.o.Period); err != nil {
		return provider.Instance{}, fmt.Errorf("create %s: %w: look at what is there: %w", o.Label, provider.ErrNotSent, err)
	}
	i, err := r.store.Intent(ctx, o.Label)
	if err != nil {
		return provider.Instance{}, err
	}
	if len(i.Instances) > 0 { // which somebody else made
		return known(i), nil
	}
	if err := r.balance(ctx, c, i); err != nil {
		return provider.Instance{}, fmt.Errorf("create %s: %w: %w", o.Label, provider.ErrNotSent, err)
	}
	r.o.Step("call")
	if err := r.store.Call(ctx, o.Label); err != nil {
		return provider.Instance{}, fmt.Errorf("%w: %w", provider.ErrNotSent, err)
	}
	call, cancel := r.bounded(ctx)
	defer cancel()
	r.o.Step("create")
	n, err := c.Provider.Create(call, o)
	r.o.Step("created")
	err = r.tooFast(ctx, c.Traits, provider.CallCreate, err)
	return r.outcome(context.WithoutCancel(ctx), c, i, n, err)
}

// balance refuses an order that the account cannot pay for.
func (r *Renter) balance(ctx context.Context, c Cloud, i store.Intent) error {
	b, ok := c.Provider.(provider.Balancer)
	if !ok {
		return nil
	}
	call, cancel := r.bounded(ctx)
	defer cancel()
	left, err := b.Balance(call)
	if err != nil {
		return fmt.Errorf("read the balance of %s: %w", c.Traits.Name, r.tooFast(ctx, c.Traits, provider.CallBalance, err))
	}
	if left.Nano < i.Reserved.Nano {
		return fmt.Errorf("%w: %s has %s left, and the instance may come to %s", provider.ErrNoMoney, c.Traits.Name, left, i.Reserved)
	}
	return nil
}

// outcome records what create answered.
func (r *Renter) outcome(ctx context.Context, c Cloud, i store.Intent, n provider.Instance, err error) (provider.Instance, error) {
	if n.ID != "" {
		now, e := r.store.Created(ctx, i.Label, r.ours(n))
		if e == nil && now.State != store.Live {
			e = fmt.Errorf("%w: it is %s: %s", store.ErrLease, now.State, now.Why)
		}
		return n, errors.Join(err, e)
	}
	switch {
	case err == nil:
		err = fmt.Errorf("%w: create gave neither an instance nor an error", provider.ErrMalformed)
	case errors.Is(err, provider.ErrNotSent) && errors.Is(err, context.DeadlineExceeded): // nobody had a turn
		return n, errors.Join(err, r.store.Uncall(ctx, i.Label))
	case errors.Is(err, provider.ErrNotSent):
		return n, errors.Join(err, r.store.End(ctx, i.Label, err.Error(), false))
	case errors.Is(err, provider.ErrNoCapacity), errors.Is(err, provider.ErrNoMoney), errors.Is(err, provider.ErrKey):
		if e := r.store.Declined(ctx, i.Label); e != nil {
			return n, errors.Join(err, e)
		}
		return n, errors.Join(err, r.store.End(ctx, i.Label, err.Error(), true))
	}
	return r.find(ctx, c, i, err)
}

// find looks for an instance by its label until a list would show it.
func (r *Renter) find(ctx context.Context, c Cloud, i store.Intent, why error) (provider.Instance, error) {
	now, err := r.store.Now(ctx)
	if err != nil {
		return provider.Instance{}, err
	}
	until := now
	if !i.Called.IsZero() && i.Called.Add(r.o.Timeout).After(now) {
		until = i.Called.Add(r.o.Timeout) // the call may still be under way
	}
	until = until.Add(c.Traits.ListLag)
	for {
		failed := r.lookOlder(ctx, c.Traits.Name, r.pause(c.Traits)/2)
		looked, err := r.store.Looked(ctx, c.Traits.Name)
		if err != nil {
			return provider.Instance{}, err
		}
		now, err := r.store.Now(ctx)
		if err != nil {
			return provider.Instance{}, err
		}
		i, err := r.store.Intent(ctx, i.Label)
		switch {
		case err != nil:
			return provider.Instance{}, err
		case len(i.Instances) > 0:
			n := known(i)
			now, err := r.store.Created(ctx, i.Label, n) // live, unless somebody has ended it
			if err == nil && now.State != store.Live {
				err = fmt.Errorf("create %s: %w: it is %s: %s", i.Label, store.ErrLease, now.State, now.Why)
			}
			return n, err
		case i.State != store.Creating:
			return provider.Instance{}, fmt.Errorf("create %s: %w: it is %s", i.Label, store.ErrLease, i.State)
		case looked.After(until) || !i.Lease.After(now):
			err := errors.Join(fmt.Errorf("create %s: %w: %w", i.Label, ErrLost, why), failed)
			return provider.Instance{}, errors.Join(err, r.store.End(ctx, i.Label, why.Error(), true))
		}
		if err := sleep(ctx, r.pause(c.Traits)); err != nil {
			return provider.Instance{}, err
		}
	}
}

// pause is how long to wait between two looks.
func (r *Renter) pause(t provider.Traits) time.Duration {
	return min(max(t.ListLag/4, t.MinInterval[provider.CallList], 10*time.Millisecond), 15*time.Second)
}
