package fingerprint

import (
	"encoding/json"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// model is an engine whose log-probabilities are made up: the same for the same
// weights and text, but for noise that is new in each answer, with heavy tails as
// differences of real engines have.
type model struct {
	weights uint64
	noise   float64
	moved   float64 // how far another model's log-probabilities are away
	share   float64 // of the prompts that another model answers
	plain   bool    // it echoes no prompt

	mu  sync.Mutex
	rng *rand.Rand
}

func (m *model) logProbs(prompt string) (tokens []string, out []*float64) {
	h := fnv.New64a()
	h.Write([]byte(prompt))
	truth := rand.New(rand.NewPCG(m.weights, h.Sum64()))
	m.mu.Lock()
	defer m.mu.Unlock()
	other := m.rng.Float64() < m.share
	size := m.noise * (0.5 + m.rng.Float64())
	for i, w := range strings.SplitAfter(prompt, " ") {
		v := -10 * truth.Float64()
		if other {
			v += m.moved * m.rng.NormFloat64()
		}
		if m.rng.Float64() < 0.02 {
			v += 10 * size * m.rng.NormFloat64()
		}
		v = min(0, v+size*m.rng.NormFloat64())
		tokens, out = append(tokens, w), append(out, &v)
		if i == 0 {
			out[0] = nil
		}
	}
	return tokens, out
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/version" {
		_, _ = w.Write([]byte(`{"version":"1.2.3"}`))
		return
	}
	var q completion
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.URL.Path != "/v1/completions" || !q.Echo || q.MaxTokens != 1 {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	tokens, probs := m.logProbs(q.Prompt)
	n := len(tokens)
	last := -1.0
	tokens, probs = append(tokens, "end"), append(probs, &last)
	if m.plain {
		tokens, probs = tokens[n:], probs[n:]
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"choices": []any{map[string]any{"logprobs": map[string]any{"tokens": tokens, "token_logprobs": probs}}},
		"usage":   map[string]any{"prompt_tokens": n},
	})
}

func (m *model) start(t *testing.T) *Engine {
	t.Helper()
	m.rng = rand.New(rand.NewPCG(7, m.weights))
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	return &Engine{Client: s.Client(), URL: s.URL, Model: "made-up"}
}

// reference records an honest engine.
func reference(t *testing.T, m *model, prompts int) *Reference {
	t.Helper()
	r := New("made-up", Prompts([32]byte{1}, prompts), time.Now())
	if err := r.Record(t.Context(), m.start(t), "honest", 8, time.Now(), func(int) {}); err != nil {
		t.Fatal(err)
	}
	return r
}
