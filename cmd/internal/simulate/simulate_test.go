package simulate

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// paper is standard error that the test may read while the command writes.
type paper struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *paper) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *paper) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

func TestSimulateServesAndStops(t *testing.T) {
	dir := t.TempDir()
	port, truth := filepath.Join(dir, "port"), filepath.Join(dir, "truth.jsonl")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stderr := new(paper)
	cmd := New()
	cmd.SetArgs([]string{"--listen", "127.0.0.1:0", "--port-file", port, "--truth", truth, "--model", "tiny",
		"--ttft", "5ms", "--itl", "1ms", "--fault-status", "500=0.0,429=0.0", "--seed", "3"})
	cmd.SetErr(stderr)
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()

	var address []byte
	for end := time.Now().Add(10 * time.Second); len(address) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no port file; %s", stderr)
		}
		address, _ = os.ReadFile(port)
	}
	base := "http://" + strings.TrimSpace(string(address))
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/completions",
		strings.NewReader(`{"model":"tiny","prompt":"a","max_tokens":3,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Request-Id", "mine")
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || !strings.Contains(string(body), "[DONE]") {
		t.Fatalf("%v: %s", err, body)
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the command does not stop")
	}
	got, err := os.ReadFile(truth)
	if err != nil || !strings.HasPrefix(string(got), `{"id":"mine","read_ns":`) {
		t.Errorf("truth: %v %s", err, got)
	}
	for _, want := range []string{"listening on " + base + "\n", "3 tokens, own lateness p50 "} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q in %s", want, stderr)
		}
	}
}

func TestSimulateRefusesBadFlags(t *testing.T) {
	for _, args := range [][]string{
		{"--law", "murphy"},
		{"--fault-status", "500"},
		{"--fault-status", "x=0.1"},
		{"--fault-reset", "2"},
		{"--like", "skynet"},
		{"--habit", "nailbiting"},
		{"--habit", "silent-every"},
		{"--habit", "both:silent-all"},
		{"--habit", "usage=sometimes"},
		{"--listen", "127.0.0.1:notaport"},
		{"--truth", filepath.Join("no", "such", "dir", "truth")},
		{"more"},
	} {
		cmd := New()
		cmd.SetArgs(append([]string{"--listen", "127.0.0.1:0"}, args...))
		cmd.SetErr(io.Discard)
		cmd.SetOut(io.Discard)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if err := cmd.ExecuteContext(ctx); err == nil {
			t.Errorf("%v: accepted", args)
		}
		cancel()
	}
}
