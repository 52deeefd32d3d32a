package acceptance

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/parttest"
)

func engineURL(t *testing.T, variable string) string {
	t.Helper()
	url := os.Getenv(variable)
	if url == "" {
		parttest.Need(t, variable+" is not set: .ci/run starts the engine")
	}
	return url
}

// Must show 7: a real engine, over both dialects, whose own timings agree with
// ours.
func TestRealOllama(t *testing.T) {
	s := &simulator{url: engineURL(t, "ASSAY_OLLAMA_URL")}
	for _, backend := range []string{"ollama", "openai-chat", "openai"} {
		t.Run(backend, func(t *testing.T) {
			best(t, backend, func() error {
				r, _, sum := hammer(t, s, "--backend", backend, "--model", "mid", "--max-concurrency", "1", "--num-prompts", "8",
					"--num-warmups", "1", "--random-input-len", "32", "--random-output-len", "128")
				if r.exit != 0 {
					return fmt.Errorf("exit %d: %s", r.exit, r.stderr)
				}
				st := sum.Stages[0]
				say(t, "%s: %d of %d succeeded, TPOT %.3f ms, %s, output %.0f tokens", backend, st.OK, st.Requests, st.TPOT.Mean, sum.Client.Certificate, st.OutputTokens.Mean)
				if st.OK != 8 || st.OutputTokens.Mean != 128 {
					return fmt.Errorf("%d succeeded with %.1f tokens each, errors %v", st.OK, st.OutputTokens.Mean, st.Errors)
				}
				if backend != "ollama" {
					return nil // only its own dialect tells its timings
				}
				if st.Engine == nil || st.Engine.OursOverTheirs == nil {
					return fmt.Errorf("the engine's own timings are missing")
				}
				say(t, "%s: our TPOT over the engine's: %.4f (within 3 %%)", backend, *st.Engine.OursOverTheirs)
				return within("our TPOT over the engine's", *st.Engine.OursOverTheirs, 1, 0.03)
			})
		})
	}
}

// llama.cpp's own server gives its timings in OpenAI's dialect.
func TestRealLlamaCpp(t *testing.T) {
	s := &simulator{url: engineURL(t, "ASSAY_LLAMACPP_URL")}
	best(t, "llama.cpp", func() error {
		r, _, sum := hammer(t, s, "--backend", "openai-chat", "--max-concurrency", "1", "--num-prompts", "8",
			"--num-warmups", "1", "--random-input-len", "32", "--random-output-len", "128")
		if r.exit != 0 {
			return fmt.Errorf("exit %d: %s", r.exit, r.stderr)
		}
		st := sum.Stages[0]
		if st.OK != 8 || st.Engine == nil || st.Engine.OursOverTheirs == nil {
			return fmt.Errorf("%d succeeded, errors %v, engine's timings %v", st.OK, st.Errors, st.Engine)
		}
		say(t, "llama.cpp: TPOT %.3f ms, over the engine's own %.4f, %s", st.TPOT.Mean, *st.Engine.OursOverTheirs, sum.Client.Certificate)
		return within("our TPOT over the engine's", *st.Engine.OursOverTheirs, 1, 0.03)
	})
}

// An engine that is killed in the middle ends the run as partial, with the
// right classes and exit code.
func TestRealOllamaDies(t *testing.T) {
	parts := os.Getenv("PARTS")
	if parts == "" {
		parttest.Need(t, "PARTS is not set: .ci/run says where the engines' scripts are")
	}
	dir := t.TempDir()
	serve := filepath.Join(parts, "ollama-serve")
	cmd := exec.Command(serve, "start", dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("start ollama: %v", err)
	}
	t.Cleanup(func() { _ = exec.Command(serve, "stop", dir).Run() })
	url := strings.TrimSpace(string(out))
	runDir := filepath.Join(t.TempDir(), "run")
	h := exec.Command(program(t, "assay"), "hammer", "--base-url", url, "--backend", "ollama", "--model", "mid", "--sweep", "2", "--duration", "60s",
		"--input-len", "32", "--output-len", "64", "--out", runDir, "--quiet", "--format", "json")
	start := time.Now()
	r := runCommand(t, h, func() {
		go func() {
			// Four seconds into the load: loading the model and calibration
			// take as long as they take.
			for range 600 {
				if b, _ := os.ReadFile(filepath.Join(runDir, "events.jsonl")); strings.Contains(string(b), "stage_started") {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(4 * time.Second)
			b, _ := os.ReadFile(filepath.Join(dir, "pid"))
			if pid, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
				_ = syscall.Kill(-pid, syscall.SIGKILL)
			}
		}()
	})
	var sum assay.Summary
	if err := json.Unmarshal([]byte(r.stdout), &sum); err != nil {
		t.Fatalf("exit %d: %v\n%s", r.exit, err, r.stderr)
	}
	if len(sum.Stages) == 0 {
		t.Fatalf("exit %d, no stage: %s", r.exit, r.stderr)
	}
	st := sum.Stages[0]
	say(t, "killed in the middle: exit %d after %s, %s, %d succeeded, errors %v", r.exit, time.Since(start).Round(time.Second), sum.Status, st.OK, st.Errors)
	if r.exit != 2 || sum.Status != assay.StatusPartial || st.OK == 0 {
		t.Errorf("exit %d, %s, %d succeeded; want 2, partial, some\n%s", r.exit, sum.Status, st.OK, r.stderr)
	}
	if st.Errors[assay.FailRefused] == 0 || st.Errors[assay.FailReset] == 0 {
		t.Errorf("errors %v; want reset for what was under way and refused for what came after", st.Errors)
	}
	if !strings.Contains(r.stderr, "--resume") {
		t.Errorf("the error does not say how to go on: %s", r.stderr)
	}
}
