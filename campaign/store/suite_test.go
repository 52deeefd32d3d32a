package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver, for what tests do beside the store

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign/provider"
	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/internal/parttest"
)

// checks are what every kind of database must do. Each gets a new database.
var checks = map[string]func(*testing.T, *Store){
	"installation":             testInstallation,
	"campaigns":                testCampaigns,
	"next cells":               testNextCells,
	"one cell an offer":        testBusyOffer,
	"a create that was unsent": testUncall,
	"a life":                   testLife,
	"caps":                     testCaps,
	"caps race":                testCapsRace,
	"one instance a cell":      testOneAlive,
	"one of two":               testIntendRace,
	"leases":                   testLeases,
	"late create":              testLateCreate,
	"cost of a slow look":      testCostUntilTheLookIsOver,
	"never created":            testNeverCreated,
	"an empty list":            testEmptyList,
	"a retired list":           testRetiredList,
	"no page of its own":       testUnproved,
	"refused":                  testRefused,
	"destroyed and still here": testStillThere,
	"looks out of order":       testOrder,
	"strangers":                testStrangers,
	"host keys":                testHostKeys,
	"limits":                   testLimits,
	"locations and machines":   testLearn,
	"manifest":                 testManifest,
	"sessions":                 testSessions,
}

func TestSQLite(t *testing.T) {
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, open(t, "sqlite:"+filepath.Join(t.TempDir(), "campaign.db")))
		})
	}
}

func TestRealNetworkCampaignStore(t *testing.T) {
	template := parttest.Postgres(t)
	u, err := url.Parse(template)
	must(t, err)
	db, err := database.Open(t.Context(), template)
	must(t, err)
	must(t, New(db).Migrate(t.Context()))
	must(t, db.Close())
	from := strings.TrimPrefix(u.Path, "/")
	u.Path = "/postgres"
	admin, err := sql.Open("pgx", u.String())
	must(t, err)
	t.Cleanup(func() { admin.Close() })
	var n atomic.Int64
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			u, name := *u, fmt.Sprintf("%s_%d", from, n.Add(1))
			_, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+name+" TEMPLATE "+from)
			must(t, err)
			t.Cleanup(func() {
				if _, err := admin.ExecContext(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
					t.Error(err)
				}
			})
			u.Path = "/" + name
			s := open(t, u.String())
			// It is a copy of the template, and so are its labels.
			in := got[Installation](t)(s.Installation(t.Context()))
			if !in.Moved {
				t.Error("a copy of a database takes itself for the original")
			}
			must(t, s.Adopt(t.Context(), in.ID))
			check(t, s)
		})
	}
}

func open(t *testing.T, address string) *Store {
	t.Helper()
	db, err := database.Open(t.Context(), address)
	must(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	s := New(db)
	must(t, s.Migrate(t.Context()))
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// got is a value whose error ends the test.
func got[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// want is an error that is expected.
func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got error %v, want %v", err, target)
	}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: -want +got\n%s", what, d)
	}
}

const cloud = "vast"

// dollars is an amount.
func dollars(n float64) assay.Money { return usd(int64(n * 1e9)) }

// campaign adds a campaign of some cells with a cap for each, all and a day.
func campaign(t *testing.T, s *Store, id string, cells int, caps ...float64) {
	t.Helper()
	var list []Cell
	for n := range cells {
		list = append(list, Cell{ID: fmt.Sprintf("%s-%d", id, n), Number: n, GPU: "RTX 4090", Provider: cloud, Model: "qwen2:7b", Engine: "ollama", Spec: "{}", Progress: Progress{Status: "pending"}})
	}
	must(t, s.AddCampaign(t.Context(), Campaign{ID: id, Name: id, Settings: "{}", Caps: Caps{dollars(caps[0]), dollars(caps[1]), dollars(caps[2])}}, list))
}

// lag is the stated one of the tests' cloud: long enough that no look is beyond it
// unless a test says when it began.
const lag = time.Minute

// terms are those of a machine at a dollar an hour for two hours.
func terms(cell, offer string) Terms {
	return Terms{Cell: cell, Provider: cloud, Offer: offer, Hour: dollars(1), Extra: dollars(0.5), Reserve: dollars(2.5), Lease: time.Hour, Life: 2 * time.Hour, Lag: lag}
}

// live is an intent with an instance.
func live(t *testing.T, s *Store, cell, offer, id string) Intent {
	t.Helper()
	i := got[Intent](t)(s.Intend(t.Context(), terms(cell, offer)))
	must(t, s.Call(t.Context(), i.Label))
	return got[Intent](t)(s.Created(t.Context(), i.Label, provider.Instance{ID: id, Label: i.Label}))
}

// look notes a census that began after a time from now.
func look(t *testing.T, s *Store, after time.Duration, proves bool, c provider.Census) Found {
	t.Helper()
	now := got[time.Time](t)(s.Now(t.Context()))
	in := got[Installation](t)(s.Installation(t.Context()))
	return got[Found](t)(s.Observe(t.Context(), in, Sight{Provider: cloud, Began: now.Add(after), Lag: lag, Census: c, Proves: proves}))
}

func state(t *testing.T, s *Store, label string) State {
	t.Helper()
	return got[Intent](t)(s.Intent(t.Context(), label)).State
}

// other is an instance of somebody else in the same account.
var other = provider.Instance{ID: "77", Label: "my-notebook", State: provider.Running}
