package hammer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/hammer"
)

// The API key goes to an address that somebody named, and never to a port where
// something was found to listen.
func TestKeyIsSentOnlyToANamedAddress(t *testing.T) {
	var keys atomic.Int64
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			keys.Add(1)
		}
		if r.URL.Path == "/v1/models" {
			fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
			return
		}
		http.NotFound(w, r)
	}))
	defer engine.Close()
	u, err := url.Parse(engine.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	for _, named := range []bool{false, true} {
		keys.Store(0)
		cfg := hammer.Config{APIKey: "secret"}
		if named {
			cfg.URL = engine.URL
		}
		var said strings.Builder
		if err := target(t.Context(), &cfg, []int{port}, cli.NewProgress(&said, true)); err != nil {
			t.Fatal(err)
		}
		if got := keys.Load() > 0; got != named {
			t.Errorf("named %t: the key was sent %d times", named, keys.Load())
		}
		if (cfg.APIKey != "") != named || cfg.Found == named {
			t.Errorf("named %t: the load would use key %q, found %t", named, cfg.APIKey, cfg.Found)
		}
	}
}

// Of two authorizations the one that was typed is sent, and a Host may be given.
func TestTypedAuthorizationReplacesTheKey(t *testing.T) {
	env := map[string]string{"OPENAI_API_KEY": "k"}
	for _, args := range []string{"--header authorization=Basic-x Host=models.internal", "--resume d --header Authorization=Basic-x Host=models.internal"} {
		cfg, _, _, err := resolve(strings.Fields(args), env)
		if err != nil {
			t.Fatal(err)
		}
		if cfg.APIKey != "" || len(cfg.Headers) != 2 || cfg.Headers["Host"] != "models.internal" {
			t.Errorf("%s: key %q, headers %v", args, cfg.APIKey, cfg.Headers)
		}
	}
	if cfg, _, _, err := resolve(strings.Fields("--header X-A=b"), env); err != nil || cfg.APIKey != "k" {
		t.Errorf("key %q, %v", cfg.APIKey, err)
	}
}

// A model's name that the engine does not know is used wrongly (exit 1), and
// leaves no run behind.
func TestNoSuchModelLeavesNoRun(t *testing.T) {
	t.Chdir(t.TempDir())
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			fmt.Fprint(w, `{"data":[{"id":"served"}]}`)
			return
		}
		http.NotFound(w, r)
	}))
	defer engine.Close()
	cfg, out, notes, err := resolve([]string{"--base-url", engine.URL, "--model", "nosuch"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = runHammer(t.Context(), cfg, out, notes, io.Discard, io.Discard)
	if !errors.Is(err, hammer.ErrNoModel) || !strings.Contains(err.Error(), "served") || cli.ExitCode(err) != 1 {
		t.Errorf("exit %d: %v", cli.ExitCode(err), err)
	}
	if _, err := os.Stat("runs"); err == nil {
		t.Error("a run directory was made")
	}
}

// The default run directory is not left behind empty when the run cannot begin.
func TestNoEmptyRunDirectoryIsLeft(t *testing.T) {
	t.Chdir(t.TempDir())
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
	}))
	defer engine.Close()
	cfg, out, notes, err := resolve([]string{"--base-url", engine.URL, "--replay", "nosuch.jsonl"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := runHammer(context.Background(), cfg, out, notes, io.Discard, io.Discard); err == nil {
		t.Fatal("a trace that does not exist was replayed")
	}
	if left, _ := filepath.Glob("runs/*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// An engine that only queues is not dead: the first token may take as long as
// the request, and a command line of vLLM's waits as vLLM's client does. The
// documents promise what the code does.
func TestQueueingEngineIsWaitedFor(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		args                     string
		connect, first, gap, all time.Duration
	}{
		{"", 10 * time.Second, 30 * time.Minute, time.Minute, 30 * time.Minute},
		{"--timeout-total 2h", 10 * time.Second, 2 * time.Hour, time.Minute, 2 * time.Hour},
		{"--timeout-first-token 5s", 10 * time.Second, 5 * time.Second, time.Minute, 30 * time.Minute},
		{"--num-prompts 200", vllmPatience, vllmPatience, vllmPatience, vllmPatience},
		{"--num-prompts 200 --timeout-gap 24h --timeout-connect 1s", time.Second, vllmPatience, day, vllmPatience},
		{"--num-prompts 200 --timeout-total 1h", vllmPatience, time.Hour, vllmPatience, time.Hour},
		{"--dataset-name timed_trace --dataset-path t --timed-trace-sec-multiplier 0.001", vllmPatience, vllmPatience, vllmPatience, vllmPatience},
		{"--sweep 1,2 --num-prompts 20", 10 * time.Second, 30 * time.Minute, time.Minute, 30 * time.Minute},
	} {
		cfg, _, _, err := resolve(strings.Fields(c.args), nil)
		if err != nil {
			t.Fatalf("%s: %v", c.args, err)
		}
		got, want := cfg.Timeouts, [4]time.Duration{c.connect, c.first, c.gap, c.all}
		if [4]time.Duration{time.Duration(got.Connect), time.Duration(got.FirstToken), time.Duration(got.Gap), time.Duration(got.Total)} != want {
			t.Errorf("%q waits %+v, not %v", c.args, got, want)
		}
		if ends := cfg.Load.Requests > 0 || cfg.Load.Mode == hammer.ModeReplay; ends && cfg.Load.Grace != got.Total {
			t.Errorf("%q: grace %s, total %s", c.args, cfg.Load.Grace, got.Total)
		}
	}
	if d := hammer.DefaultConfig().Timeouts; d.FirstToken != d.Total {
		t.Errorf("the library waits %+v", d)
	}
	for file, promise := range map[string]string{
		"vllm.md":   "up to `--timeout-total` (6 hours here, vLLM's own limit)",
		"hammer.md": "`--timeout-first-token` | as long as `--timeout-total` | 6 h",
	} {
		b, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), promise) {
			t.Errorf("docs/%s does not say %q", file, promise)
		}
	}
}

// A trace's blocks have vLLM's length by vLLM's name for a replay, Mooncake's by
// ours, and the one that is given.
func TestBlocksOfATrace(t *testing.T) {
	const timed = "--dataset-name timed_trace --dataset-path t --timed-trace-sec-multiplier 0.001"
	for args, want := range map[string]int{
		"--replay t": 0, timed: 16, timed + " --timed-trace-chunk-hash-size 512": 512,
		"--replay t --timed-trace-chunk-hash-size 64": 64,
	} {
		if cfg, _, _, err := resolve(strings.Fields(args), nil); err != nil || cfg.Load.TraceBlock != want {
			t.Errorf("%s: %d tokens, %v", args, cfg.Load.TraceBlock, err)
		}
	}
	if _, _, _, err := resolve([]string{"--replay", "t", "--timed-trace-chunk-hash-size", "0"}, nil); err == nil {
		t.Error("blocks of no tokens are accepted")
	}
}

// The client's priority is high unless another is asked for, and only one of
// three can be.
func TestPriorityFlag(t *testing.T) {
	for args, want := range map[string]hammer.Priority{
		"": hammer.PriorityHigh, "--priority normal": hammer.PriorityNormal, "--priority realtime": hammer.PriorityRealtime,
	} {
		if cfg, _, _, err := resolve(strings.Fields(args), nil); err != nil || cfg.Priority != want {
			t.Errorf("%q: %q, %v", args, cfg.Priority, err)
		}
	}
	if _, _, _, err := resolve([]string{"--priority", "low"}, nil); err == nil || !strings.Contains(err.Error(), "high, normal or realtime") {
		t.Errorf("%v", err)
	}
}
