package hammer

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/telemetry"
)

// The engine writes a request into its counters a moment after its last chunk
// was sent, so its page is read again until the count is there.
const (
	settleEvery = 20 * time.Millisecond
	settleMost  = 2 * time.Second
	pageTimeout = 2 * time.Second
)

// beside reads the engine's own totals at the edges of each stage, never while
// one is under way.
type beside struct {
	totals *telemetry.Totals
	why    string // why there is none
	last   map[string]float64
}

// engineHeader is what each look at the engine's own pages is sent with.
func (c *Config) engineHeader() http.Header {
	h := http.Header{}
	if c.APIKey != "" {
		h.Set("Authorization", "Bearer "+c.APIKey)
	}
	for k, v := range c.Headers {
		h.Set(k, v)
	}
	return h
}

// openTotals looks whether the engine has a page of totals.
func (r *run) openTotals(ctx context.Context) {
	config, err := r.cfg.tls()
	var t *telemetry.Totals
	if err == nil {
		t, err = telemetry.NewTotals(ctx, telemetry.EngineOptions{
			URL: r.cfg.URL, Header: r.cfg.engineHeader(), Timeout: pageTimeout, TLS: config, Model: r.cfg.Model,
		})
	}
	if err != nil {
		r.beside.why = err.Error()
		// An engine without a page is common, and what was compared is told in
		// the report; only a page that cannot be read is worth a line.
		if !errors.Is(err, telemetry.ErrNoMetrics) {
			r.event(assay.EventNote, "", "the engine's own figures are not compared: "+err.Error(), nil)
		}
		return
	}
	r.beside.totals = t
}

// closeTotals ends the readings.
func (r *run) closeTotals() {
	if r.beside.totals != nil {
		_ = r.beside.totals.Close() // never fails
	}
}

// before records the engine's totals when everything that was asked of it so
// far is in them: the first stage follows the calibrating requests.
func (r *run) before(ctx context.Context, stage string) {
	first := r.beside.last == nil
	r.edge(ctx, assay.EventEngineBefore, stage, func(now, before map[string]float64) bool {
		return !first || before != nil && same(now, before)
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered, r.answeredTokens = 0, 0
}

// after records the totals when the stage's requests are in them.
func (r *run) after(ctx context.Context, stage string) {
	start := r.beside.last
	r.mu.Lock()
	requests, tokens := float64(r.answered), float64(r.answeredTokens)
	r.mu.Unlock()
	r.edge(ctx, assay.EventEngineAfter, stage, func(now, _ map[string]float64) bool {
		name, want := assay.TotalRequests, requests
		if _, ok := now[name]; !ok {
			name, want = assay.TotalOutputTokens, tokens
		}
		return now[name]-start[name] >= want
	})
}

// edge reads until the totals are settled, for a moment at most, and records
// the last. What cannot be read is not asked for again: a run must not wait for
// it at each stage.
func (r *run) edge(ctx context.Context, kind assay.EventKind, stage string, settled func(now, before map[string]float64) bool) {
	b := &r.beside
	if b.totals == nil {
		return
	}
	var before map[string]float64
	for end := time.Now().Add(settleMost); ; {
		now, err := b.totals.Read(ctx)
		if err != nil {
			if ctx.Err() == nil {
				r.event(kind, stage, err.Error(), nil)
				r.closeTotals()
				b.totals, b.why = nil, err.Error()
			}
			return
		}
		b.last = now
		if settled(now, before) || time.Now().After(end) {
			break
		}
		before = now
		select {
		case <-ctx.Done():
			return
		case <-time.After(settleEvery):
		}
	}
	r.event(kind, stage, b.totals.Kind(), b.last)
}

// same reports whether nothing was counted between two readings.
func same(a, b map[string]float64) bool {
	for _, name := range []string{assay.TotalRequests, assay.TotalPromptTokens, assay.TotalOutputTokens} {
		if a[name] != b[name] {
			return false
		}
	}
	return true
}
