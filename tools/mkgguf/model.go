package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
)

// Shape says how large a model is. FFN and KVHeads may be zero: the usual
// proportion. EOSScale zero means that a reply practically never ends by itself.
type Shape struct {
	Layers, Hidden, FFN, Heads, KVHeads, Context, Words int

	Weights  Type
	Seed     uint64
	EOSScale float64
}

// Model is a llama of a shape, ready to be written.
type Model struct {
	pairs   []Pair
	tensors []Tensor
	tokens  int
}

// chatTemplate joins the contents, a line each: a model without one is given
// some engine's default, whose markers this vocabulary would read byte by byte.
const chatTemplate = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"

// wordScale spreads the words' logits: large enough that sampling differs from
// a uniform draw, and that words stand above bytes, whose logits are all zero.
const wordScale = 4

// NewModel lays out a model and refuses shapes that engines cannot load.
func NewModel(s Shape) (*Model, error) {
	if s.FFN == 0 {
		s.FFN = (s.Hidden*8/3 + 63) / 64 * 64
	}
	if s.KVHeads == 0 {
		s.KVHeads = s.Heads
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	tokens, kinds, err := vocabulary(s.Words)
	if err != nil {
		return nil, err
	}
	head := s.Hidden / s.Heads
	return &Model{
		tokens: len(tokens),
		pairs: []Pair{
			{"general.architecture", "llama"},
			{"general.name", "assay-random"},
			{"general.file_type", s.Weights.fileType()},
			{"llama.block_count", uint32(s.Layers)},
			{"llama.context_length", uint32(s.Context)},
			{"llama.embedding_length", uint32(s.Hidden)},
			{"llama.feed_forward_length", uint32(s.FFN)},
			{"llama.attention.head_count", uint32(s.Heads)},
			{"llama.attention.head_count_kv", uint32(s.KVHeads)},
			{"llama.attention.layer_norm_rms_epsilon", float32(1e-5)},
			{"llama.rope.freq_base", float32(10000)},
			{"llama.rope.dimension_count", uint32(head)},
			{"llama.vocab_size", uint32(len(tokens))},
			{"tokenizer.ggml.model", "gpt2"},
			// This pre-tokenizer looks a whole word up before it merges, so the
			// words need no merges. The list must not be empty all the same.
			{"tokenizer.ggml.pre", "llama-bpe"},
			{"tokenizer.ggml.tokens", tokens},
			{"tokenizer.ggml.token_type", kinds},
			{"tokenizer.ggml.merges", []string{spaceToken + " b"}},
			{"tokenizer.ggml.bos_token_id", uint32(tokenBOS)},
			{"tokenizer.ggml.eos_token_id", uint32(tokenEOS)},
			{"tokenizer.ggml.padding_token_id", uint32(tokenPad)},
			{"tokenizer.ggml.add_bos_token", true},
			{"tokenizer.chat_template", chatTemplate},
		},
		tensors: s.tensors(len(tokens), head),
	}, nil
}

func (s Shape) check() error {
	for _, f := range []struct {
		name string
		n    int
	}{
		{"layers", s.Layers}, {"hidden", s.Hidden}, {"ffn", s.FFN},
		{"heads", s.Heads}, {"kvheads", s.KVHeads}, {"ctx", s.Context},
	} {
		if f.n < 1 {
			return fmt.Errorf("%s is %d: must be at least 1", f.name, f.n)
		}
	}
	switch {
	case s.Hidden%s.Heads != 0 || s.Hidden/s.Heads%2 != 0:
		return fmt.Errorf("hidden %d over %d heads: must give an even number for each", s.Hidden, s.Heads)
	case s.Heads%s.KVHeads != 0:
		return fmt.Errorf("%d heads cannot share %d key and value heads evenly", s.Heads, s.KVHeads)
	case s.Weights == Q8 && (s.Hidden%q8Block != 0 || s.FFN%q8Block != 0):
		return fmt.Errorf("hidden %d and ffn %d: q8_0 needs multiples of %d", s.Hidden, s.FFN, q8Block)
	}
	return nil
}

func (s Shape) tensors(tokens, head int) []Tensor {
	var list []Tensor
	// Each tensor draws from a stream of its own: a layer more does not change
	// the layers before it.
	draw := func() *rand.Rand { return rand.New(rand.NewPCG(s.Seed, uint64(len(list)))) }
	scale := func(name string) { // a norm's scale: all ones
		list = append(list, Tensor{name, []int{s.Hidden}, F32, func(_ int, out []float32) {
			for i := range out {
				out[i] = 1
			}
		}})
	}
	matrix := func(name string, in, out int, deviation func(row int) float64) {
		r := draw()
		list = append(list, Tensor{name, []int{in, out}, s.Weights, func(row int, out []float32) {
			d := deviation(row)
			for i := range out {
				out[i] = float32(r.NormFloat64() * d)
			}
		}})
	}
	// linear keeps the variance of what passes through, whatever the width.
	linear := func(name string, in, out int) {
		matrix(name, in, out, func(int) float64 { return 1 / math.Sqrt(float64(in)) })
	}

	matrix("token_embd.weight", s.Hidden, tokens, func(int) float64 { return 1 })
	for l := range s.Layers {
		block := fmt.Sprintf("blk.%d.", l)
		scale(block + "attn_norm.weight")
		linear(block+"attn_q.weight", s.Hidden, s.Hidden)
		linear(block+"attn_k.weight", s.Hidden, head*s.KVHeads)
		linear(block+"attn_v.weight", s.Hidden, head*s.KVHeads)
		linear(block+"attn_output.weight", s.Hidden, s.Hidden)
		scale(block + "ffn_norm.weight")
		linear(block+"ffn_gate.weight", s.Hidden, s.FFN)
		linear(block+"ffn_up.weight", s.Hidden, s.FFN)
		linear(block+"ffn_down.weight", s.FFN, s.Hidden)
	}
	scale("output_norm.weight")
	matrix("output.weight", s.Hidden, tokens, func(row int) float64 {
		switch {
		case row == tokenEOS:
			return s.EOSScale / math.Sqrt(float64(s.Hidden))
		case row < firstWord:
			return 0
		}
		return wordScale / math.Sqrt(float64(s.Hidden))
	})
	return list
}

// WriteTo writes the model. A model is written once: its weights are drawn on
// the way.
func (m *Model) WriteTo(w io.Writer) (int64, error) { return writeGGUF(w, m.pairs, m.tensors) }

// Parameters counts the weights.
func (m *Model) Parameters() int64 {
	var n int64
	for _, t := range m.tensors {
		n += int64(t.rows()) * int64(t.Dims[0])
	}
	return n
}

// Vocabulary counts the tokens.
func (m *Model) Vocabulary() int { return m.tokens }
