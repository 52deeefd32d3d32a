// Mkgguf writes a llama model with random weights as a GGUF file, so that tests
// can run a real engine without fetching a model from anywhere.
//
// It promises that the same flags give the same bytes, that the model says
// readable words, and that it practically never ends a reply by itself: the
// length of the output is what the request asked for. It does not promise
// sense. The cost of a token depends on the shape alone, so a random model is
// as good to measure as a trained one of its size.
//
//	$ go run ./tools/mkgguf -layers 8 -hidden 512 -heads 8 -words 2000 -o mid.gguf
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	var s Shape
	var out, weights string
	flag.IntVar(&s.Layers, "layers", 2, "number of transformer blocks")
	flag.IntVar(&s.Hidden, "hidden", 64, "embedding length")
	flag.IntVar(&s.FFN, "ffn", 0, "feed-forward length (0: hidden*8/3, rounded up to a multiple of 64)")
	flag.IntVar(&s.Heads, "heads", 4, "attention heads")
	flag.IntVar(&s.KVHeads, "kvheads", 0, "key and value heads (0: as many as heads)")
	flag.IntVar(&s.Context, "ctx", 2048, "context length in tokens")
	flag.IntVar(&s.Words, "words", 256, "words in the vocabulary, beside 256 bytes and 3 specials")
	flag.Uint64Var(&s.Seed, "seed", 1, "seed of the weights")
	flag.Float64Var(&s.EOSScale, "eos", 0, "how strongly the model may end its reply (0: practically never; 4: as likely as any word)")
	flag.StringVar(&weights, "type", "f16", "type of the weights: f32, f16 or q8_0")
	flag.StringVar(&out, "o", "tiny.gguf", "file to write")
	flag.Parse()

	if err := run(s, weights, out); err != nil {
		fmt.Fprintln(os.Stderr, "mkgguf:", err)
		os.Exit(1)
	}
}

func run(s Shape, weights, out string) error {
	var err error
	if s.Weights, err = ParseType(weights); err != nil {
		return err
	}
	m, err := NewModel(s)
	if err != nil {
		return err
	}
	n, err := replaceFile(out, func(w io.Writer) (int64, error) { return m.WriteTo(w) })
	if err != nil {
		return fmt.Errorf("writing %s: %w", out, err)
	}
	fmt.Printf("%s: %.2f M parameters, %d tokens in the vocabulary, %d bytes\n",
		out, float64(m.Parameters())/1e6, m.Vocabulary(), n)
	return nil
}

// replaceFile writes a file beside path and moves it there when it is whole: a
// half-written model in a cache would fail every later run.
func replaceFile(path string, write func(io.Writer) (int64, error)) (n int64, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".mkgguf-*")
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriterSize(f, 1<<20)
	if n, err = write(w); err != nil {
		return n, err
	}
	if err = w.Flush(); err != nil {
		return n, err
	}
	if err = f.Chmod(0o644); err != nil {
		return n, err
	}
	if err = f.Close(); err != nil {
		return n, err
	}
	return n, os.Rename(f.Name(), path)
}
