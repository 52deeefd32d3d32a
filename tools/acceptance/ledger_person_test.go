package acceptance

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/internal/nvml/nvmltest"
	"github.com/assay-bench/assay/ledger/kafka/kafkatest"
)

// A person's way through the ledger, by the commands that the documents name.
func TestRealLedgerByHand(t *testing.T) {
	t.Setenv("BIN", filepath.Dir(assayProgram(t)))
	k := kafkatest.Start(t, 1)
	brokers := strings.Join(k.Brokers, ",")
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	has := func(out string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !strings.Contains(out, w) {
				t.Errorf("%q is not said:\n%s", w, out)
			}
		}
	}

	// Keys: an authority, a node, and the authority's word for the node.
	write(t, in("phrase"), "not a secret\n", 0o600)
	phrase := []string{"--passphrase-file", in("phrase")}
	ledger := func(exit int, args ...string) string {
		t.Helper()
		return command(t, exit, append([]string{"ledger"}, args...)...)
	}
	ledger(0, append([]string{"keygen", in("authority"), "--owner", "Example GmbH", "--role", "authority", "--days", "3650"}, phrase...)...)
	ledger(0, append([]string{"keygen", in("node"), "--owner", "Example GmbH, rack 7"}, phrase...)...)
	has(ledger(0, append([]string{"certify", in("node.pub"), "--key", in("authority.key"), "--out", in("certified.pub")}, phrase...)...), "rack 7")
	if err := os.Rename(in("certified.pub"), in("node.pub")); err != nil {
		t.Fatal(err)
	}

	// The topic is not there, and then it is.
	has(ledger(2, "topics", "--kafka", brokers), "--create")
	has(ledger(0, "topics", "--kafka", brokers, "--create"), "made the topic gpu-monitor")
	has(ledger(0, "topics", "--kafka", brokers), "LogAppendTime")

	o := openOffice(t, k.Brokers, in("authority.pub"))
	o.startNotary()

	// A run, signed and published.
	sim := startSimulator(t, "--ttft", "5ms", "--itl", "1ms")
	hammer := func(name string, more ...string) string {
		t.Helper()
		args := append([]string{"hammer", "--base-url", sim.url, "--out", in(name), "--max-concurrency", "2", "--num-prompts", "10",
			"--random-input-len", "8", "--random-output-len", "4", "--allow-invalid", "--sign", "--sign-key", in("node.key"),
			"--kafka", brokers, "--outbox", in("outbox")}, phrase...)
		return command(t, 0, append(args, more...)...)
	}
	has(hammer("one"), "signed by", "everything is delivered")

	// The receipt, and what it says.
	prove := func(name string) string {
		t.Helper()
		return ledger(0, "prove", in(name), "--log", o.url, "--policy", o.policy, "--wait", "60s")
	}
	prove("one")
	verify := func(exit int, name string) string {
		t.Helper()
		return ledger(exit, "verify", in(name), "--trust", in("authority.pub"), "--trust", o.policy, "--need-receipt")
	}
	has(verify(0, "one"), "Example GmbH, rack 7", origin, "seen by witness first", "does not prove")

	// One byte of the report, and of the receipt.
	for _, name := range []string{"summary.json", "gpu-benchmark.tlog-proof"} {
		b, err := os.ReadFile(filepath.Join(in("one"), name))
		if err != nil {
			t.Fatal(err)
		}
		bad := append([]byte{}, b...)
		bad[len(bad)/2] ^= 1
		write(t, filepath.Join(in("one"), name), string(bad), 0o644)
		verify(3, "one")
		write(t, filepath.Join(in("one"), name), string(b), 0o644)
	}
	verify(0, "one")

	// What people look at.
	has(ledger(0, "tail", "--kafka", brokers, "--from-beginning"), "gpu-benchmark", "test-result", "event")
	events := []string{"events", "--kafka", brokers, "--from", "beginning"}
	has(ledger(0, events...), "run_started", "run_ended")
	// What verify found, of a GPU that is a stub here.
	check := exec.Command(assayProgram(t), "verify", "--skip-compute", "--kafka", brokers, "--outbox", in("outbox"), "--out", in("proof"))
	check.Env = onGPU(t, nvmltest.Scenario(t, "normal"))
	if r := runCommand(t, check, nil); r.exit == 1 {
		t.Fatalf("verify: %s%s", r.stdout, r.stderr)
	}
	has(ledger(0, append(events, "--component", "verify")...), "identity.catalogue", "gpu_verified")

	// It is protected as a run is: signed, published, proved, verified.
	has(ledger(0, append([]string{"sign", in("proof"), "--key", in("node.key")}, phrase...)...), "gpu-operations.dsse.json")
	ledger(0, "publish", in("proof"), "--kafka", brokers, "--outbox", in("outbox"))
	prove("proof")
	has(verify(0, "proof"), "operations", "seen by witness first")
	f, err := os.OpenFile(filepath.Join(in("proof"), "operations.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString("\n")
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	has(verify(3, "proof"), "operations.jsonl was altered")

	// The broker is away: the run is kept, and waits.
	k.Kill(1)
	has(hammer("two", "--deliver-timeout", "3s"), "wait in")
	has(ledger(2, "flush", "--kafka", brokers, "--outbox", in("outbox"), "--deliver-timeout", "3s"), "wait in the outbox")
	ledger(2, "tail", "--kafka", brokers, "--from-beginning")
	k.Restart(1)
	has(ledger(0, "flush", "--kafka", brokers, "--outbox", in("outbox")), "everything is delivered")
	prove("two")
	has(verify(0, "two"), origin)

	// Somebody outside keeps a copy.
	monitor := []string{"monitor", "--log", o.url, "--policy", o.policy, "--state", in("seen"), "--mirror", in("mirror"), "--once"}
	ledger(0, monitor...)

	// The log is lost, and made again from that copy.
	size := o.size()
	if code := o.notary.stop(time.Minute); code != 0 {
		t.Errorf("the notary exits %d: %s", code, o.notary.said())
	}
	if err := os.RemoveAll(o.notaryDir()); err != nil {
		t.Fatal(err)
	}
	ledger(0, "restore", "--from", in("mirror"), "--to", o.notaryDir(), "--policy", o.policy, "--witnessed", in("seen"))
	ledger(0, "fsck", o.notaryDir(), "--policy", o.policy, "--trust", in("authority.pub"), "--kafka", brokers)
	o.startNotary()
	hammer("three")
	prove("three")
	has(verify(0, "three"), "seen by witness first")
	verify(0, "one")
	ledger(0, monitor...)
	if got := o.size(); got != size+2 {
		t.Errorf("the log had %d entries before it was lost and has %d after one more run; want %d", size, got, size+2)
	}

	say(t, "keys, topic, run, receipt, verification, broker away, mirror, log lost and restored: %d entries, the witness cosigned the next", size+2)
}
