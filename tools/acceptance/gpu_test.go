package acceptance

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

// Without a GPU the lane that needs one fails and says what is missing: it is
// not skipped, and no CPU stands in.
func TestGPULaneFailsWithoutAGPU(t *testing.T) {
	light(t)
	if r := run(t, program(t, "assay"), "verify", "--quiet"); r.exit == 0 {
		t.Skip("this machine has a GPU: .ci/run gpu is for it")
	}
	r := runCommand(t, exec.Command("../../.ci/run", "gpu"), nil)
	out := r.stdout + r.stderr
	if r.exit != 1 {
		t.Errorf("exit %d, want 1", r.exit)
	}
	for _, want := range []string{"error: no GPU that passes", "NVIDIA Container Toolkit", "0 passed, 1 failed, 0 skipped"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not said:\n%s", want, out)
		}
	}
}

// A real GPU multiplies right and at least twice as fast as the CPU, and what was
// done on it is signed and, where there is a broker, published and read back.
func TestRealGPU(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	args := []string{"verify", "--format", "json", "--quiet", "--out", in("proof")}
	brokers := os.Getenv("ASSAY_KAFKA")
	if brokers != "" {
		args = append(args, "--kafka", brokers, "--outbox", in("outbox"))
	}
	r := run(t, program(t, "assay"), args...)
	var v verified
	if err := json.Unmarshal([]byte(r.stdout), &v); err != nil || r.exit != 0 {
		t.Fatalf("exit %d, %v: a GPU is needed here\n%s%s", r.exit, err, r.stdout, r.stderr)
	}
	for _, name := range []string{"compute.golden", "compute.challenge", "compute.speed"} {
		c := checked(v, name)
		if c.Verdict != assay.Pass {
			t.Errorf("%s: %s: %s", name, c.Verdict, c.Evidence)
		}
		say(t, "%s: %s", name, c.Evidence)
	}
	write(t, in("phrase"), "not a secret\n", 0o600)
	phrase := []string{"--passphrase-file", in("phrase")}
	ledger := func(args ...string) string {
		t.Helper()
		return command(t, 0, append([]string{"ledger"}, args...)...)
	}
	ledger(append([]string{"keygen", in("node"), "--owner", "Example GmbH"}, phrase...)...)
	ledger(append([]string{"sign", in("proof"), "--key", in("node.key")}, phrase...)...)
	if out := ledger("verify", in("proof"), "--trust", in("node.pub")); !strings.Contains(out, "operations.jsonl same") {
		t.Error(out)
	}
	if brokers == "" {
		return
	}
	ledger("publish", in("proof"), "--kafka", brokers, "--outbox", in("outbox"))
	if out := ledger("events", "--kafka", brokers, "--from", "1h", "--action", "gpu_operation"); !strings.Contains(out, "matrix_multiply") {
		t.Errorf("no operation was published:\n%s", out)
	}
}
