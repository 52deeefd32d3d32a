package reap

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/sandbox"
	"github.com/assay-bench/assay/campaign/store"
)

// whole3 is a provider that proves ends.
type whole3 interface {
	provider.Provider
	provider.Getter
	provider.Balancer
}

// observed looks at each create whether it should have been made.
type observed struct {
	whole3
	w *watch
}

func (o observed) Create(ctx context.Context, order provider.Order) (provider.Instance, error) {
	o.w.mayCreate(order.Label)
	return o.whole3.Create(ctx, order)
}

// round is one of reap's.
type round struct {
	began, ended time.Time
	clean        bool // nothing failed in it, and the list was believed
}

// watch sees to what must not happen.
type watch struct {
	t             *testing.T
	ctx           context.Context // of the workers
	a             *account
	other         string // somebody else's instance
	kills, kills9 atomic.Int64

	rounds, sweeps []round
}

// mayCreate checks that nothing is created where something is not destroyed.
func (w *watch) mayCreate(label string) {
	i, err := w.a.store.Intent(w.t.Context(), label)
	if err != nil {
		return
	}
	open, err := w.a.store.Open(w.t.Context(), i.Provider)
	if err != nil {
		return
	}
	for _, o := range open {
		for _, n := range o.Instances {
			if !n.Refused.IsZero() && n.Refused.Before(i.Called) {
				w.t.Errorf("%s was created although %s was not destroyed: %s", label, n.Label, n.Refusal)
			}
		}
	}
}

// reap goes rounds, or sweeps, and dies in some of them.
func (w *watch) reap(ctx context.Context, seed uint64, rounds *[]round, do func(*Reaper, context.Context, string, *Provider) error) {
	r := rand.New(rand.NewPCG(seed, 4))
	reaper := New(w.a.store, w.a.renter(w.a.cloud, func(string) {
		if r.Float64() < 0.01 {
			panic(killed{})
		}
	}), Options{Period: period})
	reaper.every(ctx, func() {
		began := time.Now()
		var p Provider
		err := w.once(func() error { return do(reaper, ctx, w.a.cloud.Traits.Name, &p) })
		*rounds = append(*rounds, round{began, time.Now(), err == nil && p.Distrust == ""})
	})
}

// once does something of reap, and sees its death.
func (w *watch) once(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			if p != (killed{}) {
				panic(p)
			}
			w.kills.Add(1)
			err = errors.New("killed")
		}
	}()
	return do()
}

// caps looks all the time whether a cap is passed by what is reserved.
func (w *watch) caps(ctx context.Context) {
	for ctx.Err() == nil {
		list, err := w.a.store.Campaigns(ctx)
		if err != nil {
			continue
		}
		for _, c := range list {
			w.cap(ctx, store.OfCampaign, c.ID, c.Caps.Campaign.Nano)
			for _, b := range w.spend(ctx, c.ID) {
				w.over(b, c.Caps.Cell.Nano)
			}
		}
		w.cap(ctx, store.OfDay, time.Now().UTC().Format(time.DateOnly), list[0].Caps.Day.Nano)
		time.Sleep(period / 6)
	}
}

func (w *watch) spend(ctx context.Context, campaign string) map[string]store.Budget {
	spend, err := w.a.store.Spend(ctx, campaign)
	if err != nil && ctx.Err() == nil {
		w.t.Error(err)
	}
	return spend
}

func (w *watch) cap(ctx context.Context, scope store.Scope, name string, limit int64) {
	b, err := w.a.store.Budget(ctx, scope, name)
	if err == nil {
		w.over(b, limit)
	}
}

func (w *watch) over(b store.Budget, limit int64) {
	if b.Reserved.Nano < 0 || b.Reserved.Nano > 0 && b.Reserved.Nano > limit {
		w.t.Errorf("%s %s has %s reserved and %s spent, and may have %d", b.Scope, b.Name, b.Reserved, b.Spent, limit)
	}
}

// settled waits until everything has ended, and its money is settled.
func (w *watch) settled() {
	var open []store.Intent
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(period) {
		var err error
		open, err = w.a.store.Open(w.t.Context(), w.a.cloud.Traits.Name)
		if err == nil && len(open) == 0 {
			return
		}
	}
	for _, i := range open {
		w.t.Errorf("not ended: %+v", i)
	}
}

// cleanAfter is the end of the n-th clean round that began after a time.
func cleanAfter(rounds []round, at time.Time, n int) (time.Time, bool) {
	for _, r := range rounds {
		if r.clean && r.began.After(at) {
			if n--; n == 0 {
				return r.ended, true
			}
		}
	}
	return time.Time{}, false
}

// check compares the sandbox' book with what was promised.
func (w *watch) check(book sandbox.Book) *sums {
	t := w.t
	if book.Alive != 1 {
		t.Errorf("%d instances are alive, and one is somebody else's", book.Alive)
	}
	s := &sums{instances: len(book.Entries), kills: int(w.kills.Load()), kills9: int(w.kills9.Load()), early: len(book.Violations)}
	for _, n := range book.Calls {
		s.calls += n
	}
	cost, of := map[string]int64{}, map[string][]sandbox.Entry{}
	for _, e := range book.Entries {
		if e.ID == w.other {
			if e.DestroyAsked != nil {
				t.Error("somebody else's instance was destroyed")
			}
			continue
		}
		i, err := w.a.store.Intent(t.Context(), e.Label)
		if err != nil {
			t.Errorf("an instance without an intent: %v", err)
			continue
		}
		if e.Ended == nil {
			continue
		}
		s.beyond = max(s.beyond, w.outlived(e, i))
		of[i.Cell] = append(of[i.Cell], e)
		cost[i.Campaign] += e.Cost.Nano - refusedCost(e)
	}
	for cell, list := range of {
		s.pair = max(s.pair, w.pairs(cell, list))
	}
	w.money(cost)
	// A machine that is busy delays requests after they have left, by more than an
	// interval is on this time scale; without limits three of four come too early.
	if s.early*4 > s.calls {
		t.Errorf("%d of %d calls came too early: %+v", s.early, s.calls, book.Violations)
	}
	t.Logf("calls %v, faults %v, %d rounds and %d sweeps of reap", book.Calls, book.Hits, len(w.rounds), len(w.sweeps))
	return s
}

// outlived checks that an instance was asked to end by the first sweep of reap that
// began after its lease and met no fault, and gives by how much it outlived its lease.
// Of one that no answer named a list must tell, which lags, and may be empty or lack
// it without an error: a few rounds are allowed for that.
func (w *watch) outlived(e sandbox.Entry, i store.Intent) time.Duration {
	from, rounds, n := i.Lease, w.sweeps, 1
	if len(i.Instances) == 0 || i.Instances[0].First.After(e.Created.Add(w.a.cloud.Traits.ListLag)) {
		from, rounds, n = from.Add(w.a.cloud.Traits.ListLag), w.rounds, 4
	} else if first := i.Instances[0].First; first.After(from) {
		from = first // create answered when the lease was over already
	}
	by, found := cleanAfter(rounds, from, n)
	if e.DestroyAsked == nil || found && e.DestroyAsked.After(by) {
		w.t.Errorf("instance %s of %s: created at %s, its lease ended at %s, it was due and known from %s, a round without a fault ended at %s, and it was asked to end at %v", e.ID, e.Label, e.Created.Format(clock), i.Lease.Format(clock), from.Format(clock), by.Format(clock), e.DestroyAsked)
	}
	if e.DestroyAsked == nil || e.RefusedUntil != nil {
		return 0 // nobody could have ended it sooner
	}
	return e.DestroyAsked.Sub(i.Lease)
}

const clock = "15:04:05.000"

// pairs checks that two instances of a cell do not live beyond the lag and a round,
// and gives the longest time that two did.
func (w *watch) pairs(cell string, list []sandbox.Entry) (longest time.Duration) {
	for k, a := range list {
		for _, b := range list[k+1:] {
			from, to := b.Created, *a.Ended
			if a.Created.After(from) {
				from = a.Created
			}
			if b.Ended.Before(to) {
				to = *b.Ended
			}
			if !to.After(from) || a.RefusedUntil != nil || b.RefusedUntil != nil {
				continue
			}
			longest = max(longest, to.Sub(from))
			if by, found := cleanAfter(w.rounds, from.Add(w.a.cloud.Traits.ListLag), 4); found && to.After(by) {
				w.t.Errorf("cell %s had instances %s and %s at once for %s", cell, a.ID, b.ID, to.Sub(from))
			}
		}
	}
	return longest
}

// refusedCost is what an instance cost after somebody asked for its end.
func refusedCost(e sandbox.Entry) int64 {
	if e.DestroyAsked == nil {
		return 0
	}
	return int64(float64(e.Hour.Nano) * e.Ended.Sub(*e.DestroyAsked).Hours() * scale)
}

// money compares what was really spent, but for what a provider billed while it did
// not destroy, with the caps.
func (w *watch) money(cost map[string]int64) {
	for id, nano := range cost {
		c, err := w.a.store.Campaign(w.t.Context(), id)
		if err != nil || nano > c.Caps.Campaign.Nano {
			w.t.Errorf("campaign %s cost %d, its cap is %s, %v", id, nano, c.Caps.Campaign, err)
		}
		b, err := w.a.store.Budget(w.t.Context(), store.OfCampaign, id)
		if err != nil || b.Reserved.Nano != 0 || b.Spent.Nano < nano {
			w.t.Errorf("campaign %s cost %d, and the database says %s spent and %s reserved, %v", id, nano, b.Spent, b.Reserved, err)
		}
	}
}
