package main

import (
	"database/sql"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/network/store"
)

// Three servers on one database are exchanged one after the other while agents
// report, and in between the tables are migrated to the next version, on which the
// servers of this one still run. No report is lost or doubled, and nobody falls
// silent.
func TestRealNetworkRolling(t *testing.T) {
	t.Parallel()
	raise(t)
	direct := parttest.Postgres(t)
	first := prepareOn(t, direct)
	bucket := parttest.S3(t)
	first.database = parttest.PgBouncer(t, direct, 0)
	first.env = []string{"AWS_ACCESS_KEY_ID=" + bucket.AccessKey, "AWS_SECRET_ACCESS_KEY=" + bucket.SecretKey}
	first.args = []string{"--evidence", "s3+" + bucket.Endpoint + "/" + bucket.Name + "/runs", "--heartbeat", "5s"}
	servers := []*served{first, first.sibling(), first.sibling()}
	for _, s := range servers {
		s.start()
		t.Cleanup(func() { s.kill() })
	}
	soonSilent(&life{served: first})
	token, err := os.ReadFile(first.path("token"))
	if err != nil {
		t.Fatal(err)
	}
	o := options{
		server: "http://" + balance(t, servers), token: strings.TrimSpace(string(token)), agents: 30,
		length: 5 * time.Minute, heartbeat: 3 * time.Second, report: 4 * time.Second, spread: time.Second,
	}
	ended := make(chan struct{})
	o.enough = ended
	o.enrolled = func() {
		go func() {
			defer close(ended)
			for i, s := range servers {
				time.Sleep(2 * time.Second)
				s.exchange()
				if i == 0 {
					nextVersion(t, first.database)
				}
			}
			time.Sleep(2 * time.Second)
		}()
	}
	r, err := run(t.Context(), o)
	if err != nil {
		b, _ := os.ReadFile(first.path("log"))
		t.Fatalf("%v\nthe servers say:\n%s", err, b)
	}
	parttest.Figure(t, "%d agents, %d reports while three servers were exchanged; requests that were tried again: %v", r.Agents, r.Reports, r.Failures)
	if r.Reports < r.Agents || r.Waiting > 0 {
		t.Errorf("%d reports were confirmed, %d were not: %v", r.Reports, r.Waiting, r.Failures)
	}
	if lost := missing(t, direct, r.Delivered); lost > 0 {
		t.Errorf("%d of %d acknowledged statements are not in the database", lost, len(r.Delivered))
	}
	counted(t, direct, r)
}

// counted compares the tables with what agents were told.
func counted(t *testing.T, url string, r result) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for query, want := range map[string]int{
		"SELECT count(*) FROM reports WHERE confirmed_at IS NOT NULL":                                    r.Reports,
		"SELECT count(*) FROM reports":                                                                   r.Reports,
		"SELECT count(DISTINCT statement) FROM reports":                                                  r.Reports,
		"SELECT count(*) FROM nodes WHERE contact = 'seen'":                                              r.Agents,
		"SELECT count(*) FROM transitions WHERE fact = 'contact' AND to_value = 'silent'":                0,
		"SELECT count(*) FROM evidence_refs r JOIN evidence e USING (sha256) WHERE confirmed_at IS NULL": 0,
	} {
		var n int
		if err := db.QueryRow(query).Scan(&n); err != nil || n != want {
			t.Errorf("%s: %d, want %d: %v", query, n, want, err)
		}
	}
}

// soonSilent applies a policy by which a node is silent after a quarter of a minute.
func soonSilent(n *life) {
	n.t.Helper()
	text := n.assay("server", "policy", "show")
	short := strings.Replace(laptop.Replace(text), "heartbeat: 30s", "heartbeat: 5s", 1)
	if !strings.Contains(short, "heartbeat: 5s") {
		n.t.Fatalf("the policy has no heart-beat to shorten:\n%s", text)
	}
	if err := os.WriteFile(n.path("policy.yaml"), []byte(short), 0o600); err != nil {
		n.t.Fatal(err)
	}
	n.assay("server", "policy", "apply", n.path("policy.yaml"))
}

// sibling is another process of the same network.
func (s *served) sibling() *served {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	defer l.Close()
	other := *s
	other.url = "http://" + l.Addr().String()
	return &other
}

// exchange has the server end by itself, and starts it again. It is called beside
// the test.
func (s *served) exchange() {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Error(err)
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("a server that was asked to end: %v", err)
	}
	s.start()
}

// nextVersion migrates the tables to the version after this program's, as its
// successor will: under the same lock, by a migration that only adds.
func nextVersion(t *testing.T, url string) {
	db, err := database.Open(t.Context(), url)
	if err != nil {
		t.Error(err)
		return
	}
	defer db.Close()
	now := store.Schema()
	latest, err := db.Latest(now)
	if err != nil {
		t.Error(err)
		return
	}
	next := fstest.MapFS{}
	files, err := fs.Glob(now.Postgres, "*.sql")
	if err != nil {
		t.Error(err)
	}
	for _, name := range files {
		b, err := fs.ReadFile(now.Postgres, name)
		if err != nil {
			t.Error(err)
		}
		next[name] = &fstest.MapFile{Data: b}
	}
	next[fmt.Sprintf("%05d_next.sql", latest+1)] = &fstest.MapFile{Data: []byte("-- +goose Up\nALTER TABLE nodes ADD COLUMN of_the_next_version TEXT NOT NULL DEFAULT '';\nCREATE TABLE of_the_next_version (id TEXT PRIMARY KEY);\n")}
	from, to, err := db.Migrate(t.Context(), database.Schema{Name: now.Name, SQLite: next, Postgres: next})
	if err != nil || from != latest || to != latest+1 {
		t.Errorf("from version %d to %d: %v", from, to, err)
	}
}

// balance lets connections through to any of the servers that takes them.
func balance(t *testing.T, servers []*served) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var ended atomic.Bool
	t.Cleanup(func() { ended.Store(true); l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				if !ended.Load() {
					t.Error(err)
				}
				return
			}
			go through(c, servers)
		}
	}()
	return l.Addr().String()
}

func through(c net.Conn, servers []*served) {
	defer c.Close()
	for _, i := range rand.Perm(len(servers)) {
		s, err := net.Dial("tcp", strings.TrimPrefix(servers[i].url, "http://"))
		if err != nil {
			continue
		}
		go func() { _, _ = io.Copy(s, c); s.(*net.TCPConn).CloseWrite() }() //nolint:errcheck,forcetypeassert // either end may be gone
		_, _ = io.Copy(c, s)
		s.Close()
		return
	}
}
