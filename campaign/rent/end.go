package rent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/store"
)

// Look lists what a provider has and notes what that says of everything that is open
// there. An error says nothing about any instance.
func (r *Renter) Look(ctx context.Context, name string) (store.Found, error) {
	c, err := r.Cloud(name)
	if err != nil {
		return store.Found{}, err
	}
	open, err := r.store.Open(ctx, name)
	if err != nil {
		return store.Found{}, err
	}
	var ids []string
	for _, i := range open {
		for _, n := range i.Instances {
			if n.Ended.IsZero() {
				ids = append(ids, n.ID)
			}
		}
	}
	in, err := r.store.Installation(ctx)
	if err != nil {
		return store.Found{}, err
	}
	began, err := r.store.Now(ctx)
	if err != nil {
		return store.Found{}, err
	}
	r.o.Step("look")
	census, err := provider.Look(ctx, c.Provider, ids...)
	if err != nil && !errors.Is(err, provider.ErrUnproved) {
		return store.Found{}, r.tooFast(ctx, c.Traits, provider.CallList, err)
	}
	for k, n := range census.Instances {
		census.Instances[k] = r.ours(n)
	}
	over, err := r.store.Now(ctx)
	if err != nil {
		return store.Found{}, err
	}
	r.o.Step("observe")
	return r.store.Observe(ctx, in, store.Sight{Provider: name, Began: began, Over: over, Lag: c.Traits.ListLag, Census: census, Proves: proves(c.Provider)})
}

// lookOlder looks, unless somebody did so within a time: a list is a limited call, and
// serves everybody. Of several here who want a look at once one looks.
func (r *Renter) lookOlder(ctx context.Context, name string, age time.Duration) error {
	now, err := r.store.Now(ctx)
	if err != nil {
		return err
	}
	from := now.Add(-age) // one that begins while this waits is good too
	if looked, err := r.store.Looked(ctx, name); err != nil || looked.After(from) {
		return err
	}
	select {
	case r.looking[name] <- struct{}{}:
		defer func() { <-r.looking[name] }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if looked, err := r.store.Looked(ctx, name); err != nil || looked.After(from) {
		return err
	}
	_, err = r.Look(ctx, name)
	return err
}

// ours is an instance with its price by our clock.
func (r *Renter) ours(n provider.Instance) provider.Instance {
	if hour, err := n.Hour.Times(r.o.Scale); err == nil { // else the provider states no price that exists
		n.Hour = hour
	}
	return n
}

// proves reports whether a provider can prove an end at all.
func proves(p provider.Provider) bool {
	_, pages := p.(provider.Getter)
	_, key := p.(provider.KeyProver)
	_, balance := p.(provider.Balancer)
	return pages && (key || balance)
}

// Destroy has the provider destroy what is left of an intent that is being ended. No
// error says that all of it was accepted.
func (r *Renter) Destroy(ctx context.Context, i store.Intent) error {
	c, err := r.Cloud(i.Provider)
	if err != nil {
		return err
	}
	var all error
	for _, n := range i.Instances {
		if i.State == store.Ending && n.Ended.IsZero() && n.Destroyed.IsZero() {
			all = errors.Join(all, r.destroy(ctx, c, n))
		}
	}
	return all
}

func (r *Renter) destroy(ctx context.Context, c Cloud, n store.Instance) error {
	r.o.Step("destroy")
	err := c.Provider.Destroy(ctx, n.ID)
	r.o.Step("destroyed")
	switch {
	case err == nil, errors.Is(err, provider.ErrGone):
		return r.store.Destroyed(ctx, n)
	case errors.Is(err, provider.ErrNotSent):
		return err // nobody was asked, and nobody has refused
	}
	err = r.tooFast(ctx, c.Traits, provider.CallDestroy, err)
	return errors.Join(fmt.Errorf("destroy instance %s of %s: %w", n.ID, n.Label, err), r.store.Refused(ctx, n, err))
}

// End ends an intent and comes back when that is proved and its money settled: with
// [provider.ErrUnproved] where it cannot be, and an operator has to confirm. It goes on
// through every error of the provider, until the context ends; beat is called in each
// round with the last of them, and may be nil.
func (r *Renter) End(ctx context.Context, label, why string, beat func(error)) (store.Intent, error) {
	r.o.Step("end")
	if err := r.store.End(ctx, label, why, true); err != nil {
		return store.Intent{}, err
	}
	for {
		i, err := r.endRound(ctx, label)
		switch {
		case ctx.Err() != nil:
			return i, errors.Join(ctx.Err(), err)
		case i.State == store.Ended:
			return i, nil
		case i.State == store.Unproved:
			return i, fmt.Errorf("%w: %s: look yourself, then \"assay campaign reap --confirm %s\"", provider.ErrUnproved, i.Provider, label)
		}
		if beat != nil {
			beat(err)
		}
		c, err := r.Cloud(i.Provider)
		if err != nil {
			return i, err
		}
		if err := sleep(ctx, r.pause(c.Traits)); err != nil {
			return i, err
		}
	}
}

// endRound destroys what is left, and looks unless somebody has just done so.
func (r *Renter) endRound(ctx context.Context, label string) (store.Intent, error) {
	i, err := r.store.Intent(ctx, label)
	if err != nil || i.State != store.Ending {
		return i, err
	}
	failed := r.Destroy(ctx, i)
	c, err := r.Cloud(i.Provider)
	if err != nil {
		return i, err
	}
	failed = errors.Join(failed, r.lookOlder(ctx, i.Provider, r.pause(c.Traits)/2))
	i, err = r.store.Intent(ctx, label)
	return i, errors.Join(failed, err)
}
