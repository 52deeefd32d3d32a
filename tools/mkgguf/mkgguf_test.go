package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
)

func tiny() Shape {
	return Shape{Layers: 2, Hidden: 64, Heads: 4, Context: 2048, Words: 256, Weights: F16, Seed: 1}
}

func written(t *testing.T, s Shape) []byte {
	t.Helper()
	m, err := NewModel(s)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	n, err := m.WriteTo(&b)
	if err != nil {
		t.Fatal(err)
	}
	if n != int64(b.Len()) {
		t.Fatalf("WriteTo says %d bytes, wrote %d", n, b.Len())
	}
	return b.Bytes()
}

// header is what the test reads back, with a reader that shares no code with
// the writer.
type header struct {
	keys    map[string]any
	tensors []tensorInfo
	data    int64 // where the tensors' data starts
}

type tensorInfo struct {
	name   string
	dims   []uint64
	typ    uint32
	offset uint64
}

func (t tensorInfo) bytes() uint64 {
	n := uint64(1)
	for _, d := range t.dims {
		n *= d
	}
	switch t.typ {
	case 0:
		return n * 4
	case 1:
		return n * 2
	}
	return n / 32 * 34
}

func readHeader(b []byte) (h header, err error) {
	r := bytes.NewReader(b)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("reading: %v", p)
		}
	}()
	read := func(v any) {
		if err := binary.Read(r, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
	u32 := func() (v uint32) { read(&v); return }
	u64 := func() (v uint64) { read(&v); return }
	str := func() string {
		s := make([]byte, u64())
		if _, err := io.ReadFull(r, s); err != nil {
			panic(err)
		}
		return string(s)
	}
	var scalar func(kind uint32) any
	scalar = func(kind uint32) any {
		switch kind {
		case 4:
			return u32()
		case 5:
			return int32(u32())
		case 6:
			return math.Float32frombits(u32())
		case 7:
			c, _ := r.ReadByte()
			return c == 1
		case 8:
			return str()
		case 9:
			of, n := u32(), u64()
			var list []any
			for range n {
				list = append(list, scalar(of))
			}
			return list
		}
		panic(fmt.Sprintf("value type %d", kind))
	}
	magic := make([]byte, 4)
	read(magic)
	if v := u32(); string(magic) != "GGUF" || v != 3 {
		return h, fmt.Errorf("magic %q, version %d", magic, v)
	}
	tensors, pairs := u64(), u64()
	h.keys = map[string]any{}
	for range pairs {
		k := str()
		h.keys[k] = scalar(u32())
	}
	for range tensors {
		t := tensorInfo{name: str(), dims: make([]uint64, u32())}
		read(t.dims)
		t.typ, t.offset = u32(), u64()
		h.tensors = append(h.tensors, t)
	}
	at := int64(len(b)) - int64(r.Len())
	h.data = (at + 31) / 32 * 32
	return h, nil
}

func TestHeaderReadsBack(t *testing.T) {
	for _, weights := range []Type{F32, F16, Q8} {
		t.Run(fmt.Sprint(weights), func(t *testing.T) {
			s := tiny()
			s.Weights = weights
			s.KVHeads = 2
			b := written(t, s)
			h, err := readHeader(b)
			if err != nil {
				t.Fatal(err)
			}
			for k, want := range map[string]any{
				"general.architecture":          "llama",
				"llama.block_count":             uint32(2),
				"llama.embedding_length":        uint32(64),
				"llama.feed_forward_length":     uint32(192),
				"llama.attention.head_count_kv": uint32(2),
				"llama.rope.dimension_count":    uint32(16),
				"llama.vocab_size":              uint32(259 + 256),
				"tokenizer.ggml.eos_token_id":   uint32(257),
				"tokenizer.ggml.add_bos_token":  true,
			} {
				if got := h.keys[k]; got != want {
					t.Errorf("%s = %v, want %v", k, got, want)
				}
			}
			tokens := h.keys["tokenizer.ggml.tokens"].([]any)
			kinds := h.keys["tokenizer.ggml.token_type"].([]any)
			if len(tokens) != 515 || len(kinds) != 515 {
				t.Errorf("%d tokens, %d kinds, want 515", len(tokens), len(kinds))
			}
			if tokens[257] != "<|eos|>" || kinds[257] != int32(3) {
				t.Errorf("token 257 is %v of kind %v", tokens[257], kinds[257])
			}
			if want := 3 + 9*2; len(h.tensors) != want {
				t.Errorf("%d tensors, want %d", len(h.tensors), want)
			}
			// The data of the tensors must tile the rest of the file.
			var end uint64
			for _, ti := range h.tensors {
				if want := (end + 31) / 32 * 32; ti.offset != want {
					t.Errorf("%s at offset %d, want %d", ti.name, ti.offset, want)
				}
				end = ti.offset + ti.bytes()
			}
			if want := h.data + int64((end+31)/32*32); int64(len(b)) != want {
				t.Errorf("file has %d bytes, its header says %d", len(b), want)
			}
		})
	}
}

// The output layer is what makes a reply run to the length that was asked for.
func TestOnlyWordsHaveLogits(t *testing.T) {
	s := tiny()
	s.Weights = F32
	b := written(t, s)
	h, err := readHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	last := h.tensors[len(h.tensors)-1]
	if last.name != "output.weight" {
		t.Fatalf("last tensor is %s", last.name)
	}
	data := b[h.data+int64(last.offset):]
	for row := range int(last.dims[1]) {
		zero := true
		for _, c := range data[row*64*4 : (row+1)*64*4] {
			zero = zero && (c == 0 || c == 0x80) // minus zero is zero
		}
		if zero != (row < 259) {
			t.Fatalf("row %d of output.weight: all zero is %v", row, zero)
		}
	}
}

func TestSameSeedSameBytes(t *testing.T) {
	a, b := written(t, tiny()), written(t, tiny())
	if !bytes.Equal(a, b) {
		t.Error("two models of one seed differ")
	}
	other := tiny()
	other.Seed = 2
	if bytes.Equal(a, written(t, other)) {
		t.Error("another seed gives the same bytes")
	}
}

func TestShapesThatCannotBe(t *testing.T) {
	for name, change := range map[string]func(*Shape){
		"no layers":          func(s *Shape) { s.Layers = 0 },
		"odd head":           func(s *Shape) { s.Heads = 64 },
		"uneven heads":       func(s *Shape) { s.Heads = 5 },
		"uneven shared":      func(s *Shape) { s.KVHeads = 3 },
		"negative ffn":       func(s *Shape) { s.FFN = -1 },
		"q8 not in blocks":   func(s *Shape) { s.Weights, s.Hidden = Q8, 40 },
		"no words":           func(s *Shape) { s.Words = 0 },
		"more words than be": func(s *Shape) { s.Words = mostWords + 1 },
	} {
		t.Run(name, func(t *testing.T) {
			s := tiny()
			change(&s)
			if _, err := NewModel(s); err == nil {
				t.Errorf("%+v was accepted", s)
			}
		})
	}
}

func TestNoTokenTwice(t *testing.T) {
	tokens, _, err := vocabulary(mostWords)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]int, len(tokens))
	for i, s := range tokens {
		if j, ok := seen[s]; ok {
			t.Fatalf("token %q is both %d and %d", s, j, i)
		}
		seen[s] = i
	}
}

func TestHalf(t *testing.T) {
	for _, c := range []struct {
		in   float32
		want uint16
	}{
		{0, 0x0000}, {1, 0x3c00}, {-2, 0xc000}, {0.5, 0x3800}, {65504, 0x7bff},
		{1e6, 0x7bff}, {float32(math.Inf(-1)), 0xfbff},
		{1.0 / 3, 0x3555},
		{1 + 1.0/2048, 0x3c00}, {1 + 3.0/2048, 0x3c02}, // ties to even
		{1.9999, 0x4000},           // carries into the exponent
		{6.103515625e-05, 0x0400},  // smallest normal
		{5.9604644775e-08, 0x0001}, // smallest subnormal
		{6.1e-05, 0x03ff}, {1e-09, 0x0000},
	} {
		if got := half(c.in); got != c.want {
			t.Errorf("half(%g) = %#04x, want %#04x", c.in, got, c.want)
		}
	}
}

func TestQ8(t *testing.T) {
	row := make([]float32, 32)
	row[0], row[1], row[2] = 127, -127, 1.4
	dst := make([]byte, 34)
	Q8.encode(dst, row)
	if got := binary.LittleEndian.Uint16(dst); got != 0x3c00 {
		t.Errorf("scale is %#04x, want 1", got)
	}
	if q := []int8{int8(dst[2]), int8(dst[3]), int8(dst[4]), int8(dst[5])}; q[0] != 127 || q[1] != -127 || q[2] != 1 || q[3] != 0 {
		t.Errorf("weights are %v", q)
	}
}

// A failed write must leave what was there, and nothing beside it.
func TestReplaceFileKeepsTheOld(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := replaceFile(path, func(w io.Writer) (int64, error) {
		_, _ = w.Write([]byte("new"))
		return 3, io.ErrClosedPipe
	})
	if err == nil {
		t.Fatal("no error")
	}
	if b, _ := os.ReadFile(path); string(b) != "old" {
		t.Errorf("file is %q", b)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("%d files left", len(list))
	}
}
