package reap

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/provider/tensordock"
	"github.com/assay-bench/assay/campaign/provider/vast"
	"github.com/assay-bench/assay/campaign/rent"
	"github.com/assay-bench/assay/campaign/sandbox"
	"github.com/assay-bench/assay/campaign/store"
)

// observedVast and observedTensorDock look at each create whether it should have been
// made.
type (
	observedVast struct {
		*vast.Cloud
		w *watch
	}
	observedTensorDock struct {
		*tensordock.Cloud
		w *watch
	}
)

func (o observedVast) Create(ctx context.Context, order provider.Order) (provider.Instance, error) {
	o.w.mayCreate(order.Label)
	return o.Cloud.Create(ctx, order)
}

func (o observedTensorDock) Create(ctx context.Context, order provider.Order) (provider.Instance, error) {
	o.w.mayCreate(order.Label)
	return o.Cloud.Create(ctx, order)
}

// observed are the clouds whose creates are looked at.
func (w *watch) observed() map[string]rent.Cloud {
	v, td := w.a.clouds[sandbox.Vast], w.a.clouds[sandbox.TensorDock]
	return map[string]rent.Cloud{
		sandbox.Vast:       {Provider: observedVast{v.Provider.(*vast.Cloud), w}, Traits: v.Traits},
		sandbox.TensorDock: {Provider: observedTensorDock{td.Provider.(*tensordock.Cloud), w}, Traits: td.Traits},
	}
}

// round is one of reap's.
type round struct {
	began, ended time.Time
	clean        bool // nothing failed in it, and the list was believed
}

// rounds are those at one cloud, and the sweeps beside them.
type rounds struct{ looks, sweeps []round }

// watch sees to what must not happen.
type watch struct {
	t             *testing.T
	ctx           context.Context // of the workers
	a             *account
	others        map[string]bool // ids of somebody else's instances
	kills, kills9 atomic.Int64

	reaped map[string]*rounds // by cloud
	strict bool               // a period is long enough for what this machine does meanwhile
}

// newWatch opens an account, in which somebody else has a machine at each cloud.
func newWatch(t *testing.T, cloud *sandbox.Sandbox, a *account) *watch {
	t.Helper()
	a.Vast, a.TensorDock = cloud.Key(sandbox.Vast), cloud.Key(sandbox.TensorDock)
	closeAll, err := a.open(t.Context())
	must(t, err)
	t.Cleanup(closeAll)
	w := &watch{t: t, a: a, others: map[string]bool{}, reaped: map[string]*rounds{}}
	for name, c := range a.clouds {
		id, err := bystander(t.Context(), c)
		must(t, err)
		w.others[id], w.reaped[name] = true, &rounds{}
	}
	return w
}

// begin reaps and looks at the caps until end is called; workers have a few minutes.
func (w *watch) begin(seed uint64) (end func()) {
	workers, stop := context.WithTimeout(w.t.Context(), 10*time.Minute)
	w.ctx = workers
	ctx, cancel := context.WithCancel(w.t.Context())
	var background sync.WaitGroup
	for name, r := range w.reaped {
		background.Go(func() { w.reap(ctx, name, seed, &r.looks, (*Reaper).at) })
		background.Go(func() { w.reap(ctx, name, seed+1000, &r.sweeps, (*Reaper).sweep) })
	}
	background.Go(func() { w.caps(ctx) })
	return func() {
		stop()
		cancel()
		background.Wait()
	}
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

// reap goes rounds at a cloud, or sweeps, and dies in some of them.
func (w *watch) reap(ctx context.Context, cloud string, seed uint64, rounds *[]round, do func(*Reaper, context.Context, string, *Provider) error) {
	r := rand.New(rand.NewPCG(seed, 4))
	reaper := New(w.a.store, w.a.renter(w.a.clouds, func(string) {
		if r.Float64() < 0.01 {
			panic(killed{})
		}
	}), Options{Period: w.a.Period})
	reaper.every(ctx, func() {
		began := time.Now()
		var p Provider
		err := w.once(func() error { return do(reaper, ctx, cloud, &p) })
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
		if len(list) > 0 {
			w.cap(ctx, store.OfDay, time.Now().UTC().Format(time.DateOnly), list[0].Caps.Day.Nano)
		}
		time.Sleep(w.a.Period / 6)
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
	for end := time.Now().Add(50 * w.a.Period); time.Now().Before(end); time.Sleep(w.a.Period / 3) {
		open = nil
		for name := range w.a.clouds {
			list, err := w.a.store.Open(w.t.Context(), name)
			must(w.t, err)
			open = append(open, list...)
		}
		if len(open) == 0 {
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
	if book.Alive != len(w.others) {
		t.Errorf("%d instances are alive, and %d are somebody else's", book.Alive, len(w.others))
	}
	s := &sums{instances: len(book.Entries), kills: int(w.kills.Load()), kills9: int(w.kills9.Load()), early: len(book.Violations)}
	for _, n := range book.Calls {
		s.calls += n
	}
	cost, of := map[string]int64{}, map[string][]sandbox.Entry{}
	for _, e := range book.Entries {
		if w.others[e.ID] {
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
		w.outlived(e, i, s)
		of[i.Cell] = append(of[i.Cell], e)
		cost[i.Campaign] += e.Cost.Nano - refusedCost(e, w.a.Scale)
	}
	for cell, list := range of {
		s.pair = max(s.pair, w.pairs(cell, list))
	}
	w.money(cost)
	if w.strict {
		w.held(book.Entries)
	}
	// A machine that is busy delays requests after they have left, by more than an
	// interval is on this time scale; without limits three of four come too early.
	if s.early*4 > s.calls {
		t.Errorf("%d of %d calls came too early: %+v", s.early, s.calls, book.Violations)
	}
	for name, r := range w.reaped {
		t.Logf("%s: %d rounds and %d sweeps of reap", name, len(r.looks), len(r.sweeps))
	}
	t.Logf("calls %v, faults %v", book.Calls, book.Hits)
	return s
}

// outlived checks that an instance was asked to end by the first sweep of reap that
// began after its lease and met no fault. Of one that no answer named a list must
// tell, which lags, and may be empty or lack it without an error: a few rounds are
// allowed for that. Where the machine's own delays do not count, more than a period
// needs a fault that explains it.
func (w *watch) outlived(e sandbox.Entry, i store.Intent, s *sums) {
	lag, from, rounds, n := w.a.clouds[e.Cloud].Traits.ListLag, i.Lease, w.reaped[e.Cloud].sweeps, 1
	if len(i.Instances) == 0 || i.Instances[0].First.After(e.Created.Add(lag)) {
		from, rounds, n = from.Add(lag), w.reaped[e.Cloud].looks, 4
	} else if first := i.Instances[0].First; first.After(from) {
		from = first // create answered when the lease was over already
	}
	by, found := cleanAfter(rounds, from, n)
	if e.DestroyAsked == nil || found && e.DestroyAsked.After(by) {
		w.t.Errorf("instance %s of %s: created at %s, its lease ended at %s, it was due and known from %s, a round without a fault ended at %s, and it was asked to end at %v", e.ID, e.Label, e.Created.Format(clock), i.Lease.Format(clock), from.Format(clock), by.Format(clock), e.DestroyAsked)
	}
	if e.DestroyAsked == nil || e.RefusedUntil != nil || !e.DestroyAsked.After(i.Lease) {
		return // nobody could have ended it sooner, or its owner did
	}
	s.orphans++
	s.beyond = max(s.beyond, e.DestroyAsked.Sub(i.Lease))
	if e.DestroyAsked.Sub(from) <= w.a.Period {
		return
	}
	if s.late++; w.strict && !w.faulty(e.Cloud, from, *e.DestroyAsked) {
		w.t.Errorf("instance %s of %s: due from %s, asked to end at %s, and no fault of the cloud or of reap explains more than a period of %s", e.ID, e.Label, from.Format(clock), e.DestroyAsked.Format(clock), w.a.Period)
	}
}

// faulty reports whether something failed between two moments: a call to the cloud, or
// reap itself, which is killed too.
func (w *watch) faulty(cloud string, from, to time.Time) bool {
	for _, r := range slices.Concat(w.reaped[cloud].sweeps, w.reaped[cloud].looks) {
		if !r.clean && r.ended.After(from) && r.began.Before(to) {
			return true
		}
	}
	return false
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
			if by, found := cleanAfter(w.reaped[a.Cloud].looks, from.Add(w.a.clouds[a.Cloud].Traits.ListLag), 4); found && to.After(by) {
				w.t.Errorf("cell %s had instances %s and %s at once for %s", cell, a.ID, b.ID, to.Sub(from))
			}
			if most := w.a.clouds[a.Cloud].Traits.ListLag + w.a.Period; w.strict && to.Sub(from) > most && !w.faulty(a.Cloud, from, to) {
				w.t.Errorf("cell %s had instances %s and %s at once for %s, and no fault explains more than %s", cell, a.ID, b.ID, to.Sub(from), most)
			}
		}
	}
	return longest
}

// held checks that nothing is created where something is not destroyed. That is known
// when a sweep of reap has asked again, at the latest: whoever was refused may have
// been killed before it could tell.
func (w *watch) held(book []sandbox.Entry) {
	for _, r := range book {
		if r.RefusedUntil == nil || r.DestroyAsked == nil {
			continue
		}
		known := r.DestroyAsked.Add(w.a.Period)
		for _, e := range book {
			if e.Cloud == r.Cloud && e.Created.After(known) && e.Created.Before(*r.RefusedUntil) {
				w.t.Errorf("instance %s was created at %s, while %s had not been destroyed since %s", e.ID, e.Created.Format(clock), r.ID, r.DestroyAsked.Format(clock))
			}
		}
	}
}

// refusedCost is what an instance cost after somebody asked for its end.
func refusedCost(e sandbox.Entry, scale float64) int64 {
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
