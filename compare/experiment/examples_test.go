package experiment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/compare"
	"github.com/assay-bench/assay/internal/parttest"
)

const examples = "../../examples/compare"

// example reads one of the examples with what the machine has in the place of what
// a person would have.
func example(t *testing.T, name string, swaps ...string) Config {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(examples, name))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(swaps); i += 2 {
		if !strings.Contains(string(b), swaps[i]) {
			t.Fatalf("%s has no %q", name, swaps[i])
		}
	}
	c, err := ReadConfig(strings.NewReader(strings.NewReplacer(swaps...).Replace(string(b))), name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestExamplesAreRead(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(examples, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{ // engines
		"quick.yaml": 2, "comprehensive.yaml": 5, "gpu-only.yaml": 3, "two-simulators.yaml": 2,
		"ollama.yaml": 2, "llama-cpp.yaml": 2, "vllm.yaml": 2, "pytorch.yaml": 2,
	}
	if len(files) != len(want) {
		t.Errorf("%d files, and %d are known: %v", len(files), len(want), files)
	}
	for name, engines := range want {
		c := example(t, name)
		if len(c.Engines) != engines || c.Benchmark.OutputDir == "" {
			t.Errorf("%s: %d engines, output in %q", name, len(c.Engines), c.Benchmark.OutputDir)
		}
		if !strings.Contains(string(readme), "]("+name+")") {
			t.Errorf("README.md does not name %s", name)
		}
		for _, e := range c.Engines {
			if strings.HasPrefix(e.BinaryPath, "./examples/") {
				if info, err := os.Stat(filepath.Join("..", "..", e.BinaryPath)); err != nil || info.Mode()&0o111 == 0 {
					t.Errorf("%s: %s is not there to be run (%v)", name, e.BinaryPath, err)
				}
			}
		}
	}
}

// oneRound runs an example for one short round, in which nothing can be decided.
func oneRound(t *testing.T, c Config, environ ...string) compare.Experiment {
	t.Helper()
	l := newLab(t)
	l.opt.Environ = environ
	key, value, _ := strings.Cut(l.mark, "=")
	for i := range c.Engines {
		if e := &c.Engines[i]; e.URL == "" {
			if e.Env == nil {
				e.Env = map[string]string{}
			}
			e.Env[key] = value
		}
	}
	for i := range c.Workloads {
		w := &c.Workloads[i]
		w.Iterations, w.WarmupIterations, w.Timeout = 3, 1, seconds(240)
		for k := range w.TestCases {
			w.TestCases[k].MaxTokens = 8
		}
	}
	*c.System.CoolDownSeconds, *c.Experiment.Pilot, c.Experiment.Rounds = 0, 0, 1
	e, err := Run(t.Context(), c, l.dir, l.opt)
	if err != nil {
		t.Fatal(err)
	}
	l.nothingLeft(0)
	if e.Status != assay.StatusComplete || len(e.Samples) != len(c.enabled())*len(c.Workloads) {
		t.Errorf("%s with %d samples", e.Status, len(e.Samples))
	}
	for _, s := range e.Samples {
		if s.Failed != "" || s.OK != 3 || !(s.OutputTokens > 0) {
			t.Errorf("%s: %q, %d of %d, %g tokens", s.Engine, s.Failed, s.OK, s.Requests, s.OutputTokens)
		}
		t.Logf("%s: E2E %.1f ms, %.0f tokens/s, %.0f MB, counters %v, client %s", s.Engine, s.Metrics["e2e_ms_mean"],
			s.Metrics["output_tokens_per_second"], s.Metrics["memory_peak_bytes"]/1e6, s.Counters, s.Client)
	}
	a := compare.Analyze(e)
	if a.Overall.Fastest != compare.Tied {
		t.Errorf("one round found %s to be the fastest", a.Overall.Fastest)
	}
	for _, v := range a.Comparisons {
		if v.Verdict.Shown() {
			t.Errorf("one round shows %s: %s", v.Metric, v.Text())
		}
	}
	if err := compare.WriteOutputs(l.dir, e, a, compare.OutputOptions{}); err != nil {
		t.Error(err)
	}
	return e
}

func path(dirs ...string) string {
	return "PATH=" + strings.Join(append(dirs, os.Getenv("PATH")), string(filepath.ListSeparator))
}

func TestRealEnginesExampleOllama(t *testing.T) {
	ollama := part(t, "ollama-*/ollama", "ollama")
	home := t.TempDir()
	part(t, "ollama-*/ollama", "ollama-serve", "start", home) // it makes the models
	part(t, "ollama-*/ollama", "ollama-serve", "stop", home)
	c := example(t, "ollama.yaml", "llama3.2:1b", "tiny:latest")
	e := oneRound(t, c, path(filepath.Dir(ollama)), "HOME="+filepath.Join(home, "home"), "OLLAMA_MODELS="+filepath.Join(home, "models"))
	if v := e.Engines[0].Lock["version"]; v == "" {
		t.Error("it told no version")
	}
}

func TestRealEnginesExampleLlamaCpp(t *testing.T) {
	python := part(t, "xllamacpp-*/ready", "xllamacpp")
	model := part(t, "models/tiny-*.gguf", "models", "tiny")
	serve, err := filepath.Abs(filepath.Join("..", "..", ".ci", "parts", "llamacpp-serve.py"))
	if err != nil {
		t.Fatal(err)
	}
	// The part is llama.cpp's server as a Python package; this is its command line.
	bin := t.TempDir()
	parttest.Program(t, filepath.Join(bin, "llama-server"), []byte("#!/bin/sh\n"+
		"while [ $# -gt 0 ]; do\n  case $1 in\n  --model) model=$2 ;;\n  --port) port=$2 ;;\n  --threads) threads=$2 ;;\n  esac\n  shift 2\ndone\n"+
		"exec "+python+" "+serve+" \"$model\" \"$port\" tiny \"$threads\"\n"))
	c := example(t, "llama-cpp.yaml", "./models/llama-3.2-1b-instruct.gguf", model)
	e := oneRound(t, c, path(bin), "HOME="+bin)
	if e.Engines[0].Lock["model_sha256"] == "" {
		t.Errorf("its model is not pinned: %v", e.Engines[0].Lock)
	}
}

func TestRealEnginesExampleVLLM(t *testing.T) {
	plain, ngram := os.Getenv("ASSAY_VLLM_URL"), os.Getenv("ASSAY_VLLM_NGRAM_URL")
	if plain == "" || ngram == "" {
		parttest.Need(t, "ASSAY_VLLM_URL and ASSAY_VLLM_NGRAM_URL are not set: no vLLM runs")
	}
	c := example(t, "vllm.yaml", "http://127.0.0.1:8000", plain, "http://127.0.0.1:8001", ngram, "model: llama", "model: tiny")
	oneRound(t, c, path())
}

func TestRealEnginesExamplePyTorch(t *testing.T) {
	vllm := part(t, "vllm-*/ready", "vllm") // its environment has torch
	here, err := filepath.Abs(examples)
	if err != nil {
		t.Fatal(err)
	}
	c := example(t, "pytorch.yaml", "binary_path: ./examples/compare", "binary_path: "+here, "model_path: ./models/llama-3.2-1b-instruct", "model_path: "+filepath.Join(vllm, "model"))
	e := oneRound(t, c, path(filepath.Join(vllm, "bin")), "HOME="+t.TempDir())
	r := e.Engines[0]
	if r.Lock["python"] == "" || r.Lock["python_packages_sha256"] == "" || !strings.Contains(strings.Join(r.Packages, "\n"), "torch==") {
		t.Errorf("its packages are not pinned: %v, %d packages", r.Lock, len(r.Packages))
	}
}
