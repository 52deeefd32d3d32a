package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/kafka"
	"github.com/assay-bench/assay/ledger/kafka/kafkatest"
)

// laptop makes the default policy one for a machine without a card whose cores are
// shared: thresholds apart enough that its noise moves nobody, and a slow engine does.
var laptop = strings.NewReplacer(
	"gpu: required", "gpu: none", "host: [host.client]", "host: []",
	"admit: 0.8", "admit: 0.5", "degrade: 0.7", "degrade: 0.4", "quarantine: 0.5", "quarantine: 0.35",
	"min_interval: 10m", "min_interval: 1s",
)

const agentFile = `
profile: short
scenario: short
workload_profiles:
  - {name: short, context_length: 64, expected_tokens: 16}
test_scenarios:
  - {name: short, pattern: parallel, duration: 12s, levels: [4]}
limits: {check_budget: 100%%, min_every: 1m}
schedule: {every: 6h, jitter: 1m, on_start: false}
check_budget: 100%%
gpu: none
engine: {base_url: "%s"}
`

// life is a network of one real node: agent, engine, server, PostgreSQL through
// PgBouncer, S3 and Kafka.
type life struct {
	*served
	node   string
	engine *exec.Cmd
	at     string // the engine's address
}

// The node is taken in, verified, approved, gets slow, is quarantined, and comes back
// by a verification, while the server is killed in every state. At the end all that
// was signed is on the topic, as it was signed.
func TestRealNetworkLife(t *testing.T) {
	s := prepare(t)
	store := parttest.S3(t)
	brokers := kafkatest.Start(t, 1).Brokers
	topics := exec.Command(s.program, "ledger", "topics", "--create", "--kafka", strings.Join(brokers, ","))
	if out, err := topics.CombinedOutput(); err != nil {
		t.Fatalf("make the topic: %v\n%s", err, out)
	}
	direct := s.database
	s.database = parttest.PgBouncer(t, s.database, 0)
	s.env = []string{"AWS_ACCESS_KEY_ID=" + store.AccessKey, "AWS_SECRET_ACCESS_KEY=" + store.SecretKey}
	s.args = []string{"--evidence", "s3+" + store.Endpoint + "/" + store.Name + "/runs", "--kafka", strings.Join(brokers, ",")}
	s.start()
	t.Cleanup(func() { s.kill() })

	n := &life{served: s}
	n.policy()
	n.enginesRuns("10ms")
	n.agentRuns()
	n.until("pending", "no baseline")
	n.again()
	n.assay("node", "approve", n.node, "--reason", "the first of this network")
	n.until("admitted", "")
	n.check() // the next report has a baseline of its own
	n.enginesRuns("100ms")
	n.again()
	for n.state() == "admitted" || n.state() == "degraded" {
		n.check()
	}
	n.until("quarantined", "")
	n.again()
	n.enginesRuns("10ms")
	n.assay("node", "readmit", n.node, "--reason", "repaired")
	n.until("admitted", "")
	n.again()
	n.published(direct, brokers)
}

func (n *life) policy() {
	n.t.Helper()
	text := n.assay("server", "policy", "show")
	if err := os.WriteFile(n.path("policy.yaml"), []byte(laptop.Replace(text)), 0o600); err != nil {
		n.t.Fatal(err)
	}
	n.assay("server", "policy", "apply", n.path("policy.yaml"))
}

// again kills the server and starts it anew.
func (n *life) again() {
	n.t.Helper()
	n.kill()
	n.start()
}

// enginesRuns starts the engine, in place of one that runs, with this time a token.
func (n *life) enginesRuns(itl string) {
	n.t.Helper()
	if n.engine != nil {
		_ = n.engine.Process.Kill()
		_ = n.engine.Wait()
	} else {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			n.t.Fatal(err)
		}
		n.at = l.Addr().String()
		l.Close()
		n.t.Cleanup(func() { _ = n.engine.Process.Kill(); _ = n.engine.Wait() })
	}
	n.engine = exec.Command(n.program, "simulate", "--listen", n.at, "--itl", itl)
	if err := n.engine.Start(); err != nil {
		n.t.Fatal(err)
	}
}

// agentRuns takes the node in.
func (n *life) agentRuns() {
	n.t.Helper()
	n.assay("server", "token", "create", "--owner", "home", "--out", n.path("enrol"))
	if err := os.WriteFile(n.path("agent.yaml"), fmt.Appendf(nil, agentFile, "http://"+n.at), 0o600); err != nil {
		n.t.Fatal(err)
	}
	log, err := os.Create(n.path("agent.log"))
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	agent := exec.Command(n.program, "agent", "--server", n.url, "--enrol-token-file", n.path("enrol"), "--state", n.path("node"), "--config", n.path("agent.yaml"))
	agent.Stdout, agent.Stderr = log, log
	if err := agent.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = agent.Process.Kill()
		_ = agent.Wait()
		if n.t.Failed() {
			for _, name := range []string{"agent.log", "log"} {
				b, _ := os.ReadFile(n.path(name))
				n.t.Logf("%s:\n%s", name, b)
			}
		}
	})
	n.node = strings.TrimSpace(n.assay("node", "list", "-q", "--wait-for", "1"))
}

// assay runs a command that asks the server, until it answers: it may be on its way
// back.
func (n *life) assay(args ...string) string {
	n.t.Helper()
	cmd := exec.Command(n.program, args...)
	cmd.Env = append(os.Environ(), "ASSAY_SERVER="+n.url, "ASSAY_TOKEN_FILE="+n.path("token"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		n.t.Fatalf("assay %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return string(out)
}

// shown is what the list says of the node.
func (n *life) shown() (state, reasons string) {
	n.t.Helper()
	var nodes []struct {
		State   string
		Reasons []string
	}
	if err := json.Unmarshal([]byte(n.assay("node", "list", "--format", "json")), &nodes); err != nil || len(nodes) != 1 {
		n.t.Fatalf("%d nodes: %v", len(nodes), err)
	}
	return nodes[0].State, strings.Join(nodes[0].Reasons, "; ")
}

func (n *life) state() string { state, _ := n.shown(); return state }

// until waits for a state, with a reason that has these words.
func (n *life) until(want, words string) {
	n.t.Helper()
	end := time.Now().Add(10 * time.Minute)
	for {
		state, reasons := n.shown()
		if state == want && strings.Contains(reasons, words) {
			return
		}
		if time.Now().After(end) {
			n.t.Fatalf("the node is %s (%s); it should become %s", state, reasons, want)
		}
		time.Sleep(time.Second)
	}
}

// check has the node measured, and waits until the report is judged.
func (n *life) check() {
	n.t.Helper()
	before := n.judged()
	n.assay("node", "check", n.node, "--reason", "how is it now?")
	end := time.Now().Add(10 * time.Minute)
	for n.judged() == before {
		if time.Now().After(end) {
			n.t.Fatal("a check that was asked for was not judged")
		}
		time.Sleep(time.Second)
	}
}

// judged counts reports with a verdict.
func (n *life) judged() (count int) {
	n.t.Helper()
	db, err := sql.Open("pgx", n.database+"&default_query_exec_mode=exec")
	if err != nil {
		n.t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("SELECT count(*) FROM reports WHERE scored_at IS NOT NULL").Scan(&count); err != nil {
		n.t.Fatal(err)
	}
	return count
}

// published waits until nothing is left to publish, and then compares the topic with
// the table.
func (n *life) published(database string, brokers []string) {
	n.t.Helper()
	db, err := sql.Open("pgx", database)
	if err != nil {
		n.t.Fatal(err)
	}
	defer db.Close()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) {
		var waiting int
		if err := db.QueryRow("SELECT count(*) FROM outbox WHERE topic = 'ledger' AND published_at IS NULL").Scan(&waiting); err != nil {
			n.t.Fatal(err)
		}
		if waiting == 0 {
			break
		}
		if time.Now().After(end) {
			n.t.Fatalf("%d records are not published", waiting)
		}
	}
	want := map[string][]byte{}
	rows, err := db.Query("SELECT id, bytes FROM outbox WHERE topic = 'ledger'")
	if err != nil {
		n.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var b []byte
		if err := rows.Scan(&id, &b); err != nil {
			n.t.Fatal(err)
		}
		want[id] = b
	}
	if err := rows.Err(); err != nil {
		n.t.Fatal(err)
	}
	n.compare(want, brokers)
}

// compare reads the topic until all that is wanted was seen.
func (n *life) compare(want map[string][]byte, brokers []string) {
	n.t.Helper()
	r, err := kafka.NewReader(kafka.Config{Brokers: brokers, Topic: ledger.Topic})
	if err != nil {
		n.t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(n.t.Context(), time.Minute)
	defer cancel()
	parts, err := r.Partitions(ctx)
	if err != nil {
		n.t.Fatal(err)
	}
	from := map[int32]int64{}
	for p, held := range parts {
		from[p] = held.Start
	}
	transitions := 0
	missing := len(want)
	seen := map[string]bool{}
	for records, err := range r.Read(ctx, from) {
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			n.t.Fatal(err)
		}
		for i := range records {
			id := records[i].ID.String()
			b, known := want[id]
			switch {
			case !known || !bytes.Equal(b, records[i].Value):
				n.t.Errorf("record %s is not what the table has", id)
			case !seen[id]:
				seen[id] = true
				missing--
				if isTransition(records[i].Value) {
					transitions++
				}
			}
		}
		if missing == 0 || ctx.Err() != nil {
			break
		}
	}
	if missing > 0 {
		n.t.Errorf("%d of %d records are not on the topic", missing, len(want))
	}
	if transitions < 6 {
		n.t.Errorf("%d transitions are on the topic", transitions)
	}
	n.t.Logf("%d records on the topic, %d of them transitions", len(seen), transitions)
}

func isTransition(envelope []byte) bool {
	e, err := ledger.ReadEnvelope(envelope)
	if err != nil {
		return false
	}
	s, _, err := ledger.ParseStatement(e.Payload)
	return err == nil && strings.HasSuffix(s.PredicateType, "/node-transition/v1")
}
