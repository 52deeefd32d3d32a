package campaign

import "strings"

// The architectures that several models share.
var (
	qwen1b  = Model{Layers: 28, KVHeads: 2, HeadDim: 128, Hidden: 1536, Vocab: 151936}
	qwen7b  = Model{Parameters: 7.6156e9, Layers: 28, KVHeads: 4, HeadDim: 128, Hidden: 3584, Vocab: 152064}
	qwen14b = Model{Parameters: 14.770e9, Layers: 48, KVHeads: 8, HeadDim: 128, Hidden: 5120, Vocab: 152064}
	qwen32b = Model{Parameters: 32.764e9, Layers: 64, KVHeads: 8, HeadDim: 128, Hidden: 5120, Vocab: 152064}
	llama8b = Model{Parameters: 8.0303e9, Layers: 32, KVHeads: 8, HeadDim: 128, Hidden: 4096, Vocab: 128256}
	llama70 = Model{Parameters: 70.554e9, Layers: 80, KVHeads: 8, HeadDim: 128, Hidden: 8192, Vocab: 128256}
)

// as names an architecture.
func (m Model) as(name, quantization string) Model {
	m.Name, m.Quantization = name, quantization
	return m
}

// of says how many parameters an architecture has, and whether its two largest
// tensors are one.
func (m Model) of(parameters float64, tied bool) Model {
	m.Parameters, m.Tied = parameters, tied
	return m
}

// Models are those that are known without being described, by the names that Ollama
// pulls them by or that vLLM is started with. What a name means at its publisher can
// change: after the pull the size on the machine is compared with this.
func Models() []Model {
	return []Model{
		qwen1b.of(1.5437e9, true).as("qwen2:1.5b", "Q4_0"),
		qwen7b.as("qwen2:7b", "Q4_0"),
		qwen7b.as("qwen2.5:7b", "Q4_K_M"),
		qwen14b.as("qwen2.5:14b", "Q4_K_M"),
		qwen32b.as("qwen2.5:32b", "Q4_K_M"),
		qwen1b.of(1.7771e9, false).as("deepseek-r1:1.5b", "Q4_K_M"),
		qwen7b.as("deepseek-r1:7b", "Q4_K_M"),
		qwen14b.as("deepseek-r1:14b", "Q4_K_M"),
		qwen32b.as("deepseek-r1:32b", "Q4_K_M"),
		llama70.as("deepseek-r1:70b", "Q4_K_M"),
		llama8b.as("llama3.1:8b", "Q4_K_M"),
		llama70.as("llama3.1:70b", "Q4_K_M"),
		llama70.as("llama3.3:70b", "Q4_K_M"),
		{Name: "llama3.2:1b", Parameters: 1.2358e9, Quantization: "Q8_0", Layers: 16, KVHeads: 8, HeadDim: 64, Hidden: 2048, Vocab: 128256, Tied: true},
		{Name: "llama3.2:3b", Parameters: 3.2128e9, Quantization: "Q4_K_M", Layers: 28, KVHeads: 8, HeadDim: 128, Hidden: 3072, Vocab: 128256, Tied: true},
		{Name: "llama2:7b", Parameters: 6.7384e9, Quantization: "Q4_0", Layers: 32, KVHeads: 32, HeadDim: 128, Hidden: 4096, Vocab: 32000},
		{Name: "llama2:13b", Parameters: 13.016e9, Quantization: "Q4_0", Layers: 40, KVHeads: 40, HeadDim: 128, Hidden: 5120, Vocab: 32000},
		{Name: "mistral:7b", Parameters: 7.2480e9, Quantization: "Q4_0", Layers: 32, KVHeads: 8, HeadDim: 128, Hidden: 4096, Vocab: 32768},
		{Name: "phi4:14b", Parameters: 14.660e9, Quantization: "Q4_K_M", Layers: 40, KVHeads: 10, HeadDim: 128, Hidden: 5120, Vocab: 100352},
		{Name: "gemma2:2b", Parameters: 2.6143e9, Quantization: "Q4_0", Layers: 26, KVHeads: 4, HeadDim: 256, Hidden: 2304, Vocab: 256000, Tied: true},
		{Name: "gemma2:9b", Parameters: 9.2414e9, Quantization: "Q4_0", Layers: 42, KVHeads: 8, HeadDim: 256, Hidden: 3584, Vocab: 256000, Tied: true},
		{Name: "gemma2:27b", Parameters: 27.227e9, Quantization: "Q4_0", Layers: 46, KVHeads: 16, HeadDim: 128, Hidden: 4608, Vocab: 256000, Tied: true},
		qwen7b.as("Qwen/Qwen2-7B-Instruct", "BF16"),
		qwen7b.as("Qwen/Qwen2.5-7B-Instruct", "BF16"),
		qwen7b.as("Qwen/Qwen2.5-7B-Instruct-AWQ", "AWQ"),
		llama8b.as("meta-llama/Llama-3.1-8B-Instruct", "BF16"),
		llama70.as("meta-llama/Llama-3.1-70B-Instruct", "BF16"),
	}
}

// modelOf finds a model: those that a matrix describes come before ours.
func modelOf(described []Model, name string) (Model, bool) {
	for _, list := range [][]Model{described, Models()} {
		for _, m := range list {
			if strings.EqualFold(m.Name, name) {
				return m, true
			}
		}
	}
	return Model{}, false
}
