package rentals

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/provider/tensordock"
	"github.com/assay-bench/assay/campaign/provider/vast"
	"github.com/assay-bench/assay/campaign/reap"
	"github.com/assay-bench/assay/campaign/rent"
	"github.com/assay-bench/assay/campaign/sandbox"
	"github.com/assay-bench/assay/campaign/sandbox/sandboxtest"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/network/api"
	"github.com/assay-bench/assay/network/server"
)

// shop is a desk at simulated clouds.
type shop struct {
	Rentals
	*Desk
	box    *sandbox.Sandbox
	renter *rent.Renter
	now    time.Time
}

const scale = 3600 // an hour of the clouds is a second

func usd(units float64) assay.Money {
	return assay.Money{Nano: int64(units * 1e9), Currency: provider.Currency}
}

func open(t *testing.T, budget float64) *shop {
	t.Helper()
	box, url := sandboxtest.Start(t, sandbox.Config{Scale: scale})
	db, err := database.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "campaigns.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s := store.New(db)
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	v := vast.Config{Base: url + sandbox.VastPath, Key: box.Key(sandbox.Vast)}
	traits := vast.Traits(v).Scaled(scale)
	v.Wait = s.Limits(traits)
	dock := tensordock.Traits().Scaled(scale)
	clouds := []rent.Cloud{
		{Provider: vast.New(v), Traits: traits},
		{Provider: tensordock.New(tensordock.Config{Base: url + sandbox.TensorDockPath, Key: box.Key(sandbox.TensorDock), Wait: s.Limits(dock)}), Traits: dock},
	}
	p := &shop{Rentals: Rentals{s}, box: box, now: time.Now()}
	p.renter = rent.New(s, clouds, rent.Options{Scale: scale, Period: 100 * time.Millisecond})
	p.Desk = NewDesk(Options{
		Store: s, Renter: p.renter, Budget: usd(budget), Now: func() time.Time { return p.now },
		Image: func(string) string { return "ubuntu2204" },
	})
	return p
}

// order is one for a second of ours, which is an hour of the clouds.
func order(offer string) api.NewSession {
	return api.NewSession{OfferId: offer, Hours: 1.0 / 3600, SshPublicKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGdjrtUhUt1mX9GUs2yR6oJ4VElDU6PnB0NlIw913MLz me"}
}

func (p *shop) session(t *testing.T, id string) api.Session {
	t.Helper()
	list, err := p.Sessions(t.Context(), server.SessionQuery{ID: id, Limit: 1})
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v %v", list, err)
	}
	return list[0]
}

// Offers of all clouds come sorted by price, filtered by both names of a GPU, and a
// cloud is asked once a minute. One that does not answer is named, and is no cloud
// without offers.
func TestOffers(t *testing.T) {
	p := open(t, 0)
	all, err := p.Offers(t.Context(), server.OfferQuery{})
	if err != nil || all.Count == 0 || all.Count != len(all.Offers) || all.Total != all.Count || all.Unknown != nil {
		t.Fatalf("%+v %v", all, err)
	}
	for i := 1; i < len(all.Offers); i++ {
		if all.Offers[i].PricePerHour < all.Offers[i-1].PricePerHour {
			t.Fatalf("%+v is after %+v", all.Offers[i], all.Offers[i-1])
		}
	}
	most := 0.6
	some, err := p.Offers(t.Context(), server.OfferQuery{Provider: "tensordock", GPU: "RTX 3090", MinVRAMGB: 24, MaxPrice: &most})
	if err != nil || some.Count == 0 || some.Total <= some.Count {
		t.Fatalf("%+v %v", some, err)
	}
	for _, o := range some.Offers {
		if o.Provider != "tensordock" || !provider.SameGPU("RTX 3090", o.GpuType) || *o.VramGb < 24 || o.PricePerHour > most || !o.FetchedAt.Equal(p.now) || !o.Available {
			t.Errorf("%+v", o)
		}
	}
	if err := p.box.Set(map[string]float64{"vast:" + sandbox.FaultKey: 1}); err != nil {
		t.Fatal(err)
	}
	if again, err := p.Offers(t.Context(), server.OfferQuery{}); err != nil || again.Count != all.Count || again.Unknown != nil {
		t.Errorf("within a minute: %+v %v", again.Unknown, err)
	}
	p.now = p.now.Add(2 * time.Minute)
	half, err := p.Offers(t.Context(), server.OfferQuery{})
	if err != nil || half.Unknown == nil || (*half.Unknown)[0].Provider != "vast" || half.Count == 0 || half.Count >= all.Count {
		t.Errorf("%+v %v", half.Unknown, err)
	}
	if _, err := p.Offers(t.Context(), server.OfferQuery{Provider: "vast"}); !errors.Is(err, server.ErrClouds) {
		t.Errorf("%v", err)
	}
	if _, err := p.Offers(t.Context(), server.OfferQuery{Provider: "wast"}); !errors.Is(err, server.ErrRefused) {
		t.Errorf("%v", err)
	}
}

// A session is rented within a day's budget, extended within what was reserved, and
// ends by its user or by its hours; the clouds' own book agrees.
func TestASession(t *testing.T) {
	p := open(t, 100)
	offers, err := p.Offers(t.Context(), server.OfferQuery{GPU: "RTX 4090", Provider: "vast"})
	if err != nil || offers.Count < 2 {
		t.Fatalf("%+v %v", offers, err)
	}
	n := order(offers.Offers[0].Id)
	long := 10.0 / 3600
	n.MaxHours = &long
	id, err := p.Rent(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	s := p.session(t, id)
	if s.Status != api.SessionStatusRunning || *s.OfferId != n.OfferId || s.GpuType == "" || s.ProviderId == nil || s.Reserved <= 0 || s.Error != nil {
		t.Errorf("%+v", s)
	}
	if err := p.Extend(t.Context(), id, time.Hour); err != nil {
		t.Fatal(err)
	}
	if longer := p.session(t, id); !longer.ExpiresAt.After(s.ExpiresAt) || longer.ExpiresAt.After(longer.LongestAt) {
		t.Errorf("%+v, before %+v", longer, s)
	}
	if err := p.End(t.Context(), id, true); err != nil {
		t.Fatal(err)
	}
	other, err := p.Rent(t.Context(), order(offers.Offers[1].Id)) // its hours pass
	if err != nil {
		t.Fatal(err)
	}
	if err := p.End(t.Context(), "no-body", true); !errors.Is(err, server.ErrNoSession) {
		t.Errorf("%v", err)
	}
	reaper := reap.New(p.Store, p.renter, reap.Options{Period: 50 * time.Millisecond})
	for end := time.Now().Add(30 * time.Second); p.session(t, id).Status != api.SessionStatusStopped || p.session(t, other).Status != api.SessionStatusFailed; {
		if time.Now().After(end) {
			t.Fatalf("%+v\n%+v", p.session(t, id), p.session(t, other))
		}
		if _, err := reaper.Once(t.Context()); err != nil {
			t.Log(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if s := p.session(t, other); s.Error == nil || !strings.Contains(*s.Error, "its lease ended") || s.Spent <= 0 || s.Reserved != 0 {
		t.Errorf("%+v", s)
	}
	if err := p.Extend(t.Context(), id, time.Hour); !errors.Is(err, server.ErrRefused) {
		t.Errorf("what has ended lives on: %v", err)
	}
	b := p.box.Book()
	if b.Alive != 0 || len(b.Entries) != 2 || len(b.Violations) > 0 {
		t.Errorf("%+v", b)
	}
	failed, err := p.Sessions(t.Context(), server.SessionQuery{Status: api.SessionStatusFailed, Limit: 10})
	if err != nil || len(failed) != 1 || failed[0].Id != other {
		t.Errorf("%+v %v", failed, err)
	}
}

// What is not to be rented is refused with the reason, and nothing is created for it.
func TestNothingIsRented(t *testing.T) {
	p := open(t, 0.001)
	offers, err := p.Offers(t.Context(), server.OfferQuery{Provider: "vast"})
	if err != nil {
		t.Fatal(err)
	}
	good := offers.Offers[0].Id
	key := order(good)
	key.SshPublicKey = "command=\"x\" not a key at all"
	two := order(good)
	two.SshPublicKey += "\n" + two.SshPublicKey
	for what, c := range map[string]struct {
		n    api.NewSession
		want error
		says string
	}{
		"the budget":         {order(good), server.ErrRefused, "would pass the cap"},
		"no key":             {key, server.ErrRefused, "authorized_keys"},
		"two keys":           {two, server.ErrRefused, "authorized_keys"},
		"an offer of nobody": {order("other:1"), server.ErrRefused, "begins with one of"},
		"an offer that went": {order("vast:999999999"), server.ErrStaleOffer, "does not list it"},
	} {
		if _, err := p.Rent(t.Context(), c.n); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := open(t, 0).Rent(t.Context(), order(good)); !errors.Is(err, server.ErrRefused) || !strings.Contains(err.Error(), "--rent-budget") {
		t.Errorf("without a budget: %v", err)
	}
	if b := p.box.Book(); len(b.Entries) > 0 {
		t.Errorf("%+v", b)
	}
}

// An offer that is gone when it is taken is stale, and the inventory is read anew.
func TestAStaleOffer(t *testing.T) {
	p := open(t, 100)
	offers, err := p.Offers(t.Context(), server.OfferQuery{Provider: "vast"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.box.Next("vast:"+sandbox.FaultNoCapacity, 1); err != nil {
		t.Fatal(err)
	}
	fetched := p.now
	p.now = p.now.Add(time.Second)
	if _, err := p.Rent(t.Context(), order(offers.Offers[0].Id)); !errors.Is(err, server.ErrStaleOffer) {
		t.Fatalf("%v", err)
	}
	again, err := p.Offers(t.Context(), server.OfferQuery{Provider: "vast"})
	if err != nil || !again.Offers[0].FetchedAt.After(fetched) {
		t.Errorf("%+v %v", again, err)
	}
}

// The fastest and the cheapest are not the same, and what no other beats is marked.
func TestResults(t *testing.T) {
	p := open(t, 0)
	put := func(id, gpu string, rate, price float64) {
		t.Helper()
		m := usd(price)
		b := store.Benchmark{ID: id, RunID: "c", Created: time.Now(), GPUType: gpu, GPUCount: 1, Provider: "vast", Model: "qwen2:7b", Engine: "ollama", TokensPerSecond: &rate, PricePerHour: &m, Summary: "{}"}
		if err := p.Store.PutResult(t.Context(), b, store.Manifest{ID: id, RunID: "c", Created: time.Now(), GPUType: gpu, Provider: "vast", Model: "qwen2:7b", Status: "success"}); err != nil {
			t.Fatal(err)
		}
	}
	put("slow", "RTX 3090", 100, 0.2)
	put("fast", "RTX 5090", 300, 0.9)
	put("beaten", "RTX 4090", 90, 0.4)
	fast, err := p.Benchmarks(t.Context(), server.BenchmarkQuery{Model: "qwen2:7b"})
	if err != nil || len(fast) != 3 || fast[0].Id != "fast" {
		t.Fatalf("%+v %v", fast, err)
	}
	cheap, err := p.Benchmarks(t.Context(), server.BenchmarkQuery{Cost: true})
	if err != nil || cheap[0].Id != "slow" || *cheap[0].PricePerHour != 0.2 {
		t.Fatalf("%+v %v", cheap, err)
	}
	front := map[string]bool{}
	for _, b := range cheap {
		front[b.Id] = b.Front
	}
	if !front["slow"] || !front["fast"] || front["beaten"] {
		t.Errorf("%v", front)
	}
	if none, err := p.Benchmarks(t.Context(), server.BenchmarkQuery{Model: "other"}); err != nil || none == nil || len(none) != 0 {
		t.Errorf("%+v %v", none, err)
	}
}
