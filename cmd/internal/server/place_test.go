package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay/network/place"
)

// examples writes the examples, the nodes changed.
func examples(t *testing.T, change ...string) (demand, nodes string) {
	t.Helper()
	dir := t.TempDir()
	demand, nodes = filepath.Join(dir, "demand.yaml"), filepath.Join(dir, "nodes.yaml")
	for path, b := range map[string][]byte{demand: place.ExampleDemand, nodes: []byte(strings.NewReplacer(change...).Replace(string(place.ExampleNodes)))} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return demand, nodes
}

func TestPlaceOffline(t *testing.T) {
	for _, c := range []struct {
		change []string
		code   int
		says   []string
	}{
		{nil, 0, []string{"Cost  11.70 USD an hour", "this one is the best", "l4-c: it is quarantined"}},
		{[]string{"id: h100-b, ", "id: h100-b, state: draining, "}, 1, []string{"state is one of"}},
		{[]string{"id: h100-b, ", "id: h100-b, state: pending, "}, 3, []string{"there are too", "h100-b: it is pending"}},
		{[]string{"id: h100-c, gpu: NVIDIA H100 80GB HBM3, memory_gib: 80, measured: *h100", "id: h100-c, gpu: NVIDIA H100 80GB HBM3, memory_gib: 80"}, 2, []string{"estimate", "met only if the estimates hold"}},
		{[]string{"memory_gib: 80", "memory_gib: 40"}, 3, []string{"qwen2.5-32b is not met", "5 nodes have too little memory", "1 of 2 demands are not met"}},
	} {
		demand, nodes := examples(t, c.change...)
		code, stdout, stderr := run(t, "server", "place", demand, "--offline", nodes)
		if code != c.code {
			t.Errorf("%q: exit %d, want %d: %s", c.change, code, c.code, stderr)
		}
		for _, s := range c.says {
			if !strings.Contains(stdout+stderr, s) {
				t.Errorf("%q: it does not say %q:\n%s%s", c.change, s, stdout, stderr)
			}
		}
	}
	demand, nodes := examples(t)
	code, stdout, _ := run(t, "server", "place", demand, "--offline", nodes, "--format", "json")
	var got place.Placement
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 || len(got.Demands) != 2 || got.Format != place.Format {
		t.Errorf("exit %d, %v: %s", code, err, stdout)
	}
}

func TestPlaceUsage(t *testing.T) {
	demand, nodes := examples(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{}, "--example demand"},
		{[]string{demand}, "--offline FILE no server is needed"},
		{[]string{demand, "--offline", nodes, "--server", "https://x.test"}, "one of them"},
		{[]string{demand, "--offline", nodes, "--format", "xml"}, "known are text, json"},
		{[]string{nodes, "--offline", nodes}, "unknown field"},
		{[]string{"--example", "all"}, "known are demand, nodes"},
		{[]string{demand + "x", "--offline", nodes}, "read the demand"},
	} {
		code, _, stderr := run(t, append([]string{"server", "place"}, c.args...)...)
		if code != 1 || !strings.Contains(stderr, c.says) {
			t.Errorf("%q: exit %d, %s", c.args, code, stderr)
		}
	}
	if code, stdout, _ := run(t, "server", "place", "--example", "nodes"); code != 0 || stdout != string(place.ExampleNodes) {
		t.Errorf("exit %d: %s", code, stdout)
	}
}

// A server's nodes: the newest report of a model counts, what is not routable gets
// nothing, what is too old or has no levels is not known.
func TestPlaceAsksTheServer(t *testing.T) {
	report := func(age time.Duration, model string, rate float64) map[string]any {
		out := map[string]any{"id": id(9), "node": id(1), "run": "r", "received": time.Now().Add(-age), "confirmed": true, "verdict": "pass", "score": 1, "files": []any{}}
		if model != "" {
			out["model"] = model
			out["levels"] = []any{map[string]any{"requests_per_second": rate, "output_tokens_per_second": rate * 200, "ttft_p99_ms": 100, "tpot_p99_ms": 10}}
		}
		return out
	}
	node := func(n int, state string, routable bool) map[string]any {
		return map[string]any{"id": id(n), "owner": "o", "state": state, "intent": "serve", "contact": "seen", "routable": routable, "score": nil, "reasons": []string{}}
	}
	const model, card = "llama-3.1-8b", "NVIDIA L4"
	answers := map[string]any{
		"/api/v1/nodes":                       []any{node(1, "admitted", true), node(2, "quarantined", false), node(3, "admitted", true), node(4, "degraded", true)},
		"/api/v1/nodes/" + id(1) + "/reports": []any{report(time.Hour, "", 0), report(2*time.Hour, model, 9), report(3*time.Hour, model, 90), report(0, "other", 5)},
		"/api/v1/nodes/" + id(3) + "/reports": []any{report(60*24*time.Hour, model, 90)},
		"/api/v1/nodes/" + id(4) + "/reports": []any{report(0, model, 7)},
	}
	for _, n := range []int{1, 3, 4} {
		answers["/api/v1/nodes/"+id(n)] = map[string]any{
			"node": node(n, "admitted", true), "version": 1, "created": time.Now(),
			"inventory": map[string]any{"hostname": "h", "replicas": []any{}, "gpus": []any{map[string]any{"uuid": "u", "name": card, "memory_bytes": 24 << 30}}},
			"replicas":  []any{map[string]any{"name": "r", "state": "admitted", "intent": "serve", "contact": "seen", "routable": true, "model": model, "reasons": []string{}}},
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, ok := answers[r.URL.Path]
		if !ok || r.Header.Get("Authorization") != "Bearer secret-token-of-a-viewer" {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}))
	defer srv.Close()
	dir := t.TempDir()
	token, demand := filepath.Join(dir, "token"), filepath.Join(dir, "demand.yaml")
	text := "format: assay/demand/v1\ncurrency: EUR\ncosts: [{gpu: NVIDIA L4, per_hour: 1}]\ndemands: [{model: llama-3.1-8b, requests_per_second: 20, ttft_p99: 500ms, memory_gib: 20}]\n"
	for path, b := range map[string]string{token: "secret-token-of-a-viewer\n", demand: text} {
		if err := os.WriteFile(path, []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := run(t, "server", "place", demand, "--server", srv.URL, "--token-file", token, "--format", "json")
	var got place.Placement
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("exit %d, %v: %s%s", code, err, stdout, stderr)
	}
	var nodes []string
	for _, g := range got.Demands[0].Nodes {
		nodes = append(nodes, fmt.Sprintf("%s %v %v %v", g.Node[25:], g.Capacity, g.Estimated, g.Loads))
	}
	if want := "1 9 false false; 3 7 true false; 4 7 false false"; code != 2 || strings.Join(nodes, "; ") != want {
		t.Errorf("exit %d: %q, want %q", code, nodes, want)
	}
	if len(got.Excluded) != 1 || got.Excluded[0].Why != "it is quarantined" || got.Cost.String() != "3.00 EUR" {
		t.Errorf("%s %+v", got.Cost, got.Excluded)
	}
	delete(answers, "/api/v1/nodes/"+id(4))
	if code, _, stderr := run(t, "server", "place", demand, "--server", srv.URL, "--token-file", token); code != 1 || !strings.Contains(stderr, "refused") {
		t.Errorf("an answer is missing: exit %d, %s", code, stderr)
	}
}

func id(n int) string { return fmt.Sprintf("01ARZ3NDEKTSV4RRFFQ69G5FA%d", n) }
