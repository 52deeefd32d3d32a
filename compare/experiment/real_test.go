package experiment

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/compare"
	"github.com/assay-bench/assay/journal"
)

func TestExtraBody(t *testing.T) {
	zero := 0.0
	e := EngineConfig{Extra: map[string]any{"options": map[string]any{"num_thread": 2}, "keep_alive": "1h"}}
	for backend, want := range map[string]string{
		"ollama":      `{"keep_alive":"1h","options":{"num_thread":2,"temperature":0}}`,
		"openai-chat": `{"keep_alive":"1h","options":{"num_thread":2}}`,
	} {
		if got, err := extraBody(e, backend, &zero); err != nil || string(got) != want {
			t.Errorf("%s: %s %v, want %s", backend, got, err, want)
		}
	}
	if len(e.Extra["options"].(map[string]any)) != 1 {
		t.Error("the configuration was changed")
	}
}

// part gives what a script of .ci/parts prints. Parts take minutes to build, so
// they are used where they are built already, or where CI has them built.
func part(t *testing.T, built, script string, args ...string) string {
	t.Helper()
	if os.Getenv("ASSAY_PARTS") != "1" {
		if found, _ := filepath.Glob(filepath.Join("..", "..", ".cache", built)); len(found) == 0 {
			t.Skipf("%s is not built", built)
		}
	}
	cmd := exec.Command(filepath.Join("..", "..", ".ci", "parts", script), args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(string(out))
}

// Two engines that others wrote, one of them with two settings, and one that
// crashes, in one experiment.
func TestRealEngines(t *testing.T) {
	if testing.Short() {
		t.Skip("real engines take half a minute")
	}
	need(t, "python3")
	l := newLab(t)
	ollama := part(t, "ollama-*/ollama", "ollama")
	python := part(t, "xllamacpp-*/ready", "xllamacpp")
	model := part(t, "models/tiny-*.gguf", "models", "tiny")
	// The script makes the models; the experiment starts servers of its own on them.
	home := t.TempDir()
	part(t, "ollama-*/ollama", "ollama-serve", "start", home)
	part(t, "ollama-*/ollama", "ollama-serve", "stop", home)
	serve, err := filepath.Abs(filepath.Join("..", "..", ".ci", "parts", "llamacpp-serve.py"))
	if err != nil {
		t.Fatal(err)
	}
	key, value, _ := strings.Cut(l.mark, "=")
	two := func(name string, threads int) EngineConfig {
		return EngineConfig{
			Name: name, Model: "tiny:latest", Extra: map[string]any{"options": map[string]any{"num_thread": threads}},
			Serve: &ServeConfig{
				Command: []string{ollama, "serve"}, Health: "/api/version", ReadyTimeout: seconds(60), Grace: seconds(5),
				Env: map[string]string{
					key: value, "OLLAMA_HOST": "127.0.0.1:{port}", "HOME": filepath.Join(home, "home"),
					"OLLAMA_MODELS": filepath.Join(home, "models"), "OLLAMA_CONTEXT_LENGTH": "2048",
				},
			},
		}
	}
	c := quick(2,
		two("ollama_1", 1), two("ollama_2", 2),
		EngineConfig{Name: "llama_cpp", Serve: &ServeConfig{
			Command: []string{python, serve, "{model_path}", "{port}", "tiny"}, Health: "/health", ReadyTimeout: seconds(60), Grace: seconds(5),
			Env: map[string]string{key: value},
		}},
		l.engine("crashes", "echo CUDA error: out of memory >&2; exit 134"),
	)
	c.Benchmark.ModelPath = model
	c.Workloads[0].TestCases[0].MaxTokens, c.Workloads[0].TestCases[1].MaxTokens = 24, 24
	c.Workloads[0].Connection = "fresh" // llama.cpp closes kept connections between requests
	c.Workloads[0].Iterations, c.Workloads[0].Timeout = 4, seconds(120)
	e, err := Run(t.Context(), c, l.dir, l.opt)
	if err != nil {
		t.Fatal(err)
	}
	l.nothingLeft(0)
	for _, s := range e.Samples {
		if s.Engine == "crashes" {
			if !strings.Contains(s.Failed, "code 134") {
				t.Errorf("%s: %q", s.Engine, s.Failed)
			}
			continue
		}
		if s.Failed != "" || s.OK != 8 || s.OutputTokens == 0 || s.Metrics["memory_peak_bytes"] < 10<<20 || len(s.Texts) != 2 || s.Texts[0] == "" {
			t.Errorf("%s round %d: %q, %d of %d, %g tokens, memory %g, texts %v", s.Engine, s.Round, s.Failed, s.OK, s.Requests, s.OutputTokens, s.Metrics["memory_peak_bytes"], s.Texts)
		}
		for _, why := range failures(t, filepath.Join(l.dir, s.Dir)) {
			t.Logf("%s round %d: %s", s.Engine, s.Round, why)
		}
		t.Logf("%s round %d: E2E %.1f ms, TTFT %.1f ms, %.0f tokens/s, %.0f output tokens, %.0f MB, client %s", s.Engine, s.Round, s.Metrics["e2e_ms_mean"],
			s.Metrics["ttft_ms_p50"], s.Metrics["output_tokens_per_second"], s.OutputTokens, s.Metrics["memory_peak_bytes"]/1e6, s.Client)
	}
	for _, r := range e.Engines {
		if (r.Failed != "") != (r.Name == "crashes") || r.Name == "crashes" && !strings.Contains(r.LogTail, "out of memory") {
			t.Errorf("%s: %q, log ends %q", r.Name, r.Failed, r.LogTail)
		}
		if r.Name != "crashes" && (r.Lock["version"] == "" || r.Lock["model_sha256"] == "") {
			t.Errorf("%s: %v", r.Name, r.Lock)
		}
		t.Logf("%s: %s, %v", r.Name, r.Isolation, r.Lock["version"])
	}
	if e.Status != assay.StatusComplete {
		t.Error(e.Status)
	}
	a := compare.Analyze(e)
	for _, g := range a.Agreement {
		t.Logf("answers: %s", g)
	}
	if err := compare.WriteOutputs(l.dir, e, a, compare.OutputOptions{}); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(l.dir, "comparison_table.md")); err != nil || !strings.Contains(string(b), "out of memory") {
		t.Errorf("the table does not say why one failed (%v):\n%s", err, b)
	}
}

// failures are the requests of a run that failed, each in words.
func failures(t *testing.T, dir string) (out []string) {
	t.Helper()
	rd, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range rd.Requests() {
		if err != nil {
			t.Fatal(err)
		}
		if !r.OK() {
			out = append(out, fmt.Sprintf("%s (test case %d): %s %s, %d tokens", r.ID, r.Prompt%2, r.Error, r.Detail, r.OutputTokens))
		}
	}
	return out
}
