// Package reap destroys what nobody owns: instances under our labels whose lease has
// ended, creates that never returned, and what a database that was lost has left
// behind. It knows labels and the database, and needs no workflow to run.
//
// What it promises: an instance outlives its lease by no more than a period, as long
// as its provider lists and destroys. It is safe to run as often, and in as many
// places, as one likes.
//
// What it refuses: to touch a label that does not begin with an id of this
// installation; to take a list that failed, or that lacks what should be in it, for
// the news that all is gone; to destroy, without being told to adopt it, what the
// database does not know, since the original of a copied database may.
package reap

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/rent"
	"github.com/assay-bench/assay/campaign/store"
)

// ErrMoved says that the database is a copy or was restored: nothing is destroyed
// until somebody says that the labels are this one's.
var ErrMoved = errors.New("this database is a copy or was restored")

// Options are how to reap.
type Options struct {
	// Period is the longest that an instance may outlive its lease; a round begins
	// each half of it. Zero: a minute.
	Period time.Duration
	// Adopt destroys what has one of our labels and is not in the database.
	Adopt bool
	// Log gets what happens. Nil: nobody.
	Log *slog.Logger
}

// Reaper goes its rounds.
type Reaper struct {
	store  *store.Store
	renter *rent.Renter
	o      Options
}

// New makes a Reaper of a Renter's clouds.
func New(s *store.Store, r *rent.Renter, o Options) *Reaper {
	if o.Period == 0 {
		o.Period = time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Reaper{store: s, renter: r, o: o}
}

// Report is what a round did.
type Report struct {
	Installation string     `json:"installation"`
	At           time.Time  `json:"at"`
	Providers    []Provider `json:"providers"`
}

// Provider is what a round did at one provider.
type Provider struct {
	Name      string              `json:"name"`
	Expired   int                 `json:"expired"`             // intents whose lease had ended
	Destroyed []string            `json:"destroyed,omitempty"` // labels; the provider accepted it
	Ended     []string            `json:"ended,omitempty"`     // labels; proved, and settled
	Adopted   []string            `json:"adopted,omitempty"`
	Strangers []provider.Instance `json:"strangers,omitempty"` // our labels, and not in the database
	Open      []store.Intent      `json:"open,omitempty"`      // what has not ended, after the round
	Distrust  string              `json:"distrust,omitempty"`  // why nothing is created there
	Error     string              `json:"error,omitempty"`
	err       error
}

// Err is what failed in a round, or nil.
func (r Report) Err() error {
	var all error
	for _, p := range r.Providers {
		if p.err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", p.Name, p.err))
		}
	}
	return all
}

// Waiting are labels for which somebody has to do something: confirm an end, or adopt
// them.
func (r Report) Waiting() []string {
	var labels []string
	for _, p := range r.Providers {
		for _, i := range p.Open {
			if i.State == store.Unproved {
				labels = append(labels, i.Label)
			}
		}
		for _, n := range p.Strangers {
			labels = append(labels, n.Label)
		}
	}
	return labels
}

// Once goes one round, at all clouds at a time.
func (r *Reaper) Once(ctx context.Context) (Report, error) {
	in, err := r.store.Installation(ctx)
	if err != nil {
		return Report{}, err
	}
	if in.Moved {
		return Report{Installation: in.ID}, fmt.Errorf("%w: if nobody else works with the installation %s, reap with --adopt", ErrMoved, in.ID)
	}
	now, err := r.store.Now(ctx)
	if err != nil {
		return Report{}, err
	}
	names := r.renter.Clouds()
	report := Report{Installation: in.ID, At: now, Providers: make([]Provider, len(names))}
	var wg sync.WaitGroup
	for k, name := range names {
		wg.Go(func() {
			p := &report.Providers[k]
			p.Name = name
			if p.err = r.at(ctx, name, p); p.err != nil {
				p.Error = p.err.Error()
			}
		})
	}
	wg.Wait()
	return report, report.Err()
}

// at goes a round at one provider. What is known to be due is destroyed before the
// list is asked for, which may fail.
func (r *Reaper) at(ctx context.Context, name string, p *Provider) error {
	failed := r.sweep(ctx, name, p)
	found, err := r.renter.Look(ctx, name)
	failed = errors.Join(failed, err)
	p.Ended, p.Distrust, p.Strangers = found.Ended, found.Distrust, found.Strangers
	if r.o.Adopt {
		failed = errors.Join(failed, r.adopt(ctx, name, p))
	}
	failed = errors.Join(failed, r.destroy(ctx, name, p)) // what the look has found
	p.Open, err = r.store.Open(ctx, name)
	return errors.Join(failed, err)
}

// sweep destroys what is known and has no lease any more.
func (r *Reaper) sweep(ctx context.Context, name string, p *Provider) error {
	n, err := r.store.Expire(ctx, name)
	p.Expired += n
	return errors.Join(err, r.destroy(ctx, name, p))
}

// destroy destroys what is being ended.
func (r *Reaper) destroy(ctx context.Context, name string, p *Provider) error {
	open, err := r.store.Open(ctx, name)
	for _, i := range open {
		if i.State != store.Ending || !due(i) {
			continue
		}
		if e := r.renter.Destroy(ctx, i); e != nil {
			err = errors.Join(err, e)
			continue
		}
		p.Destroyed = append(p.Destroyed, i.Label)
	}
	return err
}

// due reports whether something of an intent is left to destroy.
func due(i store.Intent) bool {
	for _, n := range i.Instances {
		if n.Ended.IsZero() && n.Destroyed.IsZero() {
			return true
		}
	}
	return false
}

// adopt takes up what has our label and is not in the database.
func (r *Reaper) adopt(ctx context.Context, name string, p *Provider) error {
	for _, n := range p.Strangers {
		if err := r.store.AdoptInstance(ctx, name, n); err != nil {
			return err
		}
		p.Adopted = append(p.Adopted, n.Label)
	}
	p.Strangers = nil
	return nil
}

// Run goes rounds until the context ends, and gives each report to emit. A round that
// failed is logged and followed by the next one. What is known is swept beside them,
// as a look may have to wait for many pages.
func (r *Reaper) Run(ctx context.Context, emit func(Report)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if in, err := r.store.Installation(ctx); err == nil && !in.Moved {
		for _, name := range r.renter.Clouds() {
			go r.every(ctx, func() {
				if err := r.sweep(ctx, name, &Provider{}); err != nil {
					r.o.Log.Warn("not all is destroyed that should be, and the next sweep tries again", "provider", name, "error", err)
				}
			})
		}
	}
	var moved error
	r.every(ctx, func() {
		report, err := r.Once(ctx)
		switch {
		case errors.Is(err, ErrMoved):
			moved = err
			cancel()
			return
		case err != nil && ctx.Err() == nil:
			r.o.Log.Warn("a round failed in part, and the next one tries again", "error", err)
		}
		emit(report)
	})
	return errors.Join(moved, ctx.Err())
}

// every does something each half of a period, until the context ends.
func (r *Reaper) every(ctx context.Context, do func()) {
	tick := time.NewTicker(r.o.Period / 2)
	defer tick.Stop()
	for ctx.Err() == nil {
		do()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
