package campaign

import (
	"fmt"
	"math"
	"strings"
)

// Model is what the arithmetic of memory needs to know of a model.
type Model struct {
	Name       string
	Parameters float64
	// Quantization is that of the weights as the engine gets them under this name.
	Quantization string
	// Layers, KVHeads and HeadDim make the size of a token in the KV cache.
	Layers, KVHeads, HeadDim int
	// Hidden and Vocab make the size of the two tensors that are quantised less than
	// the others: embeddings and output. Tied: they are one.
	Hidden, Vocab int
	Tied          bool
}

// Quantization is how many bits a weight takes. Formats mix types: the output tensor
// keeps more bits than the body, and formats for GPUs leave embeddings as they were.
type Quantization struct {
	Name string
	// Body is the mean of everything but the output tensor and, where Embedding is not
	// zero, the embeddings.
	Body, Output, Embedding float64
}

// bitsQ6K are those of llama.cpp's Q6_K, which its other types keep the output in.
const bitsQ6K = 6.5625

// quantizations are the formats that can be planned with. Bodies of the mixed GGUF
// types are what is left of the published bits a weight of Llama 3.1 8B, or Llama 2 7B,
// without the output tensor (docs/campaigns.md names the sources).
func quantizations() []Quantization {
	return []Quantization{
		{Name: "Q2_K", Body: 2.92, Output: bitsQ6K},
		{Name: "Q3_K_S", Body: 3.44, Output: bitsQ6K},
		{Name: "Q3_K_M", Body: 3.86, Output: bitsQ6K},
		{Name: "Q3_K_L", Body: 4.14, Output: bitsQ6K},
		{Name: "IQ4_XS", Body: 4.31, Output: bitsQ6K},
		{Name: "Q4_0", Body: 4.5, Output: bitsQ6K},
		{Name: "Q4_1", Body: 5, Output: bitsQ6K},
		{Name: "Q4_K_S", Body: 4.54, Output: bitsQ6K},
		{Name: "Q4_K_M", Body: 4.79, Output: bitsQ6K},
		{Name: "Q5_0", Body: 5.5, Output: bitsQ6K},
		{Name: "Q5_K_S", Body: 5.5, Output: bitsQ6K},
		{Name: "Q5_K_M", Body: 5.64, Output: bitsQ6K},
		{Name: "Q6_K", Body: bitsQ6K, Output: bitsQ6K},
		{Name: "Q8_0", Body: 8.5, Output: 8.5},
		{Name: "AWQ", Body: 4.16, Output: 16, Embedding: 16},
		{Name: "GPTQ-Int4", Body: 4.16, Output: 16, Embedding: 16},
		{Name: "FP8", Body: 8, Output: 16, Embedding: 16},
		{Name: "F16", Body: 16, Output: 16},
		{Name: "BF16", Body: 16, Output: 16},
	}
}

// quantizationOf finds a format by its name, in any case.
func quantizationOf(name string) (Quantization, bool) {
	for _, q := range quantizations() {
		if strings.EqualFold(q.Name, name) {
			return q, true
		}
	}
	return Quantization{}, false
}

// quantizationNames lists the formats, for an error.
func quantizationNames() string {
	var names []string
	for _, q := range quantizations() {
		names = append(names, q.Name)
	}
	return strings.Join(names, ", ")
}

// WeightBytes is how large the weights are, on disk and in memory.
func (m Model) WeightBytes() (int64, error) {
	q, ok := quantizationOf(m.Quantization)
	if !ok {
		return 0, fmt.Errorf("quantization %q is not known; known are %s", m.Quantization, quantizationNames())
	}
	if !(m.Parameters > 0) {
		return 0, fmt.Errorf("the parameters of %s are not known", m.Name)
	}
	tensor := float64(m.Hidden) * float64(m.Vocab)
	body, bits := m.Parameters-tensor, tensor*q.Output
	if q.Embedding > 0 && !m.Tied {
		body -= tensor
		bits += tensor * q.Embedding
	}
	if body < 0 {
		return 0, fmt.Errorf("hidden × vocab of %s are more than its parameters", m.Name)
	}
	return int64(math.Round((body*q.Body + bits) / 8)), nil
}

// TokenBytes is what one token takes in the KV cache: a key and a value for each head
// of each layer.
func (m Model) TokenBytes(dtype string) (int64, error) {
	bytes, ok := cacheBytes[dtype]
	if !ok {
		return 0, fmt.Errorf("a KV cache of %q is not known; known are f16, q8_0, fp8, q4_0", dtype)
	}
	if m.Layers <= 0 || m.KVHeads <= 0 || m.HeadDim <= 0 {
		return 0, fmt.Errorf("layers, kv_heads and head_dim of %s are not known", m.Name)
	}
	return int64(math.Ceil(2 * float64(m.Layers) * float64(m.KVHeads) * float64(m.HeadDim) * bytes)), nil
}

// cacheBytes are the bytes of one number in the KV cache; llama.cpp's types are
// blocks of 32 with a scale.
var cacheBytes = map[string]float64{"f16": 2, "q8_0": 34.0 / 32, "fp8": 1, "q4_0": 18.0 / 32}
