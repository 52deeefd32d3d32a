package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/parttest"
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
  - {name: short, context_length: 64, expected_tokens: 8}
test_scenarios:
  - {name: short, pattern: parallel, duration: 12s, levels: [8]}
limits: {check_budget: 100%%, min_every: 1m}
schedule: {every: 6h, jitter: 1m, on_start: false}
check_budget: 100%%
gpu: none
engine: {base_url: "%s"}
server: {spread: 1s}
`

// life is a network of one real node: agent, engine, server, PostgreSQL through
// PgBouncer, S3, Kafka, a notary, and Keycloak, which knows the operator.
type life struct {
	*served
	db     *sql.DB // the server's, past PgBouncer and our own store
	log    *office
	node   string
	engine *exec.Cmd
	at     string // the engine's address
}

// The node is taken in, verified, approved by a person, gets slow, is quarantined,
// and comes back by a verification, while the server is killed in every state. At
// the end the log of a notary proves everything that was signed, once.
func TestRealNetworkLife(t *testing.T) {
	s := prepare(t)
	direct := s.database
	// Both take their time, and need nothing of each other.
	issuer := meanwhile(func() string { return parttest.Keycloak(t) })
	brokers := meanwhile(func() string { return strings.Join(kafkatest.Start(t, 1).Brokers, ",") })
	store := parttest.S3(t)
	s.database = parttest.PgBouncer(t, s.database, 0)
	s.env = []string{"AWS_ACCESS_KEY_ID=" + store.AccessKey, "AWS_SECRET_ACCESS_KEY=" + store.SecretKey}
	topic := came(t, "Kafka", brokers)
	s.args = []string{"--heartbeat", "5s", "--evidence", "s3+" + store.Endpoint + "/" + store.Name + "/runs", "--kafka", topic}
	n := newLife(s, direct)
	if out, err := exec.Command(s.program, "ledger", "topics", "--create", "--kafka", topic).CombinedOutput(); err != nil {
		t.Fatalf("make the topic: %v\n%s", err, out)
	}
	n.log = openOffice(s, topic)
	n.log.start()
	s.args = append(s.args, n.people(came(t, "Keycloak", issuer))...)
	s.start()
	t.Cleanup(func() { s.kill() })

	n.policy()
	n.enginesRuns("10ms")
	n.agentRuns("http://" + n.at)
	n.again() // while it is verified for the first time
	n.until("pending", "no baseline")
	operator := n.signIn("alice")
	n.again()
	operator.approves(n.node) // the session outlives the server
	n.until("admitted", "")
	n.replica("admitted", true) // one check and one approval were for both
	n.check()
	n.enginesRuns("100ms")
	n.again()
	for n.state() == "admitted" || n.state() == "degraded" {
		n.check()
	}
	n.until("quarantined", "")
	n.replica("quarantined", false)
	n.again()
	n.log.again()
	n.enginesRuns("10ms")
	n.assay("node", "readmit", n.node, "--reason", "repaired")
	n.again() // while it is verified again
	n.until("admitted", "")
	n.replica("admitted", true)
	operator.signsOut()
	n.proven(operator.id)
}

// newLife has the one connection by which a test looks into the database.
func newLife(s *served, database string) *life {
	s.t.Helper()
	db, err := sql.Open("pgx", database)
	if err != nil {
		s.t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	s.t.Cleanup(func() { db.Close() })
	return &life{served: s, db: db}
}

// meanwhile does something beside the test; came waits for it.
func meanwhile(do func() string) <-chan string {
	done := make(chan string, 1)
	go func() {
		defer close(done) // do may end its goroutine
		done <- do()
	}()
	return done
}

func came(t *testing.T, what string, from <-chan string) string {
	t.Helper()
	v := <-from
	if v == "" {
		t.Fatalf("%s did not start", what)
	}
	return v
}

// policy applies the one for a laptop.
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

// agentRuns takes the node in, with the engine at this URL.
func (n *life) agentRuns(engine string) {
	n.t.Helper()
	n.assay("server", "token", "create", "--owner", "home", "--out", n.path("enrol"))
	if err := os.WriteFile(n.path("agent.yaml"), fmt.Appendf(nil, agentFile, engine), 0o600); err != nil {
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
			for _, name := range []string{"agent.log", "log", "notary.log"} {
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

// replica waits until the node's one replica is in a state, and may be routed or not.
func (n *life) replica(want string, routable bool) {
	n.t.Helper()
	end := time.Now().Add(time.Minute)
	for {
		var d struct {
			Replicas []struct {
				Name, State string
				Routable    bool
				Reasons     []string
			}
		}
		if err := json.Unmarshal([]byte(n.assay("node", "show", n.node, "--format", "json")), &d); err != nil || len(d.Replicas) != 1 {
			n.t.Fatalf("%+v: %v", d, err)
		}
		if r := d.Replicas[0]; r.State == want && r.Routable == routable {
			return
		}
		if time.Now().After(end) {
			n.t.Fatalf("the replica is %+v; it should be %s, routable %v", d.Replicas[0], want, routable)
		}
		time.Sleep(time.Second)
	}
}

func (n *life) state() string { state, _ := n.shown(); return state }

// until waits for a state, with a reason that has these words.
func (n *life) until(want, words string) {
	n.t.Helper()
	end := time.Now().Add(3 * time.Minute)
	for {
		state, reasons := n.shown()
		if state == want && strings.Contains(reasons, words) {
			return
		}
		if time.Now().After(end) {
			n.t.Fatalf("the node is %s (%s); it should become %s", state, reasons, want)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// check has the node measured, and waits until the report is judged.
func (n *life) check() {
	n.t.Helper()
	before := n.judged()
	n.assay("node", "check", n.node, "--reason", "how is it now?")
	end := time.Now().Add(3 * time.Minute)
	for n.judged() == before {
		if time.Now().After(end) {
			n.t.Fatal("a check that was asked for was not judged")
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// judged counts reports with a verdict.
func (n *life) judged() (count int) {
	n.t.Helper()
	if err := n.db.QueryRow("SELECT count(*) FROM reports WHERE scored_at IS NOT NULL").Scan(&count); err != nil {
		n.t.Fatal(err)
	}
	return count
}
