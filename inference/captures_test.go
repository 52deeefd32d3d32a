package inference

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// captureIndex says what was asked of a real engine, and what it counted.
type captureIndex struct {
	Engine string
	Files  []struct {
		File, Path, Request string
		Tokens              *int
	}
}

// Streams of real engines, as they were on the wire: each has the tokens that
// the engine itself counted, no token is invented, and it reads the same whole,
// a byte at a time and in any pieces.
func TestCaptures(t *testing.T) {
	indexes, err := filepath.Glob(filepath.Join("..", "testdata", "wire", "*", "index.json"))
	if err != nil || len(indexes) < 4 {
		t.Fatalf("%v %v", indexes, err)
	}
	seen := 0
	for _, path := range indexes {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var index captureIndex
		if err := json.Unmarshal(b, &index); err != nil {
			t.Fatal(err)
		}
		for _, f := range index.Files {
			backend, ok := map[string]Backend{
				"/v1/chat/completions": OpenAIChat, "/v1/completions": OpenAI, "/api/generate": Ollama, "/api/chat": OllamaChat,
			}[f.Path]
			if !ok || !strings.Contains(f.File, "-stream") || f.Tokens == nil {
				continue
			}
			seen++
			t.Run(filepath.Base(filepath.Dir(path))+"/"+f.File, func(t *testing.T) {
				reply, err := os.ReadFile(filepath.Join(filepath.Dir(path), f.File))
				if err != nil {
					t.Fatal(err)
				}
				capture(t, backend, f.Request, reply, *f.Tokens)
			})
		}
	}
	if seen < 30 {
		t.Errorf("only %d captures", seen)
	}
}

func capture(t *testing.T, backend Backend, request string, reply []byte, tokens int) {
	var asked struct{ Prompt any }
	if err := json.Unmarshal([]byte(request), &asked); err != nil {
		t.Fatal(err)
	}
	job := &Job{}
	if list, ok := asked.Prompt.([]any); ok {
		job.Prompts = make([]string, len(list))
	}
	c := offline(t, backend)
	whole := func() int { return len(reply) }
	_, habits := parseJob(c, job, reply, whole)
	for _, counting := range []bool{false, habits.CountsEach} {
		c.Tune(Tuning{Counting: counting})
		r, _ := parseJob(c, job, reply, whole)
		if !r.OK() {
			t.Fatalf("%s %s", r.Error, r.Detail)
		}
		sum := 0
		for i := range len(r.Gaps) + 1 {
			if r.ChunkTokens == nil {
				sum++
			} else {
				sum += int(r.ChunkTokens[i])
			}
		}
		if r.TokensFrom == "usage" && (r.OutputTokens != tokens || sum != tokens) {
			t.Errorf("counting %v: %d tokens, %d in chunks, the engine counted %d", counting, r.OutputTokens, sum, tokens)
		}
		if r.TokensFrom == "chunks" && r.OutputTokens > tokens {
			t.Errorf("%d visible chunks of %d tokens", r.OutputTokens, tokens)
		}
		if counting && r.Unplaced > 0 {
			t.Errorf("counting in each chunk, and %d tokens were in none", r.Unplaced)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for name, piece := range map[string]func() int{"bytes": func() int { return 1 }, "pieces": func() int { return 1 + rng.IntN(300) }} {
			if got, _ := parseJob(c, job, reply, piece); !reflect.DeepEqual(got, r) {
				t.Errorf("by %s:\n%+v\nwhole:\n%+v", name, got, r)
			}
		}
	}
}
