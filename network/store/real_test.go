package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver, for what tests do beside the store

	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/internal/parttest"
)

// postgres gives fresh databases with the tables made, by copying one: making
// them anew takes longer than most checks.
type postgres struct {
	admin    *sql.DB
	template string // a URL
	n        atomic.Int64
}

func newPostgres(t *testing.T) *postgres {
	t.Helper()
	p := &postgres{template: parttest.Postgres(t)}
	db, err := database.Open(t.Context(), p.template)
	must(t, err)
	_, _, err = New(db).Migrate(t.Context())
	must(t, err)
	must(t, db.Close()) // nobody may be connected to what is copied
	p.admin, err = sql.Open("pgx", with(t, p.template, "", "postgres"))
	must(t, err)
	t.Cleanup(func() { p.admin.Close() })
	return p
}

// with is a URL with another server or another database.
func with(t *testing.T, address, server, name string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	if server != "" {
		s, err := url.Parse(server)
		must(t, err)
		u.Host = s.Host
	}
	u.Path = "/" + name
	return u.String()
}

// fresh makes a copy, which is reached through another server's address if that
// is given. An empty one has no tables yet.
func (p *postgres) fresh(t *testing.T, through string, empty bool) backend {
	t.Helper()
	u, err := url.Parse(p.template)
	must(t, err)
	from := strings.TrimPrefix(u.Path, "/")
	name := fmt.Sprintf("%s_%d", from, p.n.Add(1))
	if empty {
		from = "template0"
	}
	_, err = p.admin.ExecContext(t.Context(), "CREATE DATABASE "+name+" TEMPLATE "+from)
	must(t, err)
	t.Cleanup(func() {
		if _, err := p.admin.ExecContext(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	address := with(t, p.template, through, name)
	return backend{address, func(t *testing.T) *Store { return openStore(t, address) }}
}

// Through PgBouncer with fewer connections than clients: every transaction may be
// on another one. What works there works without it.
func TestRealNetworkStoreThroughPgBouncer(t *testing.T) {
	p := newPostgres(t)
	through := parttest.PgBouncer(t, with(t, p.template, "", "postgres"), 4)
	suite(t, func(t *testing.T) backend {
		return p.fresh(t, through, strings.Contains(t.Name(), "migrate_at_once"))
	})
}

// Without it, what depends on many connections at once.
func TestRealNetworkStoreOnPostgres(t *testing.T) {
	p := newPostgres(t)
	for _, name := range []string{"decisions race", "heart-beats", "publishing", "webhooks", "timers", "leases"} {
		t.Run(name, func(t *testing.T) { checks[name](t, p.fresh(t, "", false)) })
	}
}

// Both databases have the same tables with the same columns: a query that works on
// one finds what it names on the other.
func TestRealNetworkStoreTablesAreTheSame(t *testing.T) {
	columns := func(b backend, query string) map[string]string {
		s, out := b.migrated(t), map[string]string{}
		must(t, s.view(t.Context(), "columns", func(q database.Query) error {
			_, err := all(t.Context(), q, func(r row) (_ struct{}, err error) {
				var table, column, kind string
				var null bool
				err = r.Scan(&table, &column, &kind, &null)
				kind = strings.NewReplacer("bigint", "integer", "bytea", "blob", "double precision", "real").Replace(strings.ToLower(kind))
				out[table+"."+column] = fmt.Sprint(kind, " null:", null)
				return struct{}{}, err
			}, query)
			return err
		}))
		return out
	}
	lite := columns(backend{"sqlite", func(t *testing.T) *Store { return openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "db")) }},
		// SQLite lets a key be null where nobody says otherwise: keys are left out of the comparison.
		`SELECT m.name, c.name, c.type, CASE WHEN c.pk > 0 THEN 0 ELSE 1 - c."notnull" END FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name <> 'network_schema'`)
	pg := columns(newPostgres(t).fresh(t, "", false), `SELECT c.table_name, c.column_name, c.data_type, c.is_nullable = 'YES' FROM information_schema.columns c
		WHERE c.table_schema = 'public' AND c.table_name !~ '_[0-9]{6}$' AND c.table_name NOT LIKE 'network_schema%'`)
	if d := cmp.Diff(lite, pg); d != "" || len(pg) < 100 {
		t.Errorf("-SQLite +PostgreSQL (%d columns)\n%s", len(pg), d)
	}
}

// PostgreSQL is killed and started again, twice, while two stores decide and
// deliver: what was acknowledged is there, and nothing is there by half.
func TestRealNetworkStoreSurvivesPostgres(t *testing.T) {
	server := parttest.OwnPostgres(t)
	ctx := t.Context()
	s := openStore(t, server.URL)
	_, _, err := s.Migrate(ctx)
	must(t, err)
	stores := []*Store{s, openStore(t, server.URL)}
	nodes := []string{enrolled(t, s, "ada"), enrolled(t, s, "ada")}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	var acked []string
	decided, uncertain := 0, 0
	for i, st := range stores {
		node := nodes[i]
		wg.Go(func() {
			for !closed(stop) {
				rs := []Record{{ID: id(), Kind: "envelope", Bytes: []byte("a")}, {ID: id(), Kind: "envelope", Bytes: []byte("b")}}
				out, err := st.Deliver(ctx, node, rs, now())
				if err != nil {
					continue // reported; an agent delivers again
				}
				mu.Lock()
				for j, o := range out {
					if o == Refused {
						t.Errorf("record %s was refused", rs[j].ID)
					}
					acked = append(acked, rs[j].ID)
				}
				mu.Unlock()
			}
		})
		wg.Go(func() {
			for !closed(stop) {
				n, err := st.Node(ctx, everybody, node)
				if err != nil {
					continue
				}
				br, err := st.Breaker(ctx)
				if err != nil {
					continue
				}
				next := n.Facts
				next.Version++
				rec := id()
				err = st.Decide(ctx, Decision{ID: id(), At: now(), Node: node, From: n.Version, Next: next, BreakerFrom: br.Version,
					Transitions: []Transition{{ID: rec, At: now()}},
					Trail: Trail{Audit: []AuditEntry{{ID: id(), At: now()}},
						Outbox: []Record{{ID: rec, Topic: TopicLedger, Node: node, Kind: "decision", Bytes: []byte("d"), Received: now()}}}})
				mu.Lock()
				switch {
				case err == nil:
					decided++
				case errors.Is(err, database.ErrUncertain):
					uncertain++
				case errors.Is(err, ErrConflict):
					t.Error("nobody else decides on this node, and yet: ", err)
				}
				mu.Unlock()
			}
		})
	}
	for range 2 {
		progress(t, &mu, &decided)
		server.Kill()
		server.Restart()
	}
	progress(t, &mu, &decided)
	close(stop)
	wg.Wait()

	count := func(query string, a ...any) (n int) {
		t.Helper()
		must(t, s.view(ctx, "count", func(q database.Query) error { return q.QueryRowContext(ctx, query, a...).Scan(&n) }))
		return n
	}
	equal(t, "acknowledged records", count("SELECT count(*) FROM outbox WHERE kind = 'envelope' AND "+s.db.Any("id", 1), s.db.List(acked)), len(acked))
	versions := count("SELECT sum(version - 1) FROM nodes")
	for _, table := range []string{"decisions", "transitions", "audit", "outbox WHERE kind = 'decision'"} {
		equal(t, table, count("SELECT count(*) FROM "+table), versions)
	}
	equal(t, "pairs", count("SELECT count(*) FROM outbox WHERE kind = 'envelope'")%2, 0)
	if versions < decided || versions > decided+uncertain {
		t.Errorf("%d decisions were acknowledged and %d uncertain; %d are there", decided, uncertain, versions)
	}
	t.Logf("%d records and %d decisions acknowledged, %d uncertain", len(acked), decided, uncertain)
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// progress waits until some more decisions were made.
func progress(t *testing.T, mu *sync.Mutex, n *int) {
	t.Helper()
	read := func() int { mu.Lock(); defer mu.Unlock(); return *n }
	for from, end := read(), time.Now().Add(2*time.Minute); read() < from+10; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no decision was made in two minutes")
		}
	}
}

// Two processes migrate one new database at once.
func TestRealNetworkStoreMigratedByTwoProcesses(t *testing.T) {
	if address := os.Getenv("ASSAY_TEST_MIGRATE"); address != "" {
		_, to, err := openStore(t, address).Migrate(t.Context())
		must(t, err)
		equal(t, "version", to, int64(5))
		return
	}
	for name, address := range map[string]string{"SQLite": "sqlite:" + filepath.Join(t.TempDir(), "db"), "PostgreSQL": newPostgres(t).fresh(t, "", true).name} {
		t.Run(name, func(t *testing.T) {
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					c := exec.Command(os.Args[0], "-test.run=^TestRealNetworkStoreMigratedByTwoProcesses$")
					c.Env = append(os.Environ(), "ASSAY_TEST_MIGRATE="+address)
					if out, err := c.CombinedOutput(); err != nil {
						t.Errorf("%v\n%s", err, out)
					}
				})
			}
			wg.Wait()
			must(t, openStore(t, address).Check(t.Context()))
		})
	}
}
