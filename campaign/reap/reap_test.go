package reap

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/campaign/rent"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/internal/database"
)

const cloudName = "vast"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openStore(t *testing.T, file string) *store.Store {
	t.Helper()
	db, err := database.Open(t.Context(), "sqlite:"+file)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	s := store.New(db)
	must(t, s.Migrate(t.Context()))
	return s
}

// traits are those of the tests' cloud: no limits, and a lag that a test waits for.
func traits(lag time.Duration) provider.Traits { return provider.Traits{Name: cloudName, ListLag: lag} }

func usd(n float64) assay.Money { return assay.Money{Nano: int64(n * 1e9), Currency: "USD"} }

// scene is a campaign of one cell on a cloud.
type scene struct {
	store  *store.Store
	cloud  *cloud
	renter *rent.Renter
	reaper *Reaper
}

func newScene(t *testing.T, o Options, as func(*cloud) provider.Provider) scene {
	t.Helper()
	const lag = 20 * time.Millisecond
	s := scene{store: openStore(t, filepath.Join(t.TempDir(), "campaign.db")), cloud: newCloud(1, lag)}
	s.renter = rent.New(s.store, []rent.Cloud{{Provider: as(s.cloud), Traits: traits(lag)}}, rent.Options{Timeout: 50 * time.Millisecond})
	s.reaper = New(s.store, s.renter, o)
	must(t, s.store.AddCampaign(t.Context(), store.Campaign{ID: "c", Caps: store.Caps{Cell: usd(100), Campaign: usd(100), Day: usd(100)}},
		[]store.Cell{{ID: "c-0", Number: 0, Provider: cloudName}, {ID: "c-1", Number: 1, Provider: cloudName}}))
	return s
}

func whole(c *cloud) provider.Provider { return c }

// lean has no page for an instance.
type lean struct{ provider.Provider }

func (s scene) intend(t *testing.T, cell, offer string, lease time.Duration) store.Intent {
	t.Helper()
	i, err := s.renter.Intend(t.Context(), rent.Want{Cell: cell, Provider: cloudName, Offer: provider.Offer{ID: offer, Price: provider.Price{Hour: usd(1)}}, Lease: lease, Life: time.Hour})
	must(t, err)
	return i
}

func (s scene) alive() (n int) {
	book := s.cloud.entries()
	for _, e := range book {
		if e.Ended.IsZero() {
			n++
		}
	}
	return n
}

// rounds reaps until a label has a state.
func (s scene) rounds(t *testing.T, label string, want store.State) {
	t.Helper()
	var last error
	for range 100 {
		_, last = s.reaper.Once(t.Context())
		i, err := s.store.Intent(t.Context(), label)
		must(t, err)
		if i.State == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s does not become %s: %v", label, want, last)
}

// An answer that was lost is found by its label, and create is not called again.
func TestALostAnswerIsFound(t *testing.T) {
	s := newScene(t, Options{}, whole)
	s.cloud.lost = 1
	i := s.intend(t, "c-0", "1", time.Minute)
	n, err := s.renter.Create(t.Context(), provider.Order{Label: i.Label})
	if err != nil || n.ID != "1" || len(s.cloud.book) != 1 {
		t.Fatalf("%+v, %v; %d in the book", n, err, len(s.cloud.book))
	}
	again, err := s.renter.Create(t.Context(), provider.Order{Label: i.Label})
	if err != nil || again.ID != "1" || len(s.cloud.book) != 1 {
		t.Fatalf("called again: %+v, %v; %d in the book", again, err, len(s.cloud.book))
	}
	i, err = s.renter.End(t.Context(), i.Label, "done", nil)
	if err != nil || i.State != store.Ended || s.alive() != 0 || i.Spent.Nano == 0 {
		t.Errorf("%+v, %v", i, err)
	}
}

// The list is retired while the answer is lost: nothing proves that there is no
// instance. Its money stays reserved, and it is found when the list comes back.
func TestLostWhileTheListIsRetired(t *testing.T) {
	s := newScene(t, Options{}, whole)
	s.cloud.lost = 1
	s.cloud.set(faultList, true)
	i := s.intend(t, "c-0", "1", time.Minute)
	_, err := s.renter.Create(t.Context(), provider.Order{Label: i.Label})
	if !errors.Is(err, rent.ErrLost) {
		t.Fatalf("got %v", err)
	}
	if i, err = s.renter.End(t.Context(), i.Label, "lost", nil); !errors.Is(err, provider.ErrUnproved) {
		t.Errorf("got %v", err)
	}
	if i.State != store.Unproved || i.Reserved.Nano == 0 || s.alive() != 1 {
		t.Errorf("%s, reserved %s", i.State, i.Reserved)
	}
	s.cloud.set(faultList, false)
	s.rounds(t, i.Label, store.Ended)
	if s.alive() != 0 {
		t.Error("it lives")
	}
}

// A create for which there was no turn was not sent, and is called again under its
// label.
func TestACreateWithoutATurn(t *testing.T) {
	s := newScene(t, Options{}, whole)
	s.cloud.wait = func(ctx context.Context, c provider.Call) error {
		if c != provider.CallCreate {
			return nil
		}
		<-ctx.Done()
		return fmt.Errorf("%w: wait for a turn: %w", provider.ErrNotSent, ctx.Err())
	}
	i := s.intend(t, "c-0", "1", time.Minute)
	n, err := s.renter.Create(t.Context(), provider.Order{Label: i.Label})
	if !errors.Is(err, provider.ErrNotSent) || n.ID != "" {
		t.Fatalf("%+v, %v", n, err)
	}
	if i, err = s.store.Intent(t.Context(), i.Label); err != nil || i.State != store.Intended || i.Reserved.Nano == 0 {
		t.Errorf("%+v, %v", i, err)
	}
	s.cloud.wait = nil
	n, err = s.renter.Create(t.Context(), provider.Order{Label: i.Label})
	if err != nil || n.ID != "1" || s.alive() != 1 {
		t.Errorf("%+v, %v; %d alive", n, err, s.alive())
	}
}

// A declined create that names an instance has made one.
func TestAnErrorThatCarriesAnInstance(t *testing.T) {
	s := newScene(t, Options{}, func(c *cloud) provider.Provider { return carrying{c} })
	i := s.intend(t, "c-0", "1", time.Minute)
	n, err := s.renter.Create(t.Context(), provider.Order{Label: i.Label})
	if !errors.Is(err, provider.ErrNoCapacity) || n.ID == "" {
		t.Fatalf("%+v, %v", n, err)
	}
	if i, _ = s.store.Intent(t.Context(), i.Label); i.State != store.Live || len(i.Instances) != 1 {
		t.Errorf("%+v", i)
	}
}

type carrying struct{ *cloud }

func (c carrying) Create(ctx context.Context, o provider.Order) (provider.Instance, error) {
	n, _ := c.cloud.Create(ctx, o)
	return n, provider.ErrNoCapacity
}

// Whoever rented is gone: what it intended is released, and what it rented destroyed.
func TestOrphansAreEnded(t *testing.T) {
	s := newScene(t, Options{}, whole)
	never := s.intend(t, "c-0", "1", time.Millisecond)
	orphan := s.intend(t, "c-1", "1", time.Hour)
	_, err := s.renter.Create(t.Context(), provider.Order{Label: orphan.Label})
	must(t, err)
	_, err = s.renter.Renew(t.Context(), orphan.Label, time.Millisecond)
	must(t, err)
	time.Sleep(3 * time.Millisecond)
	s.rounds(t, never.Label, store.Ended)
	s.rounds(t, orphan.Label, store.Ended)
	if s.alive() != 0 {
		t.Error("the orphan lives")
	}
	b, err := s.store.Budget(t.Context(), store.OfCampaign, "c")
	if err != nil || b.Reserved.Nano != 0 || b.Spent.Nano == 0 {
		t.Errorf("%+v, %v", b, err)
	}
}

// Our labels that the database does not know are destroyed only by adoption; labels
// of others never.
func TestStrangersNeedAdoption(t *testing.T) {
	s := newScene(t, Options{}, whole)
	in, err := s.store.Installation(t.Context())
	must(t, err)
	for _, label := range []string{in.ID + "-01unknown", in.ID, in.ID[1:] + "-x", "bbbbbbbbbb-01lost"} {
		_, err := s.cloud.Create(t.Context(), provider.Order{Label: label})
		must(t, err)
	}
	time.Sleep(s.cloud.lag)
	report, err := s.reaper.Once(t.Context())
	must(t, err)
	if w := report.Waiting(); len(w) != 1 || w[0] != in.ID+"-01unknown" || s.alive() != 4 {
		t.Errorf("waiting %v, %d alive", w, s.alive())
	}
	must(t, s.store.Adopt(t.Context(), "bbbbbbbbbb"))
	adopting := New(s.store, s.renter, Options{Adopt: true})
	report, err = adopting.Once(t.Context())
	must(t, err)
	if n := len(report.Providers[0].Adopted); n != 2 || s.alive() != 2 {
		t.Errorf("adopted %v, %d alive", report.Providers[0].Adopted, s.alive())
	}
}

// A copied database touches nothing until it is adopted.
func TestACopyDoesNotReap(t *testing.T) {
	dir := t.TempDir()
	db, err := database.Open(t.Context(), "sqlite:"+filepath.Join(dir, "a.db"))
	must(t, err)
	defer db.Close()
	s := store.New(db)
	must(t, s.Migrate(t.Context()))
	must(t, db.Tx(t.Context(), func(q database.Query) error { // as one that lay elsewhere
		_, err := q.ExecContext(t.Context(), "UPDATE campaign_installations SET place = 'elsewhere'")
		return err
	}))
	r := New(s, rent.New(s, nil, rent.Options{}), Options{})
	if _, err := r.Once(t.Context()); !errors.Is(err, ErrMoved) {
		t.Errorf("got %v", err)
	}
	in, err := s.Installation(t.Context())
	must(t, err)
	must(t, s.Adopt(t.Context(), in.ID))
	_, err = r.Once(t.Context())
	must(t, err)
}

// A provider without pages proves nothing: the reservation waits for an operator.
func TestWithoutAPageAnOperatorConfirms(t *testing.T) {
	s := newScene(t, Options{}, func(c *cloud) provider.Provider { return lean{c} })
	i := s.intend(t, "c-0", "1", time.Minute)
	_, err := s.renter.Create(t.Context(), provider.Order{Label: i.Label})
	must(t, err)
	i, err = s.renter.End(t.Context(), i.Label, "done", nil)
	if !errors.Is(err, provider.ErrUnproved) || i.State != store.Unproved {
		t.Fatalf("%s, %v", i.State, err)
	}
	report, err := s.reaper.Once(t.Context())
	must(t, err)
	if w := report.Waiting(); len(w) != 1 || w[0] != i.Label {
		t.Errorf("waiting %v", w)
	}
	i, err = s.store.Confirm(t.Context(), i.Label)
	if err != nil || i.State != store.Ended {
		t.Errorf("%+v, %v", i, err)
	}
}

// While destroying fails nothing is created; the end goes on until it works.
func TestRefusedToDestroy(t *testing.T) {
	s := newScene(t, Options{}, whole)
	i := s.intend(t, "c-0", "1", time.Minute)
	_, err := s.renter.Create(t.Context(), provider.Order{Label: i.Label})
	must(t, err)
	next := s.intend(t, "c-1", "1", time.Minute)
	s.cloud.set(faultDestroy, true)
	rounds := 0
	i, err = s.renter.End(t.Context(), i.Label, "done", func(failed error) {
		if rounds++; rounds == 2 {
			if failed == nil {
				t.Error("nobody says that it is not destroyed")
			}
			if _, err := s.renter.Create(t.Context(), provider.Order{Label: next.Label}); !errors.Is(err, store.ErrHeld) || !errors.Is(err, provider.ErrNotSent) {
				t.Errorf("create at a provider that refuses to destroy: %v", err)
			}
			s.cloud.set(faultDestroy, false)
		}
	})
	if err != nil || i.State != store.Ended {
		t.Fatalf("%+v, %v", i, err)
	}
	if _, err := s.renter.Create(t.Context(), provider.Order{Label: next.Label}); err != nil {
		t.Error(err)
	}
}

// A list that fails is no empty list.
func TestAFailingListEndsNothing(t *testing.T) {
	s := newScene(t, Options{}, whole)
	i := s.intend(t, "c-0", "1", time.Minute)
	_, err := s.renter.Create(t.Context(), provider.Order{Label: i.Label})
	must(t, err)
	s.cloud.set(faultListErr, true)
	for range 4 {
		if _, err := s.reaper.Once(t.Context()); !errors.Is(err, provider.ErrMalformed) {
			t.Errorf("got %v", err)
		}
		time.Sleep(s.cloud.lag)
	}
	if i, _ = s.store.Intent(t.Context(), i.Label); i.State != store.Live {
		t.Errorf("it is %s", i.State)
	}
}
