package campaign

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// published are sizes of weights as somebody else wrote them down; docs/campaigns.md
// has the sources. Within is what the figure's own rounding allows.
var published = []struct {
	model  string
	bytes  float64
	within float64
	source string
}{
	{"qwen2:1.5b", 935e6, 0.01, "Ollama's library"},
	{"qwen2:7b", 4_431_400_262, 0.005, "answer of Ollama's /api/tags"},
	{"deepseek-r1:1.5b", 1.04 * gibi, 0.006, "ollama/ollama issue 9362"},
	{"deepseek-r1:7b", 4_683_075_271, 0.005, "answer of /api/tags; containers/ramalama issue 616 has 4.36 GiB"},
	{"deepseek-r1:14b", 8_988_112_040, 0.005, "answer of /api/tags; ollama/ollama issue 9245 has 8.37 GiB"},
	{"deepseek-r1:32b", 19_851_337_640, 0.005, "answer of /api/tags; ollama/ollama issue 9595 has 18.48 GiB"},
	{"deepseek-r1:70b", 42_520_397_873, 0.005, "answer of /api/tags"},
	{"llama3.1:8b", 4.58 * gibi, 0.005, "ggml-org/llama.cpp tools/quantize"},
	{"meta-llama/Llama-3.1-8B-Instruct", 14.96 * gibi, 0.005, "the same, F16"},
	{"llama3.3:70b", 42.5e9, 0.005, "bartowski/Llama-3.3-70B-Instruct-GGUF"},
	{"llama3.2:1b", 1.3e9, 0.04, "Ollama v0.7.0, README"},
	{"llama3.2:3b", 2.0e9, 0.03, "the same"},
	{"phi4:14b", 9.1e9, 0.03, "the same"},
	{"mistral:7b", 4.1e9, 0.015, "the same"},
	{"gemma2:2b", 1.6e9, 0.035, "Ollama v0.4.4, README"},
	{"gemma2:9b", 5.5e9, 0.02, "the same"},
	{"gemma2:27b", 16e9, 0.035, "the same"},
	{"llama2:7b", 3_825_819_519, 0.005, "Ollama's API documentation, an answer of /api/tags"},
	{"llama2:13b", 7_365_960_935, 0.005, "the same, codellama:13b, which has its architecture"},
	{"Qwen/Qwen2.5-7B-Instruct-AWQ", 5.2032 * gibi, 0.01, "vllm-project/vllm issue 13882"},
}

func known(t *testing.T, name string) Model {
	t.Helper()
	m, ok := modelOf(nil, name)
	if !ok {
		t.Fatalf("%s is not known", name)
	}
	return m
}

func TestWeightsAgainstPublishedSizes(t *testing.T) {
	worst := 0.0
	for _, p := range published {
		got, err := known(t, p.model).WeightBytes()
		if err != nil {
			t.Fatal(err)
		}
		off := float64(got)/p.bytes - 1
		worst = max(worst, math.Abs(off))
		t.Logf("%-34s %8.3f GB, published %8.3f GB, %+.2f %%", p.model, float64(got)/giga, p.bytes/giga, 100*off)
		if !(math.Abs(off) <= p.within) {
			t.Errorf("%s: %d bytes, published %.0f (%s): %+.2f %%", p.model, got, p.bytes, p.source, 100*off)
		}
	}
	t.Logf("the worst is %.2f %%", 100*worst)
}

// What engines printed of their KV caches.
func TestCacheAgainstWhatEnginesPrint(t *testing.T) {
	for _, c := range []struct {
		model   string
		cache   string
		context int64
		mib     float64
		source  string
	}{
		{"deepseek-r1:7b", "f16", 4096, 224, "intel/ipex-llm issue 13301"},
		{"qwen2.5:14b", "f16", 4096, 768, "intel/ipex-llm issue 13277"},
		{"deepseek-r1:70b", "f16", 2048, 640, "ollama/ollama issue 5913, a model of the same layers and heads"},
		{"llama3.1:8b", "f16", 131072, 16384, "17.2 GB at 128k"},
		{"llama3.1:8b", "fp8", 131072, 8192, "half of it"},
		{"llama3.1:8b", "q8_0", 131072, 8704, "34 bytes for 32 numbers"},
	} {
		got, err := known(t, c.model).TokenBytes(c.cache)
		if err != nil {
			t.Fatal(err)
		}
		if mib := float64(got*c.context) / mebi; mib != c.mib {
			t.Errorf("%s: %.1f MiB at %d tokens, printed %.1f (%s)", c.model, mib, c.context, c.mib, c.source)
		}
	}
}

func TestFits(t *testing.T) {
	ollama, _ := EngineOf("ollama")
	vllm, _ := EngineOf("vllm")
	load := Serving{Context: 4096, Parallel: 1, Cache: "f16"}
	for _, c := range []struct {
		model  string
		engine Engine
		gpu    string
		gpus   int
		load   Serving
		fits   bool
	}{
		{"deepseek-r1:32b", ollama, "RTX 3090", 1, load, true},
		{"deepseek-r1:70b", ollama, "RTX 3090", 1, load, false},
		{"deepseek-r1:70b", ollama, "RTX 3090", 2, load, true},
		{"deepseek-r1:70b", ollama, "H200 NVL", 1, load, true},
		{"deepseek-r1:32b", ollama, "RTX 3090", 1, Serving{Context: 32768, Parallel: 1, Cache: "f16"}, false},
		{"deepseek-r1:32b", ollama, "RTX 3090", 1, Serving{Context: 4096, Parallel: 8, Cache: "f16"}, false},
		{"deepseek-r1:14b", ollama, "RTX 5070", 1, load, true},
		{"deepseek-r1:14b", ollama, "RTX 5060 Ti", 1, load, false},
		{"meta-llama/Llama-3.1-8B-Instruct", vllm, "RTX_4090", 1, load, true},
		{"meta-llama/Llama-3.1-8B-Instruct", vllm, "RTX 4080", 1, load, false},
		{"meta-llama/Llama-3.1-70B-Instruct", vllm, "A100 80GB", 1, load, false},
	} {
		n, err := NeedOf(known(t, c.model), c.engine, c.load, c.gpus, GPUMemory(c.gpu))
		if err != nil {
			t.Fatal(err)
		}
		why := n.refusal(known(t, c.model), c.load)
		if n.Fits() != c.fits || (why == "") != c.fits {
			t.Errorf("%s on %d %s: needs %s of %s, fits %v; %q", c.model, c.gpus, c.gpu, gib(n.Total()), gib(n.Usable), n.Fits(), why)
		}
	}
	n, _ := NeedOf(known(t, "deepseek-r1:70b"), ollama, load, 1, GPUMemory("RTX 3090"))
	want := "it needs 41.8 GiB and 23.3 GiB are usable: weights 39.6 GiB (70.6 billion parameters, Q4_K_M), KV cache 1.2 GiB (4096 tokens × 1, f16), engine 1.0 GiB"
	if got := n.refusal(known(t, "deepseek-r1:70b"), load); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// A model whose figures are missing is refused, and never taken for small.
func TestMissingFiguresAreRefused(t *testing.T) {
	good := known(t, "qwen2:7b")
	for name, spoil := range map[string]func(*Model){
		"quantization": func(m *Model) { m.Quantization = "Q9" },
		"parameters":   func(m *Model) { m.Parameters = math.NaN() },
		"layers":       func(m *Model) { m.Layers = 0 },
		"heads":        func(m *Model) { m.KVHeads = 0 },
		"vocab":        func(m *Model) { m.Vocab = 100_000_000 },
	} {
		m := good
		spoil(&m)
		if n, err := NeedOf(m, Engines()[0], Serving{Context: 1, Parallel: 1, Cache: "f16"}, 1, 24*gibi); err == nil {
			t.Errorf("%s: %+v", name, n)
		}
	}
	if _, err := NeedOf(good, Engines()[0], Serving{Context: 1, Parallel: 1, Cache: "f64"}, 1, 24*gibi); err == nil {
		t.Error("a cache of an unknown type")
	}
}

// The memory of a card is what verify's catalogue has of it: of several cards with
// one name the smallest.
func TestGPUMemoryAgreesWithTheCatalogue(t *testing.T) {
	b, err := os.ReadFile("../verify/catalog.json")
	if err != nil {
		t.Fatal(err)
	}
	var catalogue struct {
		Models []struct {
			Name   string `json:"name"`
			Memory int64  `json:"memory_bytes"`
		} `json:"models"`
	}
	if err := json.Unmarshal(b, &catalogue); err != nil {
		t.Fatal(err)
	}
	least := map[string]int64{}
	for _, m := range catalogue.Models {
		name := GPUName(m.Name)
		if old, ok := least[name]; !ok || m.Memory < old {
			least[name] = m.Memory
		}
	}
	compared := 0
	for name := range gpuGiB {
		if want, ok := least[name]; ok {
			compared++
			if got := GPUMemory(name); got != want {
				t.Errorf("%s: %s, the catalogue has %s", name, gib(got), gib(want))
			}
		}
	}
	if compared < 25 {
		t.Errorf("only %d names were compared", compared)
	}
	for _, name := range []string{"RTX_3090", "NVIDIA GeForce RTX 3090", "rtx 3090", " RTX-3090 "} {
		if GPUMemory(name) != 24*gibi {
			t.Errorf("%q: %d", name, GPUMemory(name))
		}
	}
	if GPUMemory("RTX 9999") != 0 || strings.TrimSpace(GPUName("NVIDIA")) != "NVIDIA" {
		t.Error("a name that nobody has")
	}
}
