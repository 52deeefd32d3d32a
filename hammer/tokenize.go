package hammer

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
	"time"
)

// Bounds on what is asked of an engine's /tokenize before the load, and on what
// is taken from it.
const (
	maxTokenizeCalls  = 1024
	maxTokenizeText   = 256 << 10 // bytes of one text; a longer one is estimated
	maxTokenizeBytes  = 32 << 20  // of all texts
	maxTokenizeAnswer = 4 << 20
	tokenizePatience  = 10 * time.Second // for one text
	tokenizeTime      = 30 * time.Second // for all
	tokenizeStreams   = 4
)

var (
	errNoTokenizer = errors.New("the engine has no /tokenize")
	errTokenBudget = errors.New("enough was asked of the engine's /tokenize")
)

// tokenizer has the engine count the tokens of texts.
type tokenizer struct {
	url    string
	model  string
	header http.Header
	client *http.Client
	llama  bool // llama.cpp's words for it; else vLLM's

	mu           sync.Mutex
	calls, spent int
}

// openTokenizer looks whether the engine counts tokens for us, as vLLM, SGLang
// and llama.cpp do. short and long are texts of which it said in usage that
// they differ by so many tokens: an answer that differs from that is another
// model's, and not used.
func (c *Config) openTokenizer(ctx context.Context, short, long string, differ float64) (*tokenizer, error) {
	config, err := c.tls()
	if err != nil {
		return nil, err
	}
	t := &tokenizer{
		url: strings.TrimSuffix(strings.TrimRight(c.URL, "/"), "/v1") + "/tokenize", model: c.Model, header: c.engineHeader(),
		client: &http.Client{
			Transport: &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: tokenizeStreams, MaxResponseHeaderBytes: 64 << 10},
			Timeout:   tokenizePatience,
			// Who was asked answers, or nobody does.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	a, err := t.count(ctx, short)
	if errors.Is(err, errNoTokenizer) {
		t.llama = true
		a, err = t.count(ctx, short)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	b, err := t.count(ctx, long)
	if err != nil {
		t.close()
		return nil, err
	}
	if off := float64(b-a) - differ; differ > 0 && math.Abs(off) > max(2, 0.02*differ) {
		t.close()
		return nil, fmt.Errorf("the engine's /tokenize counts %d tokens where its usage says %.0f: it is of another model", b-a, differ)
	}
	return t, nil
}

func (t *tokenizer) close() { t.client.CloseIdleConnections() }

// take spends a part of what may be asked.
func (t *tokenizer) take(text string) error {
	if len(text) > maxTokenizeText {
		return errTokenBudget
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls >= maxTokenizeCalls || t.spent+len(text) > maxTokenizeBytes {
		return errTokenBudget
	}
	t.calls++
	t.spent += len(text)
	return nil
}

// count gives the number of a text's tokens.
func (t *tokenizer) count(ctx context.Context, text string) (int, error) {
	if err := t.take(text); err != nil {
		return 0, err
	}
	ask := map[string]any{"model": t.model, "prompt": text}
	if t.llama {
		ask = map[string]any{"content": text, "add_special": true}
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header = t.header.Clone()
	req.Header.Set("Content-Type", "application/json")
	req.Host = t.header.Get("Host") // empty: that of the address
	res, err := t.client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("ask the engine's /tokenize: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%w: it answered %d", errNoTokenizer, res.StatusCode)
	}
	return readCount(res.Body, text)
}

// readCount reads the answer, and refuses one that cannot be true: a token has
// at least one byte of the text, but for a few that frame it.
func readCount(r io.Reader, text string) (int, error) {
	var answer struct {
		Count  *int
		Tokens []int64
	}
	b, err := io.ReadAll(io.LimitReader(r, maxTokenizeAnswer+1))
	if err != nil {
		return 0, fmt.Errorf("read the answer of /tokenize: %w", err)
	}
	if len(b) > maxTokenizeAnswer {
		return 0, fmt.Errorf("the answer of /tokenize is longer than %d bytes", maxTokenizeAnswer)
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return 0, fmt.Errorf("%w: what it answered is no count: %w", errNoTokenizer, err)
	}
	n := len(answer.Tokens)
	if answer.Count != nil {
		if n > 0 && n != *answer.Count {
			return 0, fmt.Errorf("the engine's /tokenize counts %d tokens and lists %d", *answer.Count, n)
		}
		n = *answer.Count
	}
	switch {
	case n == 0:
		return 0, fmt.Errorf("%w: what it answered holds no tokens", errNoTokenizer)
	case n < 0 || n > len(text)+64:
		return 0, fmt.Errorf("the engine's /tokenize says that %d bytes are %d tokens", len(text), n)
	}
	return n, nil
}

// each counts several texts side by side, and calls got for those that were
// counted. It ends at the first failure, and when enough was asked.
func (t *tokenizer) each(ctx context.Context, texts []string, got func(i, tokens int)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	next := 0
	var wg sync.WaitGroup
	for range tokenizeStreams {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(texts) || ctx.Err() != nil {
					return
				}
				n, err := t.count(ctx, texts[i])
				if err != nil {
					if len(texts[i]) > maxTokenizeText {
						continue
					}
					cancel(err)
					return
				}
				mu.Lock()
				got(i, n)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, errTokenBudget) {
		return err
	}
	return nil
}
