package inference

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
)

// Found is what an engine says of itself.
type Found struct {
	// Backend is the dialect to speak to it: Ollama's own where it is Ollama,
	// for its timings, and OpenAI's chat elsewhere.
	Backend Backend
	Models  []string // as it lists them, at most 1,000
	Version string   // empty if it does not say
	// Sizes of the models, by name, where the engine says them: Ollama and
	// llama.cpp do, vLLM does not.
	Sizes map[string]ModelSize
}

// DiscoverOptions is how to ask. The zero value asks plainly.
type DiscoverOptions struct {
	APIKey  string
	Headers map[string]string
	TLS     *tls.Config
}

const (
	discoverPatience = 5 * time.Second // for each question
	discoverBody     = 4 << 20         // of each answer
	discoverModels   = 1000
)

// Discover asks an engine what it is. It gives an error when nothing there
// answers like one.
func Discover(ctx context.Context, base string, opt DiscoverOptions) (Found, error) {
	u, err := parseURL(base)
	if err != nil {
		return Found{}, err
	}
	tr := &http.Transport{TLSClientConfig: opt.TLS, DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	q := question{base: u, opt: opt, client: &http.Client{
		Transport: tr,
		Timeout:   discoverPatience,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("redirects are not followed")
		},
	}}

	// Ollama first: it also speaks OpenAI's dialect.
	var version struct{ Version string }
	_, verr := q.get(ctx, "/api/version", &version)
	if verr == nil && version.Version != "" {
		found := Found{Backend: Ollama, Version: name(version.Version)}
		var tags struct {
			Models []struct {
				Name          string
				Size, Details any
			}
		}
		if _, err := q.get(ctx, "/api/tags", &tags); err != nil {
			return Found{}, fmt.Errorf("listing models: %w", err)
		}
		for _, m := range tags.Models {
			found.add(m.Name)
			found.size(m.Name, memberOf(m.Details, "parameter_size"), m.Size)
		}
		return found, nil
	}
	if ctx.Err() != nil {
		return Found{}, ctx.Err()
	}
	var list struct {
		Data []struct {
			ID   string
			Meta any
		}
	}
	server, err := q.get(ctx, "/v1/models", &list)
	if err != nil {
		return Found{}, fmt.Errorf("listing models: %w", err)
	}
	found := Found{Backend: OpenAIChat}
	for _, m := range list.Data {
		found.add(m.ID)
		found.size(m.ID, memberOf(m.Meta, "n_params"), memberOf(m.Meta, "size"))
	}
	// vLLM has a page for it; others say who they are in a header.
	version.Version = ""
	if _, err := q.get(ctx, "/version", &version); err == nil && version.Version != "" {
		found.Version = name(version.Version)
	} else if server != "" && server != "uvicorn" {
		found.Version = name(server)
	}
	return found, nil
}

func (f *Found) add(model string) {
	if model != "" && len(f.Models) < discoverModels {
		f.Models = append(f.Models, name(model))
	}
}

// maxName bounds a name that an engine gave, in bytes.
const maxName = 200

func name(s string) string { return foreign.Line(s, maxName) }

type question struct {
	base   *url.URL
	opt    DiscoverOptions
	client *http.Client
}

// get asks for one page and decodes it; it gives the Server header too.
func (q question) get(ctx context.Context, path string, into any) (server string, err error) {
	u := *q.base
	u.Path = joinPath(u.Path, path)
	if path[:4] == "/api" || path == "/version" {
		u.Path = joinPath(strings.TrimSuffix(strings.TrimRight(q.base.Path, "/"), "/v1"), path)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", err
	}
	for k, v := range q.opt.Headers {
		if strings.EqualFold(k, "Host") {
			req.Host = v
			continue
		}
		req.Header.Set(k, v)
	}
	if q.opt.APIKey != "" && req.Header.Get("Authorization") == "" {
		req.Header.Set("Authorization", "Bearer "+q.opt.APIKey)
	}
	resp, err := q.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answered %d", u.Redacted(), resp.StatusCode)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, discoverBody)).Decode(into); err != nil {
		return "", fmt.Errorf("%s: %w", u.Redacted(), err)
	}
	return resp.Header.Get("Server"), nil
}
