package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay/internal/parttest"
)

// Prompts of 128,000 tokens from 32 streams: making and sending them, more than
// half a megabyte each, must not make the client late for the tokens of the
// others.
func TestLongPrompts(t *testing.T) {
	compare := tool(t, "truth")
	best(t, "long prompts", func() error {
		s := startSimulator(t, "--ttft", "1s", "--itl", "10ms")
		r, dir, sum := hammer(t, s, "--backend", "openai-chat", "--sweep", "32", "--duration", "12s",
			"--input-len", "128000", "--output-len", "100", "--allow-invalid")
		if r.exit != 0 {
			return fmt.Errorf("hammer exits %d: %s", r.exit, r.stderr)
		}
		s.stop()
		out := run(t, compare, "-run", dir, "-truth", s.truth, "-ttft", "1s", "-itl", "10ms")
		var tr truth
		if err := json.Unmarshal([]byte(out.stdout), &tr); err != nil {
			return fmt.Errorf("truth: %v %s", err, out.stderr)
		}
		st := sum.Stages[0]
		secs := float64(st.Ended-st.Started) / 1e9
		say(t, "%d requests of %.0f tokens: first token error p50 %.3f p99 %.3f ms (on-time ones p99 %.3f); client lag p99 %.3f ms, send lag p99 %.3f ms, %.2f cores, %d MB; simulator %.2f cores; %s",
			tr.Requests, st.InputTokens.Mean, tr.First.P50, tr.First.P99, tr.OnTimeFirst.P99,
			p(sum.Client.LagUS, 99)/1e3, p(sum.Client.SendLag, 99)/1e3, r.cpu.Seconds()/secs, r.maxRSS>>20, s.cpu().Seconds()/secs, sum.Client.Certificate)
		var errs []error
		if st.Failed > 0 || tr.Unmatched > 0 || tr.Requests < 64 {
			errs = append(errs, fmt.Errorf("%d requests compared, %d failed, %d without a match", tr.Requests, st.Failed, tr.Unmatched))
		}
		if !(st.InputTokens.Mean >= 0.97*128000 && st.InputTokens.Mean <= 1.03*128000) {
			errs = append(errs, fmt.Errorf("prompts of %.0f tokens", st.InputTokens.Mean))
		}
		if r.maxRSS > 1<<30 {
			errs = append(errs, fmt.Errorf("%d MB of memory", r.maxRSS>>20))
		}
		// A machine that stands still shows in the simulator's own lateness.
		if !long() {
			tr = tr.calm()
		}
		errs = append(errs, limit("p99 error of the first token", tr.First.P99, 1))
		return errors.Join(errs...)
	})
}

// The same work by vLLM's own benchmark, for the record.
func TestLongPromptsByVLLM(t *testing.T) {
	if !long() {
		t.Skip("for the record only: in the long run")
	}
	vllm := os.Getenv("ASSAY_VLLM")
	if vllm == "" {
		parttest.Need(t, "ASSAY_VLLM is not set: .ci/run gives the directory that has vllm bench serve")
	}
	s := startSimulator(t, "--ttft", "1s", "--itl", "10ms")
	dir := t.TempDir()
	cmd := exec.Command(filepath.Join(vllm, "bin", "python"), "-m", "vllm.entrypoints.cli.main", "bench", "serve",
		"--backend", "openai-chat", "--endpoint", "/v1/chat/completions", "--base-url", s.url, "--model", "sim",
		"--tokenizer", filepath.Join(vllm, "model"), "--dataset-name", "random", "--random-input-len", "128000", "--random-output-len", "100",
		"--num-prompts", "128", "--max-concurrency", "32", "--ignore-eos", "--save-result", "--result-dir", dir, "--result-filename", "result.json", "--disable-tqdm")
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1")
	r := runCommand(t, cmd, nil)
	b, err := os.ReadFile(filepath.Join(dir, "result.json"))
	if err != nil {
		t.Fatalf("exit %d: %s %s", r.exit, err, lastLines(r.stderr, 5))
	}
	var got struct {
		Completed int     `json:"completed"`
		MeanTTFT  float64 `json:"mean_ttft_ms"`
		P99TTFT   float64 `json:"p99_ttft_ms"`
		MeanTPOT  float64 `json:"mean_tpot_ms"`
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	say(t, "vllm bench serve on the same work: %d completed, mean TTFT %.1f p99 %.1f ms (truth 1000), mean TPOT %.2f ms (truth 10), %.1f s of CPU, %d MB",
		got.Completed, got.MeanTTFT, got.P99TTFT, got.MeanTPOT, r.cpu.Seconds(), r.maxRSS>>20)
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
