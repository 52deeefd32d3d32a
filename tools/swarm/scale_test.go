package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // to count rows, past our own store

	"github.com/assay-bench/assay/internal/parttest"
)

// served is an `assay server` on a PostgreSQL, to be killed and started again.
type served struct {
	t             *testing.T
	program, dir  string
	database, url string
	args, env     []string // more of both
	cmd           *exec.Cmd
}

func serve(t *testing.T, database string) *served {
	t.Helper()
	s := prepareOn(t, database)
	s.start()
	t.Cleanup(func() { s.kill() })
	return s
}

// prepare makes a server that does not run yet.
func prepare(t *testing.T) *served { t.Helper(); return prepareOn(t, parttest.Postgres(t)) }

func prepareOn(t *testing.T, database string) *served {
	t.Helper()
	bin := os.Getenv("BIN")
	if bin == "" {
		t.Skip("BIN is not set: the built program is measured, and .ci/run gives it the machine")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, program: filepath.Join(bin, "assay"), dir: t.TempDir(), database: database, url: "http://" + l.Addr().String()}
	l.Close()
	out, err := exec.Command(s.program, "server", "init", "--database", s.database, "--state", filepath.Join(s.dir, "state"), "--admin-token-file", s.path("token")).CombinedOutput()
	if err != nil {
		t.Fatalf("server init: %v\n%s", err, out)
	}
	return s
}

func (s *served) path(name string) string { return filepath.Join(s.dir, name) }

// start runs the server and waits until it answers.
func (s *served) start() {
	s.t.Helper()
	log, err := os.OpenFile(s.path("log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	s.cmd = exec.Command(s.program, append([]string{"server", "--database", s.database, "--state", s.path("state"),
		"--listen", strings.TrimPrefix(s.url, "http://"), "--address-rate", "0", "--person-rate", "0"}, s.args...)...)
	s.cmd.Stderr, s.cmd.Env = log, append(os.Environ(), s.env...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for range 600 {
		if resp, err := http.Get(s.url + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	b, _ := os.ReadFile(s.path("log"))
	s.t.Fatalf("the server does not answer:\n%s", b)
}

// kill ends it at once, and gives the processor time that it took.
func (s *served) kill() time.Duration {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime()
}

// resident is its memory in bytes.
func (s *served) resident() int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.cmd.Process.Pid))
	if fields := bytes.Fields(b); len(fields) > 1 {
		pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
		return pages * int64(os.Getpagesize())
	}
	return 0
}

// Agents report, the server is killed and comes back, then its database: every
// report that was begun is confirmed, the database has each statement that was
// acknowledged, once, and no node is called silent for what was not its fault.
func TestRealNetworkScale(t *testing.T) {
	sizes := []options{{agents: 1000, length: 3 * time.Minute, heartbeat: 30 * time.Second, report: 30 * time.Second}}
	if os.Getenv("ASSAY_LONG") == "1" {
		sizes = append(sizes, options{agents: 10_000, length: 10 * time.Minute, heartbeat: 30 * time.Second, report: 10 * time.Minute})
	}
	for _, o := range sizes {
		t.Run(strconv.Itoa(o.agents), func(t *testing.T) { scale(t, o) })
	}
}

func scale(t *testing.T, o options) {
	t.Helper()
	raise(t)
	own := parttest.OwnPostgres(t)
	s := serve(t, own.URL)
	token, err := os.ReadFile(s.path("token"))
	if err != nil {
		t.Fatal(err)
	}
	o.server, o.token = s.url, strings.TrimSpace(string(token))
	var before, after cost
	over := make(chan struct{})
	o.enrolled = func() {
		go func() {
			defer close(over)
			before = s.cost()
			time.Sleep(o.length / 3)
			after = s.cost()
			s.kill()
			time.Sleep(5 * time.Second)
			s.start()
			time.Sleep(o.length / 3)
			own.Restart()
		}()
	}
	r, err := run(t.Context(), o)
	if err != nil {
		b, _ := os.ReadFile(s.path("log"))
		t.Fatalf("%v\nthe server says:\n%s", err, b)
	}
	<-over
	figures(t, r, before, after, o)
	rows(t, s.database, r)
	if r.Reports == 0 || r.Waiting > 0 {
		t.Errorf("%d reports were confirmed, %d were not; failures: %v", r.Reports, r.Waiting, r.Failures)
	}
	if lost := missing(t, s.database, r.Delivered); lost > 0 {
		t.Errorf("%d of %d acknowledged statements are not in the database", lost, len(r.Delivered))
	}
	if r.Returned == 0 {
		t.Error("no agent saw the server go and come back")
	}
	var silent int
	one(t, s.database, "SELECT count(*) FROM transitions WHERE fact = 'contact' AND to_value = 'silent'", &silent)
	if silent > 0 {
		t.Errorf("%d times a node was called silent", silent)
	}
}

// figures prints what a node costs.
func figures(t *testing.T, r result, before, after cost, o options) {
	t.Helper()
	reports := after.reports - before.reports
	parttest.Figure(t, "%d agents, enrolled in %.0f s; %d reports confirmed", r.Agents, r.Enrolled, r.Reports)
	parttest.Figure(t, "in %.0f s with %d reports: the server took %.1f s of a core, PostgreSQL %.1f s; the server has %d MB", (o.length / 3).Seconds(), reports,
		(after.server - before.server).Seconds(), (after.postgres - before.postgres).Seconds(), after.memory>>20)
	parttest.Figure(t, "agents came back over %.0f s, those from the 10th to the 90th of 100 over %.0f s", r.Spread, r.Most)
	var kinds []string
	for kind := range r.Requests {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		q := r.Requests[kind]
		parttest.Figure(t, "%s: %d, p50 %.1f ms, p99 %.1f ms, max %.0f ms", kind, q.N, q.P50, q.P99, q.Max)
	}
	parttest.Figure(t, "failures: %v", r.Failures)
}

// missing counts statements that the database does not have.
func missing(t *testing.T, url string, ids []string) int {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	lost := 0
	for batch := range slices.Chunk(ids, 1000) {
		var there int
		if err := db.QueryRowContext(context.Background(), "SELECT count(*) FROM outbox WHERE id = ANY($1)", batch).Scan(&there); err != nil {
			t.Fatal(err)
		}
		lost += len(unique(batch)) - there
	}
	return lost
}

func unique(ids []string) []string {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// raise lets this process have as many connections as agents need.
func raise(t *testing.T) {
	t.Helper()
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	l.Cur = l.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Log(err)
	}
}
