package agent

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/inference"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/telemetry"
)

// Traffic is what the engine does for others.
type Traffic struct {
	Up      bool // it answers
	Running int  // requests that are not ours, under way or waiting
	Known   bool // it tells how many
}

// Quiet reports whether a check disturbs nobody. An engine that does not tell is
// not quiet: unknown is never a pass.
func (t Traffic) Quiet() bool { return t.Known && t.Running == 0 }

// lookout watches the engine.
type lookout struct {
	engine Engine
	apiKey func() (string, error)
	looked chan struct{} // closed after the first look

	// of who looks
	source *telemetry.Engine
	count  int // as last told
	told   bool
	tokens counted

	mu      sync.Mutex
	url     string // as given, or as found
	kind    string // of the engine, by its metrics; empty: they are not known
	found   inference.Found
	traffic Traffic
	counts  counted
	ours    int
}

// counted is what the engine's own counter of output tokens said.
type counted struct {
	tokens int64
	at     time.Time // zero: it has none
}

// look asks the engine how it is. It is called by one goroutine.
func (w *lookout) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	key, err := w.apiKey()
	if err != nil {
		w.set("", inference.Found{}, Traffic{})
		return
	}
	address := w.engine.BaseURL
	if address == "" {
		key = "" // whatever listens there need not be the engine that the key is for
		if address, err = hammer.Find(ctx, hammer.Ports()); err != nil {
			w.set("", inference.Found{}, Traffic{})
			return
		}
	}
	found, err := inference.Discover(ctx, address, inference.DiscoverOptions{APIKey: key})
	if err != nil {
		w.forget()
		w.set(address, inference.Found{}, Traffic{})
		return
	}
	running, known := w.requests(ctx, address, key)
	w.mu.Lock()
	ours := w.ours
	w.mu.Unlock()
	w.set(address, found, Traffic{Up: true, Running: max(0, running-ours), Known: known})
}

// requests reads how many the engine has.
func (w *lookout) requests(ctx context.Context, address, key string) (int, bool) {
	if w.source == nil {
		h := http.Header{}
		if key != "" {
			h.Set("Authorization", "Bearer "+key)
		}
		source, err := telemetry.NewEngine(ctx, telemetry.EngineOptions{URL: address, Header: h})
		if err != nil {
			return 0, false
		}
		w.source = source
	}
	sum, seen := 0.0, false
	began := time.Now() // what is read is at least as new
	err := w.source.Read(ctx, func(r assay.Reading) {
		if r.Value != nil && (r.Name == assay.EngineRunning || r.Name == assay.EngineWaiting) {
			sum += *r.Value
			seen = seen || r.Name == assay.EngineRunning
		}
		if r.Value != nil && r.Name == assay.EngineOutputTokens && *r.Value >= 0 && *r.Value < 1<<53 {
			w.tokens = counted{int64(*r.Value), began}
		}
	})
	if err != nil {
		w.forget() // it may be another one by now
		return 0, false
	}
	if seen { // otherwise it is too early for another look
		w.count, w.told = int(min(max(sum, 0), 1e6)), true
	}
	return w.count, w.told
}

func (w *lookout) forget() {
	if w.source != nil {
		_ = w.source.Close() // it was only read
		w.source, w.told, w.tokens = nil, false, counted{}
	}
}

func (w *lookout) set(url string, found inference.Found, t Traffic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.url, w.found, w.traffic, w.kind, w.counts = url, found, t, "", w.tokens
	if w.source != nil {
		w.kind = w.source.Kind()
	}
}

// mine notes how many requests are our own.
func (w *lookout) mine(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ours = n
}

func (w *lookout) now() Traffic {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.traffic
}

// output is what the engine has counted; ok is false where it does not.
func (w *lookout) output() (tokens int64, ago time.Duration, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.counts.at.IsZero() {
		return 0, 0, false
	}
	return w.counts.tokens, max(0, time.Since(w.counts.at)), true
}

// target is the engine as it was found.
func (w *lookout) target() (Engine, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.engine
	e.BaseURL = w.url
	if !w.traffic.Up || e.BaseURL == "" {
		return e, errors.New("no engine answers")
	}
	return e, nil
}

// describe is the engine for the inventory.
func (w *lookout) describe() (kind, version, model string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if kind = w.kind; kind == "" {
		kind = string(w.found.Backend)
	}
	if model = w.engine.Model; model == "" && len(w.found.Models) > 0 {
		model = w.found.Models[0]
	}
	return foreign.Line(kind, 100), foreign.Line(w.found.Version, 100), foreign.Line(model, 300)
}
