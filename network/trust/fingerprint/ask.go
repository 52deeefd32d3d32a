package fingerprint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"

	"github.com/assay-bench/assay/internal/foreign"
)

// ErrNone marks an engine that answers and gives no log-probabilities of a prompt.
// Asking again does not help: llama.cpp and Ollama give those of what they write
// only, and some servers have them switched off.
var ErrNone = errors.New("the engine gives no log-probabilities of a prompt")

const maxAnswer = 8 << 20

// Engine is one that is asked by the OpenAI-compatible API.
type Engine struct {
	Client *http.Client
	URL    string // without /v1
	Model  string
	Key    string // a bearer token; empty: none
}

// completion is a request: one token is written, as the API knows no answer without
// any, and the prompt comes back with its log-probabilities.
type completion struct {
	Model       string  `json:"model"`
	Prompt      string  `json:"prompt"`
	MaxTokens   int     `json:"max_tokens"`
	Temperature float64 `json:"temperature"`
	LogProbs    int     `json:"logprobs"`
	Echo        bool    `json:"echo"`
}

type completed struct {
	Choices []struct {
		LogProbs *struct {
			Tokens   []string   `json:"tokens"`
			LogProbs []*float64 `json:"token_logprobs"`
		} `json:"logprobs"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens int `json:"prompt_tokens"`
	} `json:"usage"`
}

// Ask gives the last tokens of a prompt and their log-probabilities.
func (e *Engine) Ask(ctx context.Context, prompt string) (tokens []string, logProbs []float32, err error) {
	body, err := json.Marshal(completion{Model: e.Model, Prompt: prompt, MaxTokens: 1, LogProbs: 1, Echo: true})
	if err != nil {
		return nil, nil, err
	}
	b, err := e.do(ctx, http.MethodPost, "/v1/completions", body)
	if err != nil {
		return nil, nil, err
	}
	var c completed
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, nil, fmt.Errorf("%w: its answer is none of the completions API: %s", ErrNone, foreign.Line(err.Error(), 200))
	}
	if len(c.Choices) != 1 || c.Choices[0].LogProbs == nil || c.Usage == nil {
		return nil, nil, ErrNone
	}
	l := c.Choices[0].LogProbs
	return compared(l.Tokens, l.LogProbs, c.Usage.PromptTokens)
}

// compared are the tokens of a prompt that count. Its first has no log-probability,
// and what follows the prompt was written by the engine.
func compared(tokens []string, logProbs []*float64, prompt int) ([]string, []float32, error) {
	if prompt < 2 || len(tokens) < prompt || len(logProbs) != len(tokens) {
		return nil, nil, ErrNone
	}
	from := max(1, prompt-MaxTokens)
	out := make([]float32, 0, prompt-from)
	for _, v := range logProbs[from:prompt] {
		if v == nil || !(*v <= 0) || math.IsInf(float64(float32(*v)), 0) {
			return nil, nil, fmt.Errorf("%w: what it gives is none", ErrNone)
		}
		out = append(out, float32(*v))
	}
	return tokens[from:prompt], out, nil
}

// Version is what the engine calls itself, as far as it does.
func (e *Engine) Version(ctx context.Context) string {
	b, err := e.do(ctx, http.MethodGet, "/version", nil)
	var v struct {
		Version string `json:"version"`
	}
	if err != nil || json.Unmarshal(b, &v) != nil {
		return ""
	}
	return foreign.Line(v.Version, 100)
}

func (e *Engine) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(e.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if e.Key != "" {
		r.Header.Set("Authorization", "Bearer "+e.Key)
	}
	resp, err := e.Client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxAnswer:
		return nil, fmt.Errorf("%w: its answer is longer than %d bytes", ErrNone, maxAnswer)
	case resp.StatusCode >= 400 && resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests:
		return nil, fmt.Errorf("%w: %s: %s", ErrNone, resp.Status, foreign.Line(b, 200))
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", resp.Status, foreign.Line(b, 200))
	}
	return b, nil
}

// ask asks for the prompts at these places, some at once. The first error ends it.
func (e *Engine) ask(ctx context.Context, prompts []string, concurrency int) ([]Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := make([]Answer, len(prompts))
	next := make(chan int)
	var all sync.WaitGroup
	for range max(1, concurrency) {
		all.Go(func() {
			for i := range next {
				tokens, logProbs, err := e.Ask(ctx, prompts[i])
				if err != nil {
					cancel(err)
					return
				}
				out[i] = Answer{Prompt: i, Tokens: tokens, LogProbs: logProbs}
			}
		})
	}
feed:
	for i := range prompts {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	all.Wait()
	return out, context.Cause(ctx)
}
