package simulate

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/cmd/internal/cli/clitest"
)

func TestSimulateServesAndStops(t *testing.T) {
	dir := t.TempDir()
	port, truth := filepath.Join(dir, "port"), filepath.Join(dir, "truth.jsonl")
	cmd := New()
	cmd.SetArgs([]string{"--listen", "127.0.0.1:0", "--port-file", port, "--truth", truth, "--model", "tiny",
		"--ttft", "5ms", "--itl", "1ms", "--fault-status", "500=0.0,429=0.0", "--seed", "3"})
	s := clitest.Serve(t, func(ctx context.Context, out io.Writer) error {
		cmd.SetErr(out)
		return cmd.ExecuteContext(ctx)
	})
	address, err := os.ReadFile(port)
	if base := "http://" + strings.TrimSpace(string(address)); err != nil || base != s.URL {
		t.Errorf("the port file has %q, the command listens on %s (%v)", address, s.URL, err)
	}
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/completions",
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
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(truth)
	if err != nil || !strings.HasPrefix(string(got), `{"id":"mine","read_ns":`) {
		t.Errorf("truth: %v %s", err, got)
	}
	for _, want := range []string{"listening on " + s.URL + "\n", "3 tokens, own lateness p50 "} {
		if !strings.Contains(s.Said.String(), want) {
			t.Errorf("no %q in %s", want, s.Said)
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
