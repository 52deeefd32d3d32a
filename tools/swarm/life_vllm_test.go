package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/ledger"
)

// A node whose engine is a real vLLM is taken in, measured, approved and admitted,
// by figures of what that vLLM did.
func TestRealNetworkLifeVLLM(t *testing.T) {
	engine := os.Getenv("ASSAY_VLLM_URL")
	if engine == "" {
		parttest.Need(t, "ASSAY_VLLM_URL is not set: .ci/run starts the engine")
	}
	s := prepare(t)
	s.args = []string{"--heartbeat", "5s"}
	n := newLife(s, s.database)
	s.start()
	t.Cleanup(func() { s.kill() })
	requests, tokens := n.counted(engine)

	n.policy()
	n.agentRuns(engine)
	n.until("pending", "no baseline")
	n.assay("node", "approve", n.node, "--reason", "the first of this network")
	n.until("admitted", "")

	b := n.benchmark()
	var version struct{ Version string }
	if err := json.Unmarshal(n.page(engine+"/version"), &version); err != nil {
		t.Fatal(err)
	}
	if b.Engine.Model != "tiny" || version.Version == "" || !strings.Contains(b.Engine.Version, version.Version) {
		t.Errorf("the report is about %+v; the engine is vLLM %s with the model tiny", b.Engine, version.Version)
	}
	measured := map[string]ledger.Result{}
	for _, r := range b.Results {
		measured[r.Metric+r.Stat] = r
	}
	for _, name := range []string{"ttft_msp50", "tpot_msp50", "output_tokens_per_second"} {
		if r := measured[name]; r.Value == nil || *r.Value <= 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	after, produced := n.counted(engine)
	done := float64(measured["e2e_msp50"].N)
	if after-requests < done || produced-tokens < done || done == 0 {
		t.Errorf("the report has %v requests; the engine itself counted %v, with %v tokens", done, after-requests, produced-tokens)
	}
	t.Logf("%v requests reported; vLLM %s counted %v with %v tokens", done, version.Version, after-requests, produced-tokens)
}

// benchmark is the statement with the figures that the server took.
func (n *life) benchmark() (b ledger.Benchmark) {
	n.t.Helper()
	for _, envelope := range n.records() {
		e, err := ledger.ReadEnvelope(envelope)
		if err != nil {
			n.t.Fatal(err)
		}
		s, _, err := ledger.ParseStatement(e.Payload)
		if err != nil {
			n.t.Fatal(err)
		}
		if s.PredicateType != ledger.GPUBenchmark {
			continue
		}
		if err := json.Unmarshal(s.Predicate, &b); err != nil {
			n.t.Fatal(err)
		}
		return b
	}
	n.t.Fatal("there is no statement with figures")
	return b
}

// counted are the requests and tokens that an engine has finished, by its own count.
func (n *life) counted(engine string) (requests, tokens float64) {
	n.t.Helper()
	for line := range strings.Lines(string(n.page(engine + "/metrics"))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		v, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
		case strings.HasPrefix(name, "vllm:request_success_total{"):
			requests += v
		case strings.HasPrefix(name, "vllm:generation_tokens_total{"):
			tokens += v
		}
	}
	return requests, tokens
}

func (n *life) page(address string) []byte {
	n.t.Helper()
	r, err := http.Get(address)
	if err != nil {
		n.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(io.LimitReader(r.Body, 10<<20))
	if err != nil || r.StatusCode != http.StatusOK {
		n.t.Fatalf("%s: %s %v", address, r.Status, err)
	}
	return b
}
