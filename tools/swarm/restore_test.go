package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/ledger/kafka/kafkatest"
	"github.com/assay-bench/assay/network/api"
)

// restore is a network whose database is lost.
type restore struct {
	*life
	*swarm
	db *sql.DB
}

// kept is what a database has, of what must not be lost.
type kept struct {
	records     map[string]string // bytes of the outbox, by id
	transitions map[string]string // statements, by id
	admission   map[string]string // of nodes
	intent      map[string]string
}

// The database is dumped while agents report, goes on, is lost, and is restored from
// the dump. The topic is replayed: every statement and transition is there again, no
// node is better than before, a key that was revoked is so, a node that was enrolled
// meanwhile logs in; and tokens of before are void.
func TestRealNetworkRestore(t *testing.T) {
	t.Parallel()
	s := prepare(t)
	brokers := strings.Join(kafkatest.Start(t, 1).Brokers, ",")
	if out, err := exec.Command(s.program, "ledger", "topics", "--create", "--kafka", brokers).CombinedOutput(); err != nil {
		t.Fatalf("make the topic: %v\n%s", err, out)
	}
	s.args = []string{"--kafka", brokers}
	s.start()
	t.Cleanup(func() { s.kill() })
	r := &restore{life: &life{served: s}}
	r.policy()
	r.join()

	admitted, drained, revoked := r.enrolled(), r.enrolled(), r.enrolled()
	for _, a := range []*agent{admitted, drained, revoked} {
		r.reported(a)
		r.within(a, "pending", "no baseline")
		r.assay("node", "approve", a.node, "--reason", "the first of this network")
		r.within(a, "admitted", "")
	}
	dump := r.dump([]*agent{admitted, drained, revoked})

	late := r.enrolled()
	for _, a := range []*agent{late, admitted, drained, revoked} {
		r.reported(a)
	}
	r.assay("node", "quarantine", admitted.node, "--reason", "it lies")
	r.assay("node", "drain", drained.node, "--reason", "it moves")
	r.revoke(revoked)
	r.settled()
	before := r.kept()
	s.kill()
	r.shared.CloseIdleConnections() // or the next request would find out, and rest

	r.lose(dump)
	old := r.kept()
	if old.admission[admitted.node] != "admitted" || len(old.records) >= len(before.records) || old.admission[late.node] != "" {
		t.Fatalf("the backup is not an old one: %v", old.admission)
	}
	out, err := exec.Command(s.program, "server", "restored", "--database", s.database, "--state", s.path("state"), "--kafka", brokers).CombinedOutput()
	if err != nil {
		t.Fatalf("server restored: %v\n%s", err, out)
	}
	r.same(before, r.kept())
	parttest.Figure(t, "a backup with %d of %d records: %s", len(old.records), len(before.records), bytes.ReplaceAll(bytes.TrimSpace(out), []byte("\n"), []byte("; ")))
	r.afterwards(brokers, []*agent{admitted, drained, late}, revoked)
}

// join begins a swarm of no agents.
func (r *restore) join() {
	r.t.Helper()
	token, err := os.ReadFile(r.path("token"))
	if err != nil {
		r.t.Fatal(err)
	}
	s, end, err := gather(r.t.Context(), options{server: r.url, token: strings.TrimSpace(string(token)), agents: 8})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(end)
	r.swarm = s
	if r.db, err = sql.Open("pgx", r.database); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { r.db.Close() })
}

func (r *restore) enrolled() *agent {
	r.t.Helper()
	a, err := r.enrol(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (r *restore) reported(a *agent) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	if !a.deliver(ctx) {
		r.t.Fatalf("a report was not taken: %v", r.meter.result().Failures)
	}
}

// within waits for a node's state.
func (r *restore) within(a *agent, admission, reason string) {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var is, reasons string
		if err := r.db.QueryRow("SELECT admission, reasons FROM nodes WHERE id = $1", a.node).Scan(&is, &reasons); err != nil {
			r.t.Fatal(err)
		}
		if is == admission && strings.Contains(reasons, reason) {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("node %s is %s (%s) and should be %s", a.node, is, reasons, admission)
		}
	}
}

// dump makes a backup while agents report.
func (r *restore) dump(agents []*agent) string {
	r.t.Helper()
	ctx, stop := context.WithCancel(r.t.Context())
	var group sync.WaitGroup
	begun := make(chan struct{})
	for _, a := range agents {
		group.Go(func() {
			for first := true; ctx.Err() == nil; first = false {
				a.deliver(r.t.Context())
				if first {
					begun <- struct{}{}
				}
			}
		})
	}
	for range agents {
		<-begun
	}
	file := r.path("backup")
	r.postgres("pg_dump", "-Fc", "-f", file, r.database)
	stop()
	group.Wait()
	return file
}

func (r *restore) postgres(program string, args ...string) {
	r.t.Helper()
	cmd := exec.Command(filepath.Join(parttest.Install(r.t, "postgres"), program), args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

// lose drops the database and restores it from a dump.
func (r *restore) lose(dump string) {
	r.t.Helper()
	u, err := url.Parse(r.database)
	if err != nil {
		r.t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	u.Path = "/postgres"
	r.db.SetMaxIdleConns(0) // or the test's next question would be told of the loss
	r.postgres("psql", "-qX", "-v", "ON_ERROR_STOP=1", "-c", `DROP DATABASE "`+name+`" WITH (FORCE)`, "-c", `CREATE DATABASE "`+name+`"`, u.String())
	r.postgres("pg_restore", "--exit-on-error", "-d", r.database, dump)
}

func (r *restore) revoke(a *agent) {
	r.t.Helper()
	resp, err := r.admin.RevokeKey(r.t.Context(), a.node, a.key.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		r.t.Fatalf("revoke a key: %s", resp.Status)
	}
}

// settled waits until everything is published.
func (r *restore) settled() {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var waiting, unjudged int
		if err := r.db.QueryRow(`SELECT (SELECT count(*) FROM outbox WHERE topic = 'ledger' AND published_at IS NULL),
			(SELECT count(*) FROM reports WHERE scored_at IS NULL)`).Scan(&waiting, &unjudged); err != nil {
			r.t.Fatal(err)
		}
		if waiting+unjudged == 0 {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%d records are not published, %d reports not judged", waiting, unjudged)
		}
	}
}

func (r *restore) kept() kept {
	r.t.Helper()
	return kept{
		records:     r.pairs("SELECT id, encode(bytes, 'escape') FROM outbox WHERE topic = 'ledger'"),
		transitions: r.pairs("SELECT id, encode(statement, 'escape') FROM transitions"),
		admission:   r.pairs("SELECT id, admission FROM nodes"),
		intent:      r.pairs("SELECT id, intent FROM nodes"),
	}
}

func (r *restore) pairs(query string) map[string]string {
	r.t.Helper()
	rows, err := r.db.Query(query)
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var k, v string
		if err := rows.Scan(&k, &v); err != nil {
			r.t.Fatal(err)
		}
		out[k] = v
	}
	if err := rows.Err(); err != nil {
		r.t.Fatal(err)
	}
	return out
}

// same compares what there was with what there is.
func (r *restore) same(before, after kept) {
	r.t.Helper()
	for what, both := range map[string][2]map[string]string{
		"record": {before.records, after.records}, "transition": {before.transitions, after.transitions},
		"admission": {before.admission, after.admission}, "intent": {before.intent, after.intent},
	} {
		for id, v := range both[0] {
			if got := both[1][id]; got != v {
				r.t.Errorf("%s %s is %.40q and was %.40q", what, id, got, v)
			}
		}
		if len(both[0]) == 0 {
			r.t.Errorf("there was no %s", what)
		}
	}
	var waiting int
	if err := r.db.QueryRow("SELECT count(*) FROM outbox WHERE topic = 'ledger' AND published_at IS NULL").Scan(&waiting); err != nil || waiting > 1 {
		r.t.Errorf("%d records would be published again: %v", waiting, err) // that of the restore itself is new
	}
}

// afterwards runs a server on it: who had a token needs another one, and nodes log
// in by their keys, but for the one whose key is revoked.
func (r *restore) afterwards(brokers string, agents []*agent, revoked *agent) {
	r.t.Helper()
	again, err := exec.Command(r.program, "server", "restored", "--database", r.database, "--state", r.path("state"), "--kafka", brokers).CombinedOutput()
	if err != nil || !strings.Contains(string(again), " and 0 of them were missing; 0 nodes") {
		r.t.Errorf("the same again: %v\n%s", err, again)
	}
	r.life.start()
	if resp, err := r.admin.GetMe(r.t.Context()); err != nil || resp.StatusCode != http.StatusUnauthorized {
		r.t.Errorf("the admin's token of before: %v %v", resp.StatusCode, err)
	}
	if resp, err := agents[0].calls.GetSettings(r.t.Context(), agents[0].node, agents[0].auth); err != nil || resp.StatusCode != http.StatusUnauthorized {
		r.t.Errorf("a node's log-in of before: %v %v", resp.StatusCode, err)
	}
	if err := os.Remove(r.path("token")); err != nil {
		r.t.Fatal(err)
	}
	out, err := exec.Command(r.program, "server", "init", "--database", r.database, "--state", r.path("state"), "--admin-token-file", r.path("token")).CombinedOutput()
	if err != nil {
		r.t.Fatalf("server init: %v\n%s", err, out)
	}
	for _, a := range agents {
		r.reported(a) // logs in before
	}
	if err := revoked.login(r.t.Context()); err == nil {
		r.t.Error("a key that was revoked after the backup logs in")
	}
	var nodes []api.Node
	if err := json.Unmarshal([]byte(r.assay("node", "list", "--format", "json")), &nodes); err != nil {
		r.t.Fatal(err)
	}
	for _, n := range nodes {
		if n.Id == agents[0].node && (n.State != "quarantined" || n.Routable) || n.Id == agents[1].node && n.Routable {
			r.t.Errorf("node %s is %s, %s and routable: %v", n.Id, n.State, n.Intent, n.Routable)
		}
	}
	if len(nodes) != 4 {
		r.t.Errorf("there are %d nodes", len(nodes))
	}
}
