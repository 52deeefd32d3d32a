package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/ledger"
	"github.com/assay-bench/assay/ledger/tlog"
)

const logName = "log.example.org/life"

// office is a notary of the test's own.
type office struct {
	*served
	brokers, url string
	policy       ledger.Policy
	cmd          *exec.Cmd
}

// openOffice makes the log's key and policy. The notary is to trust the server's own
// keys: nobody else has to certify anything in this network.
func openOffice(s *served, brokers string) *office {
	s.t.Helper()
	o := &office{served: s, brokers: brokers, url: "http://" + free(s.t)}
	o.write("passphrase", "not a secret\n")
	o.run("ledger", "keygen", o.path("log"), "--kind", "log", "--name", logName, "--passphrase-file", o.path("passphrase"))
	vkey, err := os.ReadFile(o.path("log.vkey"))
	if err != nil {
		s.t.Fatal(err)
	}
	o.write("log.policy", fmt.Sprintf("log %s\nquorum none\n", bytes.TrimSpace(vkey)))
	text, err := os.ReadFile(o.path("log.policy"))
	if err == nil {
		o.policy, err = ledger.ParsePolicy(text)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return o
}

// free is an address that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (o *office) write(name, text string) {
	o.t.Helper()
	if err := os.WriteFile(o.path(name), []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
}

// run runs a command that must succeed.
func (o *office) run(args ...string) string {
	o.t.Helper()
	out, err := exec.Command(o.program, args...).CombinedOutput()
	if err != nil {
		o.t.Fatalf("assay %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// start starts the notary.
func (o *office) start() {
	o.t.Helper()
	log, err := os.OpenFile(o.path("notary.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		o.t.Fatal(err)
	}
	defer log.Close()
	o.cmd = exec.Command(o.program, "ledger", "notary", "--kafka", o.brokers, "--dir", o.path("notary"), "--key", o.path("log.key"), "--origin", logName,
		"--passphrase-file", o.path("passphrase"), "--trust", o.path("state/enrol.pub"), "--trust", o.path("state/server.pub"), "--policy", o.path("log.policy"),
		"--checkpoint-interval", "1s", "--listen", strings.TrimPrefix(o.url, "http://"))
	o.cmd.Stdout, o.cmd.Stderr = log, log
	if err := o.cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	cmd := o.cmd
	o.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
}

// again kills the notary and starts it anew.
func (o *office) again() {
	o.t.Helper()
	_ = o.cmd.Process.Kill()
	_ = o.cmd.Wait()
	o.start()
}

// signed are the records of the run that somebody signed, by id, as the server's
// table has them. It ends the server once all are published, so that there are no
// more.
func (n *life) signed() map[string][]byte {
	n.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if n.unpublished() == 0 {
			n.kill()
			if n.unpublished() == 0 {
				break
			}
			n.start()
		}
		if time.Now().After(end) {
			n.t.Fatalf("%d records are not published", n.unpublished())
		}
	}
	return n.records()
}

// records are what the table has of them now.
func (n *life) records() map[string][]byte {
	n.t.Helper()
	rows, err := n.db.Query("SELECT id, bytes FROM outbox WHERE topic = 'ledger' AND kind = $1", string(ledger.KindEnvelope))
	if err != nil {
		n.t.Fatal(err)
	}
	defer rows.Close()
	records := map[string][]byte{}
	for rows.Next() {
		var id string
		var b []byte
		if err := rows.Scan(&id, &b); err != nil {
			n.t.Fatal(err)
		}
		records[id] = b
	}
	if err := rows.Err(); err != nil {
		n.t.Fatal(err)
	}
	return records
}

func (n *life) unpublished() (waiting int) {
	n.t.Helper()
	if err := n.db.QueryRow("SELECT count(*) FROM outbox WHERE topic = 'ledger' AND published_at IS NULL").Scan(&waiting); err != nil {
		n.t.Fatal(err)
	}
	return waiting
}

// proven compares the log with what was signed: each record has a proof under one
// checkpoint, none is there twice, and nothing else is there.
func (n *life) proven(operator string) {
	n.t.Helper()
	want := n.signed()
	src, err := tlog.Open(n.log.url, tlog.OpenOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	defer src.Close()
	c := n.covers(src, uint64(len(want)))
	predicates, actors := map[string]int{}, map[string]bool{}
	logged := len(want)
	for index := range c.Size {
		r, envelope, err := tlog.ProveAt(n.t.Context(), src, n.log.policy, c, index)
		if err == nil {
			_, err = n.log.policy.VerifyReceipt(r, envelope)
		}
		if err != nil {
			n.t.Fatalf("entry %d: %v", index, err)
		}
		id := r.ID.String()
		if b, ok := want[id]; !ok || !bytes.Equal(b, envelope) {
			n.t.Errorf("entry %d, %s, is there twice, or is not what was signed", index, id)
		}
		delete(want, id)
		n.tell(envelope, predicates, actors)
	}
	for id := range want {
		n.t.Errorf("%s was signed, and is not in the log", id)
	}
	if b, err := os.ReadFile(n.path("notary/refused.jsonl")); err != nil || len(b) > 0 {
		n.t.Errorf("the notary refused records: %v\n%s", err, b)
	}
	if predicates["node-transition/v1"] < 6 || predicates["gpu-benchmark/v1"] < 4 || predicates["key/v1"] != 1 {
		n.t.Errorf("the log has %v", predicates)
	}
	for _, action := range []string{"signIn", "actOnNode", "signOut"} {
		if !actors[action+" "+operator] {
			n.t.Errorf("the log does not say that %s did %s: %v", operator, action, actors)
		}
	}
	n.log.run("ledger", "fsck", n.path("notary"), "--policy", n.path("log.policy"), "--trust", n.path("state/enrol.pub"), "--trust", n.path("state/server.pub"))
	n.t.Logf("%d records were signed, %d are in the log, each proven: %v", logged, c.Size, predicates)
}

// covers waits for a checkpoint that ends where the records do.
func (n *life) covers(src tlog.Source, size uint64) ledger.Checkpoint {
	n.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		c, err := tlog.Checkpoint(n.t.Context(), src, n.log.policy)
		if err == nil && c.Size >= size {
			return c
		}
		if time.Now().After(end) {
			n.t.Fatalf("the checkpoint has %d entries, and %d records were signed: %v", c.Size, size, err)
		}
	}
}

// tell notes what an entry is, and who did what by it.
func (n *life) tell(envelope []byte, predicates map[string]int, actors map[string]bool) {
	n.t.Helper()
	e, err := ledger.ReadEnvelope(envelope)
	if err != nil {
		n.t.Fatal(err)
	}
	s, _, err := ledger.ParseStatement(e.Payload)
	if err != nil {
		n.t.Fatal(err)
	}
	predicates[strings.TrimPrefix(s.PredicateType, "https://github.com/assay-bench/assay/")]++
	if bytes.Contains(e.Payload, []byte("alice")) {
		n.t.Errorf("the log has a person's name: %s", e.Payload)
	}
	if s.PredicateType == ledger.ServerAction {
		a, err := ledger.ActionOf(s)
		if err != nil {
			n.t.Fatal(err)
		}
		actors[a.Action+" "+a.Actor] = true
	}
}
