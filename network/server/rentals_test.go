package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/network/api"
)

// cellar is rented machines that are only kept here.
type cellar struct {
	sessions []api.Session // the newest first
	offers   api.Offers
	asked    *OfferQuery
	err      error
}

// rack is some of them.
func rack() *cellar {
	c := &cellar{asked: &OfferQuery{}, offers: api.Offers{Offers: []api.Offer{{Id: "vast:1", Provider: "vast", ProviderId: "1", GpuType: "RTX 4090", GpuCount: 1}}, Count: 1, Total: 1}}
	for n := 5; n > 0; n-- {
		c.sessions = append(c.sessions, api.Session{Id: fmt.Sprintf("abc-%d", n), Provider: "vast", Status: api.SessionStatusRunning})
	}
	c.sessions[2].Status = api.SessionStatusFailed
	return c
}

func (c *cellar) Sessions(_ context.Context, q SessionQuery) ([]api.Session, error) {
	out := []api.Session{}
	after := q.Before == ""
	for _, s := range c.sessions {
		if after && (q.ID == "" || s.Id == q.ID) && (q.Status == "" || s.Status == q.Status) && len(out) < q.Limit {
			out = append(out, s)
		}
		after = after || s.Id == q.Before
	}
	return out, nil
}

func (c *cellar) Benchmarks(_ context.Context, q BenchmarkQuery) ([]api.Benchmark, error) {
	rate, cost := 100.0, 0.5
	b := []api.Benchmark{{Id: "a", Model: "m", Kept: api.BenchmarkKeptPass, TokensPerSecond: &rate}, {Id: "b", Model: "m", Kept: api.BenchmarkKeptUnknown}}
	if q.Cost {
		b[0].CostPerMillionTokens = &cost
	}
	if len(q.SLO) > 0 {
		b[0].Kept = api.BenchmarkKeptUnknown
	}
	return b, nil
}

func (c *cellar) Offers(_ context.Context, q OfferQuery) (api.Offers, error) {
	*c.asked = q
	return c.offers, c.err
}

func (c *cellar) Rent(context.Context, api.NewSession) (string, error) { return "abc-5", c.err }

func (c *cellar) End(_ context.Context, id string, _ bool) error {
	if !slices.ContainsFunc(c.sessions, func(s api.Session) bool { return s.Id == id }) {
		return ErrNoSession
	}
	return c.err
}

func (c *cellar) Extend(_ context.Context, id string, _ time.Duration) error {
	return c.End(context.Background(), id, false)
}

// Lists have pages, filters reach whoever answers, errors have their own status, and
// whatever changes something is in the audit log with its session.
func TestRentals(t *testing.T) {
	c := rack()
	n := sqlite(t, func(o *Options) { o.Rentals, o.Renting = c, c })
	var page []api.Session
	n.ask(200, "GET", "/api/v1/sessions?limit=2", n.admin, nil, &page)
	got := n.do("GET", "/api/v1/sessions?limit=2", n.admin, "", nil)
	if len(page) != 2 || got.header.Get("Link") != `</api/v1/sessions?before=abc-4&limit=2>; rel="next"` {
		t.Errorf("%+v %q", page, got.header.Get("Link"))
	}
	n.ask(200, "GET", "/api/v1/sessions?status=failed", n.admin, nil, &page)
	if len(page) != 1 || page[0].Id != "abc-3" {
		t.Errorf("%+v", page)
	}
	n.ask(404, "GET", "/api/v1/sessions/abc-9", n.admin, nil, nil)
	n.ask(200, "GET", "/api/v1/inventory?provider=vast&gpu_name=RTX%205090&min_vram=24&max_price=0.5", n.admin, nil, nil)
	if q := *c.asked; q.Provider != "vast" || q.GPU != "RTX 5090" || q.MinVRAMGB != 24 || q.MaxPrice == nil || *q.MaxPrice != 0.5 {
		t.Errorf("%+v", q)
	}
	n.ask(200, "GET", "/api/v1/inventory?gpu_type=RTX%204090&gpu_name=other", n.admin, nil, nil)
	if c.asked.GPU != "RTX 4090" {
		t.Errorf("the alias counts before the name: %+v", c.asked)
	}
	before := n.auditEntries(n.admin)
	n.ask(201, "POST", "/api/v1/sessions", n.admin, map[string]any{"offer_id": "vast:1", "ssh_public_key": strings.Repeat("k", 30), "hours": 1}, nil)
	n.ask(200, "POST", "/api/v1/sessions/abc-5/extend", n.admin, map[string]any{"hours": 2.5}, nil)
	n.ask(200, "DELETE", "/api/v1/sessions/abc-5", n.admin, nil, nil)
	n.ask(404, "POST", "/api/v1/sessions/abc-9/done", n.admin, nil, nil)
	if got := n.auditEntries(n.admin); got != before+4 {
		t.Errorf("%d audit entries, and %d before", got, before)
	}
	for _, e := range []struct {
		err    error
		status int
		kind   string
	}{
		{fmt.Errorf("%w: vast does not list it", ErrStaleOffer), 503, "stale_inventory"},
		{fmt.Errorf("%w: HTTP 500", ErrClouds), 503, "about:blank"},
		{fmt.Errorf("%w: the budget", ErrRefused), 409, "about:blank"},
		{fmt.Errorf("a fault of ours with a secret"), 500, "about:blank"},
	} {
		c.err = e.err
		got := n.do("POST", "/api/v1/sessions", n.admin, "application/json", []byte(`{"offer_id":"vast:1","ssh_public_key":"`+strings.Repeat("k", 30)+`","hours":1}`))
		var p api.Problem
		if err := json.Unmarshal(got.body, &p); err != nil || got.status != e.status || p.Type != e.kind || strings.Contains(string(got.body), "secret") {
			t.Errorf("%v: %d %s", e.err, got.status, got.body)
		}
		if e.status == 503 && got.header.Get("Retry-After") == "" {
			t.Errorf("%v: when to ask again is not said", e.err)
		}
	}
}

func TestRankedResults(t *testing.T) {
	c := rack()
	n := sqlite(t, func(o *Options) { o.Rentals = c })
	var b api.Benchmark
	n.ask(200, "GET", "/api/v1/benchmarks/best?model=m", n.admin, nil, &b)
	if b.Id != "a" {
		t.Errorf("%+v", b)
	}
	n.ask(200, "GET", "/api/v1/benchmarks/cheapest", n.admin, nil, &b)
	var all []api.Benchmark
	n.ask(200, "GET", "/api/v1/benchmarks/compare", n.admin, nil, &all)
	if len(all) != 2 {
		t.Errorf("%+v", all)
	}
	// What is not known to keep the limits is no answer.
	n.ask(404, "GET", "/api/v1/benchmarks/best?slo=ttft_p99%3C500ms", n.admin, nil, nil)
	n.ask(400, "GET", "/api/v1/benchmarks/best?slo=nonsense", n.admin, nil, nil)
	// Without credentials nothing is asked of clouds.
	n.ask(501, "GET", "/api/v1/inventory", n.admin, nil, nil)
	n.ask(501, "DELETE", "/api/v1/sessions/abc-5", n.admin, nil, nil)
}

// Without a token there are two lists, as bare arrays, for this machine only; nothing
// can be changed there, and no page of the web gets in.
func TestCompat(t *testing.T) {
	c := rack()
	n := sqlite(t, func(o *Options) { o.Rentals, o.Renting = c, c })
	h, err := n.server.Compat()
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, url string, change func(*http.Request)) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), method, url, nil)
		if change != nil {
			change(r)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	var sessions []api.Session
	code, body := ask("GET", "http://localhost:8080/api/v1/sessions", nil)
	if err := json.Unmarshal([]byte(body), &sessions); err != nil || code != 200 || len(sessions) != 5 {
		t.Errorf("%d %s %v", code, body, err)
	}
	code, body = ask("GET", "http://127.0.0.1/api/v1/sessions?limit=2&before=abc-4", nil)
	if err := json.Unmarshal([]byte(body), &sessions); err != nil || code != 200 || len(sessions) != 2 || sessions[0].Id != "abc-3" {
		t.Errorf("%d %s %v", code, body, err)
	}
	var offers []api.Offer
	code, body = ask("GET", "http://localhost:8080/api/v1/inventory?gpu_name=RTX%204090&min_vram=8&max_price=1.5", nil)
	if err := json.Unmarshal([]byte(body), &offers); err != nil || code != 200 || len(offers) != 1 || c.asked.GPU != "RTX 4090" || c.asked.MinVRAMGB != 8 || *c.asked.MaxPrice != 1.5 {
		t.Errorf("%d %s %v %+v", code, body, err, c.asked)
	}
	for what, bad := range map[string]struct {
		method, url string
		change      func(*http.Request)
		want        int
	}{
		"another name": {"GET", "http://evil.example:8080/api/v1/sessions", nil, 403},
		"another page": {"GET", "http://localhost/api/v1/sessions", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"a change":     {"POST", "http://localhost/api/v1/sessions", nil, 405},
		"an end":       {"DELETE", "http://localhost/api/v1/sessions/abc-5", nil, 404},
		"the rest":     {"GET", "http://localhost/api/v1/nodes", nil, 404},
		"a filter":     {"GET", "http://localhost/api/v1/sessions?stat=failed", nil, 400},
		"a status":     {"GET", "http://localhost/api/v1/sessions?status=nonsense", nil, 400},
	} {
		if code, body := ask(bad.method, bad.url, bad.change); code != bad.want {
			t.Errorf("%s: %d %s", what, code, body)
		}
	}
}
