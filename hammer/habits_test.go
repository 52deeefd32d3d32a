package hammer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/inference"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/simulate"
	"github.com/assay-bench/assay/tools/stillness"
)

// events gives the texts of a run's events of a kind.
func events(t *testing.T, dir string, kind assay.EventKind) (out []string) {
	t.Helper()
	rd, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range rd.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == kind {
			out = append(out, e.Text)
		}
	}
	return out
}

// An engine's habits on the wire change nothing about its times: whatever has
// text, and however it is counted, answers of 24 tokens that come each 4 ms have
// 24 tokens, none failed, and no time a token below 4 ms.
func TestHabitsOfTheWire(t *testing.T) {
	base := simulate.Config{TTFT: 20 * time.Millisecond, ITL: 4 * time.Millisecond, Seed: 5}
	for _, tt := range []struct {
		name   string
		habits []string
	}{
		{"silent in the middle", []string{"silent-every=3"}},
		{"silent tail", []string{"silent-tail=17"}},
		{"silent from first to last", []string{"silent-all"}},
		{"silent and counted at the end", []string{"silent-every=3", "usage=end"}},
		{"silent tail, counted at the end", []string{"silent-tail=17", "usage=end"}},
		{"silent from first to last, counted at the end", []string{"silent-all", "usage=end"}},
		{"zero counts", []string{"silent-every=3", "usage=zero"}},
		{"several tokens in an event", []string{"speculative=3"}},
		{"no chunk for silent tokens", []string{"silent-every=3", "no-chunk", "usage=end"}},
		{"held back", []string{"hold-back=4"}},
		{"role in every delta", []string{"role-every"}},
		{"reasoning only", []string{"reasoning-only=reasoning_content"}},
		{"tool call", []string{"tool-head=9"}},
		{"refused ignore_eos", []string{"refuse=ignore_eos"}},
		{"refused counts", []string{"refuse=continuous_usage_stats"}},
		{"refused stream_options", []string{"refuse=stream_options"}},
		{"like vLLM", []string{"like=vllm"}},
		{"like SGLang", []string{"like=sglang"}},
		{"like llama.cpp", []string{"like=llama.cpp"}},
		{"like Ollama", []string{"like=ollama"}},
		{"like TGI", []string{"like=tgi"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := base
			for _, h := range tt.habits {
				err := cfg.SetHabit(h)
				if engine, ok := strings.CutPrefix(h, "like="); ok {
					err = cfg.Like(engine)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			run := short(engine(t, cfg), "openai-chat")
			run.Load.Requests, run.Load.Concurrency = 12, 3
			run.Data.OutputTokens = 24
			stillness.Timed(t, tt.name, func() error { return wireRun(t, run, tt.name, tt.habits[0]) })
		})
	}
}

// A simulator is found as what it is like: vLLM has no API of Ollama's, and who
// speaks both is taken for Ollama.
func TestDiscoveredAsWhatItIsLike(t *testing.T) {
	for like, want := range map[string]inference.Backend{
		"": inference.Ollama, "ollama": inference.Ollama,
		"vllm": inference.OpenAIChat, "sglang": inference.OpenAIChat, "llama.cpp": inference.OpenAIChat, "tgi": inference.OpenAIChat,
	} {
		var cfg simulate.Config
		if like != "" {
			if err := cfg.Like(like); err != nil {
				t.Fatal(err)
			}
		}
		c := DefaultConfig()
		c.URL = engine(t, cfg)
		if err := Resolve(t.Context(), &c); err != nil || c.Backend != string(want) {
			t.Errorf("like %q: found as %q, want %q (%v)", like, c.Backend, want, err)
		}
	}
}

// wireRun checks a run against such an engine. What it returns a machine that
// stood still could be the cause of.
func wireRun(t *testing.T, run Config, name, habit string) error {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	sum, err := Run(t.Context(), run, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := sum.Stages[0]
	if s.OK != 12 || s.Failed != 0 {
		t.Fatalf("%d succeeded, %d failed: %v", s.OK, s.Failed, s.Errors)
	}
	if name == "refused stream_options" {
		if s.TokensFrom != "chunks" {
			t.Errorf("tokens from %q", s.TokensFrom)
		}
	} else if s.OutputTokens.Mean != 24 {
		t.Errorf("answers of %g tokens, from %s", s.OutputTokens.Mean, s.TokensFrom)
	}
	if habit == "silent-all" || name == "reasoning only" {
		if s.TTFO.N != 0 {
			t.Errorf("a time to first output of answers without any: %+v", s.TTFO)
		}
	}
	if strings.HasPrefix(name, "refused") {
		if w := strings.Join(events(t, dir, assay.EventWarning), "\n"); !strings.Contains(w, strings.TrimPrefix(habit, "refuse=")) {
			t.Errorf("nobody says what was left out: %s", w)
		}
	}
	if !(s.TPOT.Mean >= 3.9) {
		return fmt.Errorf("%.2f ms a token, truth 4; E2E %.1f ms", s.TPOT.Mean, s.E2E.Mean)
	}
	// The first event of several tokens is there after the first one's time.
	if !(s.E2E.Mean >= 20+21*3.9) {
		return fmt.Errorf("E2E %.1f ms, truth 104 to 112", s.E2E.Mean)
	}
	return nil
}

// A request that the engine refuses by design is not sent thousands of times,
// and the engine's words are told.
func TestARefusalEndsTheRun(t *testing.T) {
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":{"message":"this model only speaks on Tuesdays"}}`))
	}))
	defer srv.Close()
	_, err := Run(t.Context(), short(srv.URL, "openai-chat"), filepath.Join(t.TempDir(), "run"), Options{})
	if !errors.Is(err, ErrNothingMeasured) || !strings.Contains(err.Error(), "Tuesdays") {
		t.Errorf("got %v", err)
	}
	if n := asked.Load(); n > 10 {
		t.Errorf("asked %d times", n)
	}

	// One that takes the calibrating requests and refuses the load's. Its words
	// hold numbers that differ from request to request.
	url := engine(t, simulate.Config{TTFT: time.Millisecond, ITL: time.Millisecond})
	asked.Store(0)
	proxy := httptest.NewServer(refusing(url, func([]byte) string {
		n := asked.Add(1)
		if n <= 4 {
			return ""
		}
		return fmt.Sprintf("the prompt is too long: request %d has %d tokens", n, 8000+n%7)
	}))
	defer proxy.Close()
	cfg := short(proxy.URL, "openai-chat")
	cfg.Load.Requests = 2000
	_, err = Run(t.Context(), cfg, filepath.Join(t.TempDir(), "run"), Options{})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %v", err)
	}
	// Of the first four some may have been of the load, and each that is answered
	// late begins the count anew, as the engine takes something: how late, is for
	// the machine to say. What it comes to in a row does not depend on it.
	for _, n := range []int{maxRefusals, maxRefusalsLater} {
		if strings.Contains(fmt.Sprint(err), fmt.Sprintf("refused %d requests in a row", n)) {
			err = nil
		}
	}
	if err != nil {
		t.Errorf("it ended after another number of refusals: %v", err)
	}
	if n := int(asked.Load()); n > 4+(4+1)*maxRefusalsLater+cfg.Load.Concurrency {
		t.Errorf("asked %d times", n)
	}
}

// An engine that refuses one field without naming it loses that one, and no
// other.
func TestOnlyTheRefusedFieldIsDropped(t *testing.T) {
	url := engine(t, simulate.Config{TTFT: time.Millisecond, ITL: time.Millisecond})
	proxy := httptest.NewServer(refusing(url, func(body []byte) string {
		if bytes.Contains(body, []byte("ignore_eos")) {
			return "extra inputs are not permitted"
		}
		return ""
	}))
	defer proxy.Close()
	dir := filepath.Join(t.TempDir(), "run")
	sum, err := Run(t.Context(), short(proxy.URL, "openai-chat"), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if sum.Stages[0].TokensFrom != "usage" {
		t.Errorf("tokens from %q", sum.Stages[0].TokensFrom)
	}
	if w := strings.Join(events(t, dir, assay.EventWarning), "\n"); !strings.Contains(w, "without ignore_eos,") {
		t.Errorf("warnings: %s", w)
	}
}

// refusing passes requests on, but for those that refuse has words for.
func refusing(url string, refuse func(body []byte) string) http.Handler {
	pass := &http.Transport{DisableKeepAlives: true}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if r.Method == http.MethodPost {
			if words := refuse(body); words != "" {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = fmt.Fprintf(w, `{"error":{"message":%q}}`, words)
				return
			}
		}
		out, err := http.NewRequestWithContext(r.Context(), r.Method, url+r.URL.Path, bytes.NewReader(body))
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		resp, err := pass.RoundTrip(out)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	})
}

// One reset does not end a run whose answers take longer than our patience:
// tokens that arrive are life.
func TestTokensAreLife(t *testing.T) {
	t.Parallel()
	url := engine(t, simulate.Config{TTFT: 10 * time.Millisecond, ITL: 100 * time.Millisecond, Seed: 2, Faults: simulate.Faults{Reset: 0.3}})
	cfg := short(url, "openai-chat")
	// Answers of seven seconds, of which three in ten are cut off in time.
	cfg.Load = Load{Mode: ModeClosed, Concurrency: 8, Requests: 16, Grace: assay.Duration(20 * time.Second)}
	cfg.Data.OutputTokens = 70
	sum, err := Run(t.Context(), cfg, filepath.Join(t.TempDir(), "run"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s := sum.Stages[0]; s.Errors[assay.FailReset] == 0 || s.OK == 0 {
		t.Fatalf("%d succeeded, %v", s.OK, s.Errors)
	}
}

// Several events in one write are the engine's habit: they do not cost the
// client its certificate.
func TestBurstsAreNotTheClients(t *testing.T) {
	cfg := simulate.Config{TTFT: 10 * time.Millisecond, ITL: 10 * time.Millisecond}
	if err := cfg.SetHabit("events-per-write=2"); err != nil {
		t.Fatal(err)
	}
	run := short(engine(t, cfg), "openai-chat")
	run.Load.Requests, run.Data.OutputTokens = 24, 20
	stillness.Timed(t, "bursts", func() error {
		dir := filepath.Join(t.TempDir(), "run")
		sum, err := Run(t.Context(), run, dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		bursts, merged, reads := 0, 0, 0
		rd, err := journal.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range rd.Requests() {
			if err != nil {
				t.Fatal(err)
			}
			bursts, merged, reads = bursts+r.BurstReads, merged+r.MergedReads, reads+r.Reads
		}
		if bursts <= reads/2 || merged > reads/20 || sum.Client.MergedShare > 0.05 {
			return fmt.Errorf("%d reads: %d bursts, %d merged (%.2f); certificate %s %v",
				reads, bursts, merged, sum.Client.MergedShare, sum.Client.Certificate, sum.Client.Why)
		}
		return nil
	})
}

// A user's own Authorization and Host take the place of ours, and are sent
// once.
func TestOwnHeaders(t *testing.T) {
	var auth, host atomic.Value
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth.Store(strings.Join(r.Header.Values("Authorization"), "|"))
		host.Store(r.Host)
		w.WriteHeader(http.StatusTeapot)
	}))
	defer srv.Close()
	c, err := inference.New(inference.Config{URL: srv.URL, Model: "m", APIKey: "secret",
		Headers: map[string]string{"authorization": "Basic mine", "Host": "engine.example:99"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Do(t.Context(), &inference.Job{Prompt: "p"}, new(assay.Request))
	if auth.Load() != "Basic mine" || host.Load() != "engine.example:99" {
		t.Errorf("sent Authorization %q and Host %q", auth.Load(), host.Load())
	}
}

// A private authority and mutual TLS by files; a client without a certificate,
// or with another authority, is refused.
func TestTLSFiles(t *testing.T) {
	dir := t.TempDir()
	pki := newPKI(t, dir)
	inner, err := simulate.New(simulate.Config{TTFT: time.Millisecond, ITL: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = inner.Serve(ctx, pki.listener(ln)) }()
	defer func() { cancel(); <-done; inner.Close() }()

	good := short("https://"+ln.Addr().String(), "openai-chat")
	good.Load.Requests = 8
	good.CACert, good.Cert, good.Key = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.key")
	sum, err := Run(t.Context(), good, filepath.Join(dir, "run"), Options{})
	if err != nil || sum.Stages[0].OK != 8 {
		t.Fatalf("%v", err)
	}
	stranger := good
	stranger.Cert, stranger.Key = "", ""
	if _, err := Run(t.Context(), stranger, filepath.Join(dir, "run2"), Options{}); err == nil {
		t.Error("measured without a client certificate")
	}
	doubting := good
	doubting.CACert = ""
	if _, err := Run(t.Context(), doubting, filepath.Join(dir, "run3"), Options{}); err == nil {
		t.Error("measured without trusting the authority")
	}
	missing := good
	missing.Cert = ""
	if _, err := Run(t.Context(), missing, filepath.Join(dir, "run4"), Options{}); err == nil || !strings.Contains(err.Error(), "--cert") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "run4")); err == nil {
		t.Error("a run directory was made for a configuration that cannot run")
	}
}
