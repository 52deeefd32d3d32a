package store

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
)

func testOneAlive(t *testing.T, s *Store) {
	campaign(t, s, "c", 1, 100, 100, 100)
	i := live(t, s, "c-0", "1", "501")
	again := func(err error) {
		t.Helper()
		_, e := s.Intend(t.Context(), terms("c-0", "2"))
		want(t, e, err)
	}
	again(ErrAlive)
	must(t, s.End(t.Context(), i.Label, "", true))
	again(ErrAlive) // nobody has destroyed it yet
	must(t, s.Destroyed(t.Context(), i.Instances[0]))
	i = got[Intent](t)(s.Intend(t.Context(), terms("c-0", "2")))
	must(t, s.Call(t.Context(), i.Label))
	must(t, s.End(t.Context(), i.Label, "lost", true))
	_, err := s.Intend(t.Context(), terms("c-0", "3"))
	want(t, err, ErrAlive) // the list may not show it yet
	got[Intent](t)(s.Created(t.Context(), i.Label, provider.Instance{ID: "502", Label: i.Label}))
	_, err = s.Intend(t.Context(), terms("c-0", "3"))
	want(t, err, ErrAlive)
}

// Of many who want an instance for one cell at once, one gets it; and create is
// called once for it.
func testIntendRace(t *testing.T, s *Store) {
	campaign(t, s, "c", 1, 1000, 1000, 1000)
	var granted, called atomic.Int32
	var label atomic.Value
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			i, err := s.Intend(t.Context(), terms("c-0", cellName("offer", n)))
			if err == nil {
				granted.Add(1)
				label.Store(i.Label)
			} else if !errors.Is(err, ErrAlive) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for range 20 {
		wg.Go(func() {
			if err := s.Call(t.Context(), label.Load().(string)); err == nil {
				called.Add(1)
			} else if !errors.Is(err, ErrLease) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if granted.Load() != 1 || called.Load() != 1 {
		t.Errorf("%d intents, %d calls of create", granted.Load(), called.Load())
	}
}

func testLeases(t *testing.T, s *Store) {
	campaign(t, s, "c", 4, 100, 100, 100)
	short := func(cell string) Terms {
		x := terms(cell, "1")
		x.Lease, x.Life = 30*time.Millisecond, time.Hour
		return x
	}
	intended := got[Intent](t)(s.Intend(t.Context(), short("c-0")))
	called := got[Intent](t)(s.Intend(t.Context(), short("c-1")))
	_ = s.Call(t.Context(), called.Label) // unless it was late already
	kept := live(t, s, "c-2", "1", "503")
	until := got[time.Time](t)(s.Renew(t.Context(), kept.Label, 100*time.Hour))
	if longest := got[Intent](t)(s.Intent(t.Context(), kept.Label)).Longest; !until.Equal(longest) {
		t.Errorf("a lease until %s, and the longest life ends at %s", until, longest)
	}
	time.Sleep(40 * time.Millisecond)
	_, err := s.Renew(t.Context(), intended.Label, time.Hour)
	want(t, err, ErrLease)
	want(t, s.Call(t.Context(), intended.Label), ErrLease)
	n := got[int](t)(s.Expire(t.Context(), cloud))
	equal(t, "expired", n, 2)
	equal(t, "never called", state(t, s, intended.Label), Ended)
	equal(t, "with a lease", state(t, s, kept.Label), Live)
	equal(t, "its money", got[Budget](t)(s.Budget(t.Context(), OfCell, "c-0")).Reserved, usd(0))
	_, err = s.Renew(t.Context(), called.Label, time.Hour)
	want(t, err, ErrLease)
}

// A worker that was believed dead comes back with an instance: it is recorded, and
// ended.
func testLateCreate(t *testing.T, s *Store) {
	campaign(t, s, "c", 1, 100, 100, 100)
	i := got[Intent](t)(s.Intend(t.Context(), terms("c-0", "1")))
	must(t, s.Call(t.Context(), i.Label))
	must(t, s.End(t.Context(), i.Label, "its worker died", true))
	listed := provider.Census{Instances: []provider.Instance{other}}
	look(t, s, lag+time.Second, true, listed)
	look(t, s, 2*lag+2*time.Second, true, listed)
	equal(t, "state", state(t, s, i.Label), Ended)
	i = got[Intent](t)(s.Created(t.Context(), i.Label, provider.Instance{ID: "501", Label: i.Label}))
	equal(t, "state of what was taken up again", i.State, Ending)
	equal(t, "nothing is reserved behind the cap's back", got[Budget](t)(s.Budget(t.Context(), OfCell, "c-0")).Reserved, usd(0))
	must(t, s.Destroyed(t.Context(), i.Instances[0]))
	gone := provider.Census{Gone: []string{"501"}}
	look(t, s, 3*lag, true, gone)
	look(t, s, 5*lag, true, gone)
	i = got[Intent](t)(s.Intent(t.Context(), i.Label))
	if i.State != Ended || i.Spent.Nano == 0 {
		t.Errorf("%s, spent %s", i.State, i.Spent)
	}
	equal(t, "spent", got[Budget](t)(s.Budget(t.Context(), OfCell, "c-0")).Spent, i.Spent)
}

// An instance may have lived until the look that missed it was over: that is charged.
func testCostUntilTheLookIsOver(t *testing.T, s *Store) {
	campaign(t, s, "c", 1, 100, 100, 100)
	i := live(t, s, "c-0", "1", "501")
	must(t, s.End(t.Context(), i.Label, "done", false))
	must(t, s.Destroyed(t.Context(), i.Instances[0]))
	in := got[Installation](t)(s.Installation(t.Context()))
	began := got[time.Time](t)(s.Now(t.Context())).Add(2 * lag)
	sight := Sight{Provider: cloud, Began: began, Over: began.Add(time.Hour), Lag: lag, Census: provider.Census{Gone: []string{"501"}}, Proves: true}
	got[Found](t)(s.Observe(t.Context(), in, sight))
	sight.Began, sight.Over = sight.Over.Add(2*lag), time.Time{}
	got[Found](t)(s.Observe(t.Context(), in, sight))
	i = got[Intent](t)(s.Intent(t.Context(), i.Label))
	if i.State != Ended || i.Spent.Nano < i.Hour.Nano {
		t.Errorf("%s, spent %s at %s an hour", i.State, i.Spent, i.Hour)
	}
}

// A provider that said no is believed after two looks; and a list that shows the
// label is believed more.
func testNeverCreated(t *testing.T, s *Store) {
	campaign(t, s, "c", 2, 100, 100, 100)
	var label [2]string
	for n := range label {
		i := got[Intent](t)(s.Intend(t.Context(), terms(cellName("c", n), "1")))
		label[n] = i.Label
		must(t, s.Call(t.Context(), i.Label))
		must(t, s.Declined(t.Context(), i.Label))
		must(t, s.End(t.Context(), i.Label, "no such machine free", true))
	}
	got[Intent](t)(s.Intend(t.Context(), terms("c-0", "2"))) // at once, elsewhere
	look(t, s, time.Second, true, provider.Census{})         // within the lag: counts for nothing
	look(t, s, lag+time.Second, true, provider.Census{})
	equal(t, "after one look", state(t, s, label[0]), Ending)
	f := look(t, s, 2*lag+2*time.Second, true, provider.Census{Instances: []provider.Instance{{ID: "501", Label: label[1]}}})
	equal(t, "ended", f.Ended, []string{label[0]})
	equal(t, "what was created all the same", state(t, s, label[1]), Ending)
	equal(t, "its instance", got[Intent](t)(s.Intent(t.Context(), label[1])).Instances[0].ID, "501")
}

// The answer of create was lost, and the list is empty: that may be a list that was
// retired.
func testEmptyList(t *testing.T, s *Store) {
	campaign(t, s, "c", 1, 100, 100, 100)
	i := got[Intent](t)(s.Intend(t.Context(), terms("c-0", "1")))
	must(t, s.Call(t.Context(), i.Label))
	must(t, s.End(t.Context(), i.Label, "no answer", true))
	look(t, s, 2*lag, true, provider.Census{})
	equal(t, "state", state(t, s, i.Label), Ending)
	f := look(t, s, 4*lag, true, provider.Census{})
	equal(t, "unproved", f.Unproved, []string{i.Label})
	look(t, s, 6*lag, true, provider.Census{})
	look(t, s, 8*lag, true, provider.Census{Instances: []provider.Instance{other}}) // one is not enough
	equal(t, "state", state(t, s, i.Label), Unproved)
	equal(t, "reserved", got[Budget](t)(s.Budget(t.Context(), OfCell, "c-0")).Reserved, dollars(2.5))
	c := got[Intent](t)(s.Confirm(t.Context(), i.Label))
	if c.State != Ended || c.Proof != ProofOperator || c.Spent.Nano != 0 {
		t.Errorf("confirmed: %+v", c)
	}
}

// A list that lacks what its own page shows is not believed, and nothing is created
// there.
func testRetiredList(t *testing.T, s *Store) {
	campaign(t, s, "c", 2, 100, 100, 100)
	i := live(t, s, "c-0", "1", "501")
	next := got[Intent](t)(s.Intend(t.Context(), terms("c-1", "1")))
	page := provider.Census{Instances: []provider.Instance{{ID: "501", Label: i.Label}}, Missed: []string{"501"}}
	f := look(t, s, lag/2, true, page)
	equal(t, "distrust of a list that only lags", f.Distrust, "")
	if f = look(t, s, 2*lag, true, page); f.Distrust == "" {
		t.Error("the list is believed")
	}
	equal(t, "state", state(t, s, i.Label), Live)
	want(t, s.Call(t.Context(), next.Label), ErrHeld)
	look(t, s, 3*lag, true, provider.Census{Instances: page.Instances})
	must(t, s.Call(t.Context(), next.Label))

	// The page fails too: nothing is known.
	f = look(t, s, 4*lag, true, provider.Census{Unproved: map[string]error{"501": errors.New("500")}})
	if f.Distrust == "" || state(t, s, i.Label) != Live {
		t.Errorf("distrust %q, %s", f.Distrust, state(t, s, i.Label))
	}
}

// Without a page of its own an end is never proved.
func testUnproved(t *testing.T, s *Store) {
	campaign(t, s, "c", 1, 100, 100, 100)
	i := live(t, s, "c-0", "1", "501")
	missing := provider.Census{Unproved: map[string]error{"501": errors.New("no page")}}
	if f := look(t, s, 2*lag, false, missing); f.Distrust == "" {
		t.Error("a list is believed that lacks what nobody destroyed")
	}
	must(t, s.End(t.Context(), i.Label, "", true))
	must(t, s.Destroyed(t.Context(), i.Instances[0]))
	look(t, s, 3*lag, false, missing)
	f := look(t, s, 5*lag, false, missing)
	equal(t, "unproved", f.Unproved, []string{i.Label})
	equal(t, "reserved", got[Budget](t)(s.Budget(t.Context(), OfCell, "c-0")).Reserved, dollars(2.5))
	c := got[Intent](t)(s.Confirm(t.Context(), i.Label))
	equal(t, "confirmed", c.State, Ended)
	equal(t, "reserved", got[Budget](t)(s.Budget(t.Context(), OfCell, "c-0")).Reserved, usd(0))
}

// While a provider refuses to destroy, nothing is created there.
func testRefused(t *testing.T, s *Store) {
	campaign(t, s, "c", 3, 100, 100, 100)
	i := live(t, s, "c-0", "1", "501")
	next := got[Intent](t)(s.Intend(t.Context(), terms("c-1", "1")))
	must(t, s.End(t.Context(), i.Label, "", true))
	must(t, s.Refused(t.Context(), i.Instances[0], errors.New("500 try later")))
	want(t, s.Call(t.Context(), next.Label), ErrHeld)
	_, err := s.Intend(t.Context(), terms("c-2", "1"))
	want(t, err, ErrHeld)
	must(t, s.Destroyed(t.Context(), i.Instances[0]))
	must(t, s.Call(t.Context(), next.Label))
}

func testStillThere(t *testing.T, s *Store) {
	campaign(t, s, "c", 2, 100, 100, 100)
	i := live(t, s, "c-0", "1", "501")
	next := got[Intent](t)(s.Intend(t.Context(), terms("c-1", "1")))
	must(t, s.End(t.Context(), i.Label, "", true))
	must(t, s.Destroyed(t.Context(), i.Instances[0]))
	listed := provider.Census{Instances: []provider.Instance{{ID: "501", Label: i.Label}}}
	look(t, s, lag/2, true, listed)
	if n := got[Intent](t)(s.Intent(t.Context(), i.Label)).Instances[0]; n.Destroyed.IsZero() {
		t.Error("a list that lags undid a destruction")
	}
	look(t, s, 2*lag, true, listed)
	if n := got[Intent](t)(s.Intent(t.Context(), i.Label)).Instances[0]; !n.Destroyed.IsZero() || n.Refused.IsZero() {
		t.Errorf("an instance that is still there counts as destroyed: %+v", n)
	}
	want(t, s.Call(t.Context(), next.Label), ErrHeld)
}

// A look that took long is overtaken by another one, and must not undo it.
func testOrder(t *testing.T, s *Store) {
	campaign(t, s, "c", 1, 100, 100, 100)
	i := live(t, s, "c-0", "1", "501")
	must(t, s.End(t.Context(), i.Label, "", true))
	must(t, s.Destroyed(t.Context(), i.Instances[0]))
	gone := provider.Census{Gone: []string{"501"}}
	look(t, s, 2*lag, true, gone)
	look(t, s, lag, true, provider.Census{Instances: []provider.Instance{{ID: "501", Label: i.Label}}})
	look(t, s, 4*lag, true, gone)
	equal(t, "state", state(t, s, i.Label), Ended)
	// A list that still lags behind the proof takes nothing up again; one beyond it does.
	back := provider.Census{Instances: []provider.Instance{{ID: "501", Label: i.Label}}}
	look(t, s, 4*lag+lag/2, true, back)
	equal(t, "state after a list that lags", state(t, s, i.Label), Ended)
	look(t, s, 6*lag, true, back)
	equal(t, "state of what came back", state(t, s, i.Label), Ending)
}

// Labels of ours that the database does not know.
func testStrangers(t *testing.T, s *Store) {
	campaign(t, s, "c", 1, 100, 100, 100)
	in := got[Installation](t)(s.Installation(t.Context()))
	stranger := provider.Instance{ID: "900", Label: in.label(), Hour: dollars(2)}
	census := provider.Census{Instances: []provider.Instance{other, stranger, {ID: "901", Label: in.ID}}}
	f := look(t, s, 0, true, census)
	equal(t, "strangers", f.Strangers, []provider.Instance{stranger})
	_, err := s.Intend(t.Context(), terms("c-0", "1"))
	want(t, err, ErrHeld)
	must(t, s.AdoptInstance(t.Context(), cloud, stranger))
	must(t, s.AdoptInstance(t.Context(), cloud, stranger))
	i := got[Intent](t)(s.Intent(t.Context(), stranger.Label))
	equal(t, "state", i.State, Ending)
	equal(t, "instance", i.Instances[0].ID, "900")
	f = look(t, s, time.Second, true, census)
	if f.Strangers != nil || f.Distrust != "" {
		t.Errorf("after the adoption %+v", f)
	}
}
