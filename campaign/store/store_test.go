package store

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay/campaign/provider"
)

func testInstallation(t *testing.T, s *Store) {
	in := got[Installation](t)(s.Installation(t.Context()))
	if len(in.ID) != installationLetters || in.Moved || !in.Owns(in.ID+"-x") || in.Owns(in.ID) || in.Owns("x"+in.ID+"-x") || in.Owns("") {
		t.Errorf("installation %+v", in)
	}
	if err := provider.CheckLabel(in.label()); err != nil || !in.Owns(in.label()) {
		t.Errorf("label %s: %v", in.label(), err)
	}
	must(t, s.Migrate(t.Context()))
	equal(t, "after a second migration", got[Installation](t)(s.Installation(t.Context())), in)
	must(t, s.Adopt(t.Context(), "abcdefghij"))
	if in = got[Installation](t)(s.Installation(t.Context())); !in.Owns("abcdefghij-1") || len(in.IDs) != 2 {
		t.Errorf("after an adoption %+v", in)
	}
	if s.Adopt(t.Context(), "my-") == nil {
		t.Error("something that is no installation's id was adopted")
	}
}

func testCampaigns(t *testing.T, s *Store) {
	campaign(t, s, "c", 3, 1, 2, 3)
	campaign(t, s, "c", 3, 1, 2, 3)
	want(t, s.AddCampaign(t.Context(), Campaign{ID: "c", Matrix: "other", Caps: Caps{dollars(1), dollars(1), dollars(1)}}, nil), ErrTaken)
	if err := s.AddCampaign(t.Context(), Campaign{ID: "d"}, nil); err == nil {
		t.Error("a campaign has no budget")
	}
	c := got[Campaign](t)(s.Campaign(t.Context(), "c"))
	equal(t, "caps", c.Caps, Caps{dollars(1), dollars(2), dollars(3)})
	p := Progress{Status: "failed", Stage: "provision", Cause: "no_capacity", Message: "no available nodes found"}
	must(t, s.SetCell(t.Context(), "c-1", p))
	equal(t, "progress", got[[]Cell](t)(s.Cells(t.Context(), "c"))[1].Progress, p)
	equal(t, "a cell", got[Cell](t)(s.Cell(t.Context(), "c-1")).Progress, p)
	want(t, s.SetCell(t.Context(), "c-9", p), ErrNotFound)
	must(t, s.EndCampaign(t.Context(), "c", "cancelled"))
	_, err := s.Intend(t.Context(), terms("c-0", "1"))
	want(t, err, ErrClosed)
	must(t, s.ResumeCampaign(t.Context(), "c"))
	list := got[[]Campaign](t)(s.Campaigns(t.Context()))
	if len(list) != 1 || list[0].Status != Running || !list[0].Ended.IsZero() {
		t.Errorf("campaigns %+v", list)
	}
}

func testNextCells(t *testing.T, s *Store) {
	campaign(t, s, "c", 5, 1, 1, 1)
	must(t, s.SetCell(t.Context(), "c-1", Progress{Status: "failed"}))
	must(t, s.SetCell(t.Context(), "c-2", Progress{Status: "running"}))
	next := func(after, most int) (ids []string) {
		for _, c := range got[[]Cell](t)(s.NextCells(t.Context(), "c", after, most, "pending", "running")) {
			ids = append(ids, c.ID)
		}
		return ids
	}
	equal(t, "the first two", next(-1, 2), []string{"c-0", "c-2"})
	equal(t, "those after", next(2, 10), []string{"c-3", "c-4"})
	equal(t, "after the last", next(4, 10), []string(nil))
}

// An offer that is one machine is one cell's until that has given it back; one that is
// many machines is everybody's.
func testBusyOffer(t *testing.T, s *Store) {
	campaign(t, s, "c", 2, 100, 100, 100)
	of := func(cell, machine string) Terms {
		x := terms(cell, "1")
		x.Machine = machine
		return x
	}
	i := got[Intent](t)(s.Intend(t.Context(), of("c-0", "m1")))
	_, err := s.Intend(t.Context(), of("c-1", "m1"))
	want(t, err, ErrBusy)
	must(t, s.End(t.Context(), i.Label, "", false))
	i = got[Intent](t)(s.Intend(t.Context(), of("c-1", "m1")))
	must(t, s.End(t.Context(), i.Label, "", false))

	campaign(t, s, "d", 2, 100, 100, 100)
	got[Intent](t)(s.Intend(t.Context(), of("d-0", "")))
	got[Intent](t)(s.Intend(t.Context(), of("d-1", "")))
}

// A create that was not sent may be called again; one that was seen to have happened
// may not.
func testUncall(t *testing.T, s *Store) {
	campaign(t, s, "c", 1, 10, 10, 10)
	i := got[Intent](t)(s.Intend(t.Context(), terms("c-0", "1")))
	want(t, s.Uncall(t.Context(), i.Label), ErrLease) // nobody has called it
	must(t, s.Call(t.Context(), i.Label))
	must(t, s.Uncall(t.Context(), i.Label))
	if i = got[Intent](t)(s.Intent(t.Context(), i.Label)); i.State != Intended || !i.Called.IsZero() || i.Reserved != dollars(2.5) {
		t.Errorf("%+v", i)
	}
	must(t, s.Call(t.Context(), i.Label))
	got[Intent](t)(s.Created(t.Context(), i.Label, provider.Instance{ID: "501", Label: i.Label}))
	want(t, s.Uncall(t.Context(), i.Label), ErrLease)
	equal(t, "state", state(t, s, i.Label), Live)
}

// From intent to settled money, as it should be.
func testLife(t *testing.T, s *Store) {
	campaign(t, s, "c", 1, 10, 10, 10)
	i := live(t, s, "c-0", "1", "501")
	equal(t, "state", i.State, Live)
	b := got[Budget](t)(s.Budget(t.Context(), OfCell, "c-0"))
	equal(t, "reserved", b.Reserved, dollars(2.5))
	must(t, s.End(t.Context(), i.Label, "done", true))
	must(t, s.Destroyed(t.Context(), i.Instances[0]))
	gone := provider.Census{Gone: []string{"501"}}
	look(t, s, time.Second, true, gone)
	look(t, s, lag/2, true, gone) // not apart by the lag
	equal(t, "state after two looks at once", state(t, s, i.Label), Ending)
	f := look(t, s, time.Second+lag+time.Millisecond, true, gone)
	equal(t, "ended", f.Ended, []string{i.Label})
	i = got[Intent](t)(s.Intent(t.Context(), i.Label))
	equal(t, "proof", i.Proof, ProofGone)
	// It was charged until the first look that missed it, and its bandwidth.
	if n := i.Spent.Nano - dollars(0.5).Nano; n <= 0 || n > dollars(0.1).Nano {
		t.Errorf("spent %s", i.Spent)
	}
	for scope, name := range map[Scope]string{OfCell: "c-0", OfCampaign: "c", OfDay: i.Day} {
		equal(t, "budget of "+string(scope), got[Budget](t)(s.Budget(t.Context(), scope, name)), Budget{scope, name, usd(0), i.Spent})
	}
	equal(t, "spend", got[map[string]Budget](t)(s.Spend(t.Context(), "c"))["c-0"].Spent, i.Spent)
}

func testCaps(t *testing.T, s *Store) {
	all := map[string][]float64{"cell": {4, 100, 100}, "campaign": {100, 4, 100}, "day": {100, 100, 4}}
	for _, name := range []string{"cell", "campaign", "day"} {
		caps := all[name]
		campaign(t, s, name, 1, caps...)
		if name == "day" { // what the other two have reserved counts too
			_, err := s.Intend(t.Context(), terms("day-0", "1"))
			want(t, err, ErrCap)
			continue
		}
		x := terms(name+"-0", "1")
		x.Reserve = dollars(4.000000001)
		_, err := s.Intend(t.Context(), x)
		want(t, err, ErrCap)
		x.Reserve = dollars(4)
		i := got[Intent](t)(s.Intend(t.Context(), x))
		must(t, s.Call(t.Context(), i.Label))
		must(t, s.Declined(t.Context(), i.Label))
		must(t, s.End(t.Context(), i.Label, "", true))
		x.Offer, x.Reserve = "2", usd(1) // the first is not settled yet
		_, err = s.Intend(t.Context(), x)
		want(t, err, ErrCap)
	}
}

// Many at once, on cells of their own and common ones: never a cap is passed, and
// what fits is given.
func testCapsRace(t *testing.T, s *Store) {
	campaign(t, s, "a", 25, 100, 25, 40) // ten of 2.50 fit in it
	campaign(t, s, "b", 25, 100, 100, 40)
	var mu sync.Mutex
	granted := map[string]int{}
	var wg sync.WaitGroup
	for n := range 50 {
		c := []string{"a", "b"}[n%2]
		wg.Go(func() {
			for range 2 {
				_, err := s.Intend(t.Context(), terms(cellName(c, n/2), "1"))
				switch {
				case err == nil:
					mu.Lock()
					granted[c]++
					mu.Unlock()
				case !errors.Is(err, ErrCap) && !errors.Is(err, ErrOffer):
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	day := got[Budget](t)(s.Budget(t.Context(), OfDay, day(got[time.Time](t)(s.Now(t.Context())))))
	a := got[Budget](t)(s.Budget(t.Context(), OfCampaign, "a"))
	if granted["a"] > 10 || granted["a"]+granted["b"] != 16 {
		t.Errorf("granted %v, want 16 in all and at most 10 of a", granted)
	}
	equal(t, "day", day.Reserved, dollars(40))
	equal(t, "campaign", a.Reserved, dollars(2.5*float64(granted["a"])))
}

func cellName(c string, n int) string { return fmt.Sprintf("%s-%d", c, n) }

func testLimits(t *testing.T, s *Store) {
	const each, every = 40 * time.Millisecond, 15 * time.Millisecond
	var mu sync.Mutex
	moments := map[provider.Call][]time.Time{}
	var wg sync.WaitGroup
	for n := range 50 {
		c := []provider.Call{provider.CallCreate, provider.CallList}[n%2]
		wg.Go(func() {
			for range 4 {
				at, _, given, err := s.take(t.Context(), cloud, c, each, every, 0)
				if err != nil || !given {
					t.Error(given, err)
				}
				mu.Lock()
				moments[c] = append(moments[c], at)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	apart := func(what string, list []time.Time, by time.Duration) {
		slices.SortFunc(list, time.Time.Compare)
		for k := range list[1:] {
			if d := list[k+1].Sub(list[k]); d < by {
				t.Errorf("two calls of %s are %s apart", what, d)
			}
		}
	}
	apart("create", moments[provider.CallCreate], each)
	apart("list", moments[provider.CallList], each)
	apart("any", slices.Concat(moments[provider.CallCreate], moments[provider.CallList]), every)

	// A long queue is not joined, and a provider's word moves everybody.
	must(t, s.Backoff(t.Context(), cloud, provider.CallGet, time.Hour))
	if _, _, given, err := s.take(t.Context(), cloud, provider.CallGet, each, 0, 0); given || err != nil {
		t.Errorf("a turn was given within a pause: %v", err)
	}
	if _, _, given, err := s.take(t.Context(), cloud, provider.CallDestroy, each, 0, 0); !given || err != nil {
		t.Errorf("another call has to wait too: %v", err)
	}
	if _, _, _, err := s.take(t.Context(), cloud, "any_next = 0 --", each, 0, 0); err == nil {
		t.Error("a call that is none has a column")
	}
	wait := s.Limits(provider.Traits{Name: "other", MinInterval: map[provider.Call]time.Duration{provider.CallList: each}})
	begin := time.Now()
	for range 3 {
		must(t, wait(t.Context(), provider.CallList))
	}
	if d := time.Since(begin); d < 2*each {
		t.Errorf("three calls left within %s", d)
	}
}

func testLearn(t *testing.T, s *Store) {
	for _, good := range []bool{false, false, true} {
		must(t, s.Learn(t.Context(), cloud, "Quebec, CA", good))
	}
	must(t, s.Learn(t.Context(), cloud, "Oslo, NO", true))
	c := got[map[string]float64](t)(s.Confidence(t.Context(), cloud))
	if c["Quebec, CA"] >= 0.5 || c["Oslo, NO"] <= 0.5 || len(c) != 2 {
		t.Errorf("confidence %v", c)
	}
	must(t, s.MarkMachine(t.Context(), cloud, "m1", "no GPU"))
	must(t, s.MarkMachine(t.Context(), cloud, "m1", "again"))
	equal(t, "bad machines", got[map[string]string](t)(s.BadMachines(t.Context(), cloud)), map[string]string{"m1": "no GPU"})
	campaign(t, s, "c", 1, 10, 10, 10)
	x := terms("c-0", "1")
	x.Machine = "m1"
	_, err := s.Intend(t.Context(), x)
	want(t, err, ErrOffer)
	x.Machine = ""
	i := got[Intent](t)(s.Intend(t.Context(), x))
	must(t, s.End(t.Context(), i.Label, "", false))
	_, err = s.Intend(t.Context(), x)
	want(t, err, ErrOffer)
	x.Again = true
	got[Intent](t)(s.Intend(t.Context(), x))
}

func testManifest(t *testing.T, s *Store) {
	at := time.Date(2026, 11, 16, 10, 0, 0, 1000, time.UTC)
	speed, requests, price := 41.5, int64(300), dollars(0.35)
	m := Manifest{ID: "m", RunID: "c", Created: at, GPUType: "RTX 4090", Provider: cloud, Model: "qwen2:7b", Status: "pending"}
	must(t, s.PutManifest(t.Context(), m))
	m.Status, m.Started, m.TokensPerSecond, m.TotalRequests, m.SSHPort, m.InstanceIP = "success", at, &speed, &requests, 22, "192.0.2.1"
	b := Benchmark{ID: "b", RunID: "c", Created: at, GPUType: "RTX 4090", GPUCount: 1, Provider: cloud, Model: "qwen2:7b", Engine: "ollama", TokensPerSecond: &speed, PricePerHour: &price, Summary: "{}"}
	must(t, s.PutResult(t.Context(), b, m))
	m.BenchmarkID = "b"
	equal(t, "manifest", got[[]Manifest](t)(s.Manifests(t.Context(), "c")), []Manifest{m})
	equal(t, "benchmarks", got[[]Benchmark](t)(s.Benchmarks(t.Context(), "")), []Benchmark{b})
	m.Status = "fine"
	if s.PutManifest(t.Context(), m) == nil {
		t.Error("a status that is none was stored")
	}
	m.Status, m.FailureStage = "failed", "lunch"
	if s.PutManifest(t.Context(), m) == nil {
		t.Error("a stage that is none was stored")
	}
	m.FailureStage, m.BenchmarkID = "load", "nowhere"
	if s.PutManifest(t.Context(), m) == nil {
		t.Error("a manifest points to no benchmark")
	}
}
