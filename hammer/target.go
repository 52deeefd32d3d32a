package hammer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/assay-bench/assay/inference"
	"github.com/assay-bench/assay/internal/clock"
)

// Ports are where engines usually listen, in the order in which they are
// tried: Ollama, vLLM, llama.cpp, SGLang, LM Studio.
func Ports() []int { return []int{11434, 8000, 8080, 30000, 1234} }

var (
	// ErrNoEngine means that no engine answered. Start one, or give its address.
	ErrNoEngine = errors.New("no engine answered")
	// ErrNoModel means that the engine does not serve the model. Load it, or name
	// one of those that the error lists.
	ErrNoModel = errors.New("the engine does not serve the model")
)

// Find looks for an engine on the ports of this machine where they usually
// listen, and gives the first that answers.
func Find(ctx context.Context, ports []int) (string, error) {
	found := make([]bool, len(ports))
	url := func(i int) string { return fmt.Sprintf("http://127.0.0.1:%d", ports[i]) }
	var wg sync.WaitGroup
	for i := range ports {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_, err := inference.Discover(ctx, url(i), inference.DiscoverOptions{})
			found[i] = err == nil
		})
	}
	wg.Wait()
	for i, ok := range found {
		if ok {
			return url(i), nil
		}
	}
	names := make([]string, len(ports))
	for i, p := range ports {
		names[i] = fmt.Sprint(p)
	}
	return "", fmt.Errorf("%w on ports %s of this machine; start one (assay simulate is one), or give its address with --base-url", ErrNoEngine, strings.Join(names, ", "))
}

// Resolve fills in what the engine itself must tell: which dialect it speaks
// and which model it serves. It waits for the engine if the configuration says so.
func Resolve(ctx context.Context, c *Config) error {
	// What follows repeats the address in its messages.
	if err := inference.CheckURL(c.URL); err != nil {
		return err
	}
	config, err := c.tls()
	if err != nil {
		return err
	}
	ask := inference.DiscoverOptions{APIKey: c.APIKey, Headers: c.Headers, TLS: config}
	const pause = time.Second
	found, err := backoff.Retry(ctx, func() (inference.Found, error) { return inference.Discover(ctx, c.URL, ask) },
		backoff.WithBackOff(backoff.NewConstantBackOff(pause)), backoff.WithMaxElapsedTime(time.Duration(c.ReadyCheck)+pause))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		// An engine that lists nothing may still answer, if it is told what to ask.
		if c.Backend != "" && c.Model != "" {
			return nil
		}
		next := ""
		if errors.Is(err, syscall.ECONNREFUSED) {
			next = "; nothing listens there: start it, give another --base-url, or wait for it with --ready-check-timeout-sec"
		}
		return fmt.Errorf("%w at %s: %w%s", ErrNoEngine, c.URL, err, next)
	}
	c.engineVersion = found.Version
	if c.Backend == "" {
		c.Backend = string(found.Backend)
	}
	if c.Model == "" {
		if len(found.Models) == 0 {
			return fmt.Errorf("the engine at %s lists no model; load one, or name it with --model", c.URL)
		}
		c.Model = found.Models[0]
	}
	c.engineModel = sizeOf(c.Model, found)
	return served(c.URL, c.Model, found)
}

func (c *Config) client(cl *clock.Clock) (inference.Config, error) {
	config, err := c.tls()
	return inference.Config{
		URL: c.URL, Backend: inference.Backend(c.Backend), Endpoint: c.Endpoint, Model: c.Model,
		Headers: c.Headers, APIKey: c.APIKey, TLS: config,
		Fresh: c.Connection == ConnectionFresh,
		Timeouts: inference.Timeouts{
			Connect: time.Duration(c.Timeouts.Connect), FirstToken: time.Duration(c.Timeouts.FirstToken),
			Gap: time.Duration(c.Timeouts.Gap), Total: time.Duration(c.Timeouts.Total),
		},
		UserClock: c.UserClock, KeepText: c.KeepText, Clock: cl,
	}, err
}

// extra is what goes into every request's body besides the prompt: sampling,
// and above it whatever --extra-body says. Ollama takes its options in an
// object of their own.
func (c *Config) extra() (json.RawMessage, error) {
	s := c.Sampling
	s.IgnoreEOS = false // the client's own, where the dialect has it
	if inference.Backend(c.Backend) != inference.OpenAI {
		s.Logprobs = nil // a number of them is asked of completions only
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	body := map[string]any{}
	if err := json.Unmarshal(b, &body); err != nil {
		return nil, err
	}
	if strings.HasPrefix(c.Backend, "ollama") && len(body) > 0 {
		if p, ok := body["repetition_penalty"]; ok {
			body["repeat_penalty"] = p
			delete(body, "repetition_penalty")
		}
		body = map[string]any{"options": body}
	}
	if len(c.Extra) > 0 {
		var over map[string]any
		if err := json.Unmarshal(c.Extra, &over); err != nil {
			return nil, fmt.Errorf("--extra-body: %w", err)
		}
		// Ollama's options are one object: what --extra-body says of it is merged.
		options, ours := body["options"].(map[string]any)
		if theirs, ok := over["options"].(map[string]any); ours && ok {
			maps.Copy(options, theirs)
			delete(over, "options")
		}
		maps.Copy(body, over)
	}
	if len(body) == 0 {
		return nil, nil
	}
	return json.Marshal(body)
}
