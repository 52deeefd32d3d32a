package acceptance

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// Must show 3: a client that is itself the bottleneck says so, and why.
func TestTheClientIsCaught(t *testing.T) {
	t.Run("a tenth of a core", func(t *testing.T) {
		s := startSimulator(t, "--ttft", "50ms", "--itl", "10ms")
		dir := filepath.Join(t.TempDir(), "run")
		cmd := exec.Command(program(t, "assay"), "hammer", "--base-url", s.url, "--out", dir, "--quiet", "--format", "json",
			"--backend", "openai-chat", "--max-concurrency", "300", "--num-prompts", "900",
			"--random-input-len", "16", "--random-output-len", "64")
		// A tenth of a core, on any machine: the process is stopped for nine
		// tenths of the time, as cpulimit does.
		ended := make(chan struct{})
		r := runCommand(t, cmd, func() {
			go func() {
				for {
					_ = cmd.Process.Signal(syscall.SIGSTOP)
					time.Sleep(90 * time.Millisecond)
					_ = cmd.Process.Signal(syscall.SIGCONT)
					select {
					case <-ended:
						return
					case <-time.After(10 * time.Millisecond):
					}
				}
			}()
		})
		close(ended)
		expectInvalid(t, r, "cpu")
	})
	t.Run("too few descriptors", func(t *testing.T) {
		s := startSimulator(t, "--ttft", "50ms", "--itl", "10ms")
		dir := filepath.Join(t.TempDir(), "run")
		sh := `ulimit -n 64 && exec "$0" "$@"`
		r := run(t, "sh", "-c", sh, program(t, "assay"), "hammer", "--base-url", s.url, "--out", dir, "--quiet", "--format", "json",
			"--backend", "openai-chat", "--max-concurrency", "200", "--num-prompts", "600", "--random-input-len", "16", "--random-output-len", "32")
		expectInvalid(t, r, "file_descriptors")
	})
}

func expectInvalid(t *testing.T, r result, cause string) {
	t.Helper()
	var sum assay.Summary
	if err := json.Unmarshal([]byte(r.stdout), &sum); err != nil {
		t.Fatalf("exit %d, no summary: %v\n%s", r.exit, err, r.stderr)
	}
	say(t, "exit %d, %s, cause %s, %v", r.exit, sum.Client.Certificate, sum.Client.Cause, sum.Client.Why)
	if r.exit != 2 || sum.Client.Certificate != assay.Invalid || sum.Client.Cause != cause {
		t.Errorf("exit %d, certificate %s, cause %q; want 2, invalid, %q\n%s", r.exit, sum.Client.Certificate, sum.Client.Cause, cause, r.stderr)
	}
	if word := strings.ReplaceAll(cause, "_", " "); !strings.Contains(strings.ReplaceAll(r.stderr, "_", " "), word) {
		t.Errorf("the error does not name %q: %s", word, r.stderr)
	}
}
