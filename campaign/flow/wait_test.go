package flow

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/store"
)

// More cells than machines: each waits for its turn, and none loses its try to another.
func TestCellsWaitForMachines(t *testing.T) {
	t.Parallel()
	o := own(t, 3)
	o.add(t, "c", 12)
	o.bare(t, "c", 12, 12)
	o.measured(t, "c")
}

// What stands in the way of an intent is waited for where it goes by itself, and only
// there.
func TestWhatPassesIsWaitedFor(t *testing.T) {
	t.Parallel()
	o := own(t, 1)
	o.add(t, "c", 2)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	intend := func(offer string, nano int64) store.Intent {
		t.Helper()
		i, err := o.store.Intend(ctx, store.Terms{Cell: "c-1", Provider: "static", Offer: offer, Lease: time.Minute, Life: time.Minute, Reserve: assay.Money{Nano: nano, Currency: provider.Currency}})
		must(err)
		return i
	}
	a := &Activities{Store: o.store}
	j := job{ref: Ref{Campaign: "c", Cell: "c-2"}, cell: store.Cell{ID: "c-2", Provider: "static"}, settings: Settings{Pace: pace}}
	passes := func(why error, within time.Duration, free func()) bool {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		defer time.AfterFunc(within/5, free).Stop()
		return a.passes(ctx, j, why)
	}
	nothing := func() {}
	const long, short = time.Minute, 2500 * time.Millisecond

	if passes(errors.New("the key is wrong"), long, nothing) || passes(store.ErrCap, long, nothing) {
		t.Error("it waited for what does not pass: nobody has reserved anything")
	}
	i := intend("1", 1000)
	if passes(store.ErrCap, short, nothing) {
		t.Error("the money is still reserved")
	}
	if !passes(store.ErrCap, long/4, func() { must(o.store.End(ctx, i.Label, "", false)) }) {
		t.Error("the money is free, and nobody tries again")
	}

	i = intend("2", 0)
	must(o.store.Call(ctx, i.Label))
	i, err := o.store.Created(ctx, i.Label, provider.Instance{ID: "7", Label: i.Label})
	must(err)
	must(o.store.End(ctx, i.Label, "", true))
	must(o.store.Refused(ctx, i.Instances[0], errors.New("locked")))
	if passes(store.ErrHeld, short, nothing) {
		t.Error("the provider still refuses to destroy")
	}
	if !passes(store.ErrHeld, long/4, func() { must(o.store.Destroyed(ctx, i.Instances[0])) }) {
		t.Error("the provider may be used again, and nobody does")
	}
	if !passes(store.ErrBusy, long, nothing) || !passes(store.ErrAlive, long, nothing) {
		t.Error("an offer that is in use is not asked for again")
	}
}

// A stage may take as long as the settings say, or as was planned for it; a plan of
// before, which does not say, allows the whole life.
func TestStagesHaveTheirOwnLimits(t *testing.T) {
	t.Parallel()
	s := Settings{Limits: Limits{Load: time.Minute}}
	p := campaign.Planned{LifeSeconds: 3600, StageSeconds: map[campaign.Stage]float64{
		campaign.Provision: 180, campaign.Setup: 600, campaign.Load: 900, campaign.Benchmark: 420, campaign.Collect: 90.5,
	}}
	if got, want := s.limits(p), (Limits{3 * time.Minute, 10 * time.Minute, time.Minute, 7 * time.Minute, 90500 * time.Millisecond}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := s.limits(campaign.Planned{LifeSeconds: 3600}); got.Provision != time.Hour || got.Load != time.Minute {
		t.Errorf("%+v", got)
	}
	if got := s.limits(campaign.Planned{}); got.Provision != time.Minute {
		t.Errorf("%+v", got)
	}
}

// One asks for all; what failed is asked again, and nobody waits for longer than it may.
func TestOneAsksForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s shared[int]
		asked, failing := 0, true
		ask := func() (int, error) {
			asked++
			time.Sleep(time.Second)
			if failing {
				return 0, errors.New("too many requests")
			}
			return asked, nil
		}
		get := func(ctx context.Context) (int, error) { return s.get(ctx, "vast", time.Minute, ask) }
		if _, err := get(t.Context()); err == nil || asked != 1 {
			t.Errorf("asked %d times, %v", asked, err)
		}
		failing = false
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if v, err := get(t.Context()); v != 2 || err != nil {
					t.Errorf("%d, %v", v, err)
				}
			})
		}
		wg.Wait()
		time.Sleep(2 * time.Minute)
		if v, err := get(t.Context()); v != 3 || err != nil {
			t.Errorf("%d, %v after its age", v, err)
		}
		time.Sleep(2 * time.Minute)
		wg.Go(func() { _, _ = get(t.Context()) })
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := get(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("somebody else asks, and it waited: %v", err)
		}
		wg.Wait()
	})
}
