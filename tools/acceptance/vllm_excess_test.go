package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/assay-bench/assay/tools/stillness"
)

const excessRounds = 10

// excess is by how much a client's means are longer than vLLM's own, in ms.
type excess struct{ ttft, e2e float64 }

// Must show 1, in the long run: what transport adds, ours and that of
// `vllm bench serve`, each in runs of its own, ten rounds in random order.
func TestRealVLLMExcess(t *testing.T) {
	url := engineURL(t, "ASSAY_VLLM_URL")
	dir := os.Getenv("ASSAY_VLLM")
	if !long() || dir == "" {
		t.Skip("ten rounds of two clients take half an hour: .ci/run long")
	}
	for _, load := range []struct{ streams, requests int }{{1, 16}, {8, 64}, {32, 128}} {
		name := strconv.Itoa(load.streams)
		t.Run(name, func(t *testing.T) {
			stillness.Timed(t, name, func() error {
				var ours, bench []excess
				for range excessRounds {
					clients := []func(){
						func() { ours = append(ours, hammerExcess(t, url, load.streams, load.requests)) },
						func() { bench = append(bench, benchExcess(t, url, dir, load.streams, load.requests)) },
					}
					rand.Shuffle(2, func(i, j int) { clients[i], clients[j] = clients[j], clients[i] })
					for _, run := range clients {
						run()
					}
				}
				return judgeExcess(t, load.streams, ours, bench)
			})
		})
	}
}

func judgeExcess(t *testing.T, streams int, ours, bench []excess) error {
	t.Helper()
	ttft, e2e := medians(ours)
	theirs, theirE2E := medians(bench)
	most := 2 + 0.6*float64(streams)
	say(t, "%d streams, median of %d rounds, ms longer than vLLM's own: TTFT %.2f (0 to %.1f), E2E %.2f; vllm bench serve %.2f and %.2f",
		streams, len(ours), ttft, most, e2e, theirs, theirE2E)
	var errs []error
	if !(ttft >= 0 && ttft <= most) {
		errs = append(errs, fmt.Errorf("TTFT's excess is %.2f ms, want 0 to %.1f", ttft, most))
	}
	if room := max(0.5, 0.1*ttft); !(e2e >= ttft-room && e2e <= ttft+room) {
		errs = append(errs, fmt.Errorf("E2E's excess is %.2f ms and TTFT's %.2f: they differ by more than %.2f", e2e, ttft, room))
	}
	if !(ttft <= theirs) {
		errs = append(errs, fmt.Errorf("TTFT's excess is %.2f ms, that of vllm bench serve %.2f", ttft, theirs))
	}
	return errors.Join(errs...)
}

func medians(all []excess) (ttft, e2e float64) {
	median := func(of func(excess) float64) float64 {
		var v []float64
		for _, x := range all {
			v = append(v, of(x))
		}
		slices.Sort(v)
		return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
	}
	return median(func(x excess) float64 { return x.ttft }), median(func(x excess) float64 { return x.e2e })
}

func hammerExcess(t *testing.T, url string, streams, requests int) excess {
	t.Helper()
	l := hammerVLLM(t, url, "--backend", "openai", "--max-concurrency", strconv.Itoa(streams), "--num-prompts", strconv.Itoa(requests),
		"--random-input-len", "32", "--random-output-len", "64")
	m := l.ours()
	return excess{m.ttft - l.stage.mean("time_to_first_token"), m.e2e - l.stage.mean("e2e_request_latency")}
}

// benchExcess runs vLLM's own client on the same work.
func benchExcess(t *testing.T, url, dir string, streams, requests int) excess {
	t.Helper()
	out := t.TempDir()
	before := readVLLM(t, url)
	cmd := realtime(t, filepath.Join(dir, "bin", "vllm"), "bench", "serve", "--backend", "openai", "--base-url", url,
		"--model", filepath.Join(dir, "model"), "--served-model-name", "tiny", "--dataset-name", "random",
		"--random-input-len", "32", "--random-output-len", "64", "--num-prompts", strconv.Itoa(requests),
		"--max-concurrency", strconv.Itoa(streams), "--ignore-eos", "--seed", strconv.Itoa(int(rand.Int32())),
		"--ready-check-timeout-sec", "0", "--percentile-metrics", "ttft,tpot,itl,e2el",
		"--save-result", "--result-dir", out, "--result-filename", "result.json", "--disable-tqdm")
	cmd.Env = append(os.Environ(), "HOME="+out, "HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1")
	if r := runCommand(t, cmd, nil); r.exit != 0 {
		t.Fatalf("vllm bench serve: exit %d\n%s", r.exit, r.stderr)
	}
	b, err := os.ReadFile(filepath.Join(out, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		Completed int     `json:"completed"`
		TTFT      float64 `json:"mean_ttft_ms"`
		E2E       float64 `json:"mean_e2el_ms"`
	}
	if err := json.Unmarshal(b, &result); err != nil {
		t.Fatal(err)
	}
	page := before.since(t, url, float64(requests))
	if n := page["request_success_total"]; n != float64(requests) || result.Completed != requests {
		t.Fatalf("vllm bench serve completed %d of %d requests, and vLLM counted %.0f", result.Completed, requests, n)
	}
	return excess{result.TTFT - page.mean("time_to_first_token"), result.E2E - page.mean("e2e_request_latency")}
}
