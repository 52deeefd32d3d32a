package campaign

import (
	"fmt"
	"strings"
	"time"
)

// Engine is what the arithmetic needs to know of an engine.
type Engine struct {
	Name string
	// Overhead is what it takes of each GPU's memory beside weights and cache: the
	// driver's context, the graph's buffers, activations.
	Overhead int64
	// Share is how much of the memory it may use at all.
	Share float64
	// Image is how much is transferred to install it.
	Image int64
	// Reachable is how long a machine with its image may take until SSH answers.
	Reachable time.Duration
	// repository: it gets models by a repository's name (OWNER/MODEL), not by a tag.
	repository bool
}

const (
	mebi = 1 << 20
	gibi = 1 << 30
	giga = 1_000_000_000
)

// Engines are those that a campaign can measure. Overheads come from what the
// engines print when they load models (docs/campaigns.md has the sources).
func Engines() []Engine {
	return []Engine{
		{Name: "ollama", Overhead: 1 * gibi, Share: 0.97, Image: 2 * giga, Reachable: 3 * time.Minute},
		{Name: "vllm", Overhead: 2560 * mebi, Share: 0.90, Image: 12 * giga, Reachable: 20 * time.Minute, repository: true},
	}
}

// EngineOf finds an engine by its name.
func EngineOf(name string) (Engine, bool) {
	for _, e := range Engines() {
		if e.Name == name {
			return e, true
		}
	}
	return Engine{}, false
}

// gpuGiB is the memory of one card, nominally, by the names that matrices use. Where
// several cards have one name the smallest counts until an offer says which it is.
var gpuGiB = map[string]float64{
	"RTX 3060": 8, "RTX 3060 TI": 8, "RTX 3070": 8, "RTX 3070 TI": 8, "RTX 3080": 10, "RTX 3080 TI": 12, "RTX 3090": 24, "RTX 3090 TI": 24,
	"RTX 4060": 8, "RTX 4060 TI": 8, "RTX 4070": 12, "RTX 4070 SUPER": 12, "RTX 4070 TI": 12, "RTX 4070 TI SUPER": 16, "RTX 4080": 16, "RTX 4080 SUPER": 16, "RTX 4090": 24, "RTX 4090 D": 24,
	"RTX 5060": 8, "RTX 5060 TI": 8, "RTX 5070": 12, "RTX 5070 TI": 16, "RTX 5080": 16, "RTX 5090": 32, "RTX 5090 D": 32,
	"RTX A6000": 48, "RTX 6000 ADA": 48, "A10": 24, "A30": 24, "A40": 48, "L4": 24, "L40": 48, "L40S": 48, "TESLA T4": 16,
	"A100 40GB": 40, "A100 80GB": 80, "H100 PCIE": 80, "H100 SXM": 80, "H100 NVL": 94, "H200": 141, "H200 NVL": 141, "B200": 180,
}

// GPUName is a GPU's name as it is compared: providers write RTX_3090, RTX 3090 or
// NVIDIA GeForce RTX 3090.
func GPUName(name string) string {
	name = strings.ToUpper(strings.NewReplacer("_", " ", "-", " ").Replace(name))
	words := strings.Fields(name)
	for len(words) > 1 && (words[0] == "NVIDIA" || words[0] == "GEFORCE") {
		words = words[1:]
	}
	return strings.Join(words, " ")
}

// GPUMemory is what a GPU of a name has at least, in bytes; 0: not known.
func GPUMemory(name string) int64 { return int64(gpuGiB[GPUName(name)] * gibi) }

// Serving is how a model is to be served, as far as memory depends on it.
type Serving struct {
	Context  int    // tokens of one request at most
	Parallel int    // requests at once that the cache must hold
	Cache    string // the KV cache's type: f16 …
}

// Need is what a cell takes of GPU memory, and what there is.
type Need struct {
	Weights  int64 `json:"weights_bytes"`
	KVCache  int64 `json:"kv_cache_bytes"`
	Overhead int64 `json:"overhead_bytes"`
	Usable   int64 `json:"usable_bytes"` // of the GPUs' memory, by this engine
}

// Total is what has to fit.
func (n Need) Total() int64 { return n.Weights + n.KVCache + n.Overhead }

// Fits reports whether it does.
func (n Need) Fits() bool { return n.Total() <= n.Usable }

// NeedOf computes the memory of a model on so many GPUs of so many bytes each.
func NeedOf(m Model, e Engine, l Serving, gpus int, memory int64) (Need, error) {
	weights, err := m.WeightBytes()
	if err != nil {
		return Need{}, err
	}
	token, err := m.TokenBytes(l.Cache)
	if err != nil {
		return Need{}, err
	}
	return Need{
		Weights: weights, KVCache: token * int64(l.Context) * int64(l.Parallel), Overhead: e.Overhead * int64(gpus),
		Usable: int64(float64(memory) * e.Share * float64(gpus)),
	}, nil
}

// refusal says in one line, with its numbers, why something does not fit; empty: it
// does.
func (n Need) refusal(m Model, l Serving) string {
	if n.Fits() {
		return ""
	}
	return fmt.Sprintf("it needs %s and %s are usable: weights %s (%.3g billion parameters, %s), KV cache %s (%d tokens × %d, %s), engine %s",
		gib(n.Total()), gib(n.Usable), gib(n.Weights), m.Parameters/1e9, m.Quantization, gib(n.KVCache), l.Context, l.Parallel, l.Cache, gib(n.Overhead))
}

// gib is an amount of memory for people.
func gib(b int64) string { return fmt.Sprintf("%.1f GiB", float64(b)/gibi) }
