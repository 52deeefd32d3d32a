package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/ledger"
)

// statement makes a signed gpu-benchmark statement of a run that never was, with
// the members and about the size of a real one.
func (k nodeKey) statement(ctx context.Context, now time.Time) (ledger.Record, error) {
	var chance [96]byte
	if _, err := rand.Read(chance[:]); err != nil {
		return ledger.Record{}, err
	}
	id, err := ulid.New(ulid.Timestamp(now), rand.Reader)
	if err != nil {
		return ledger.Record{}, err
	}
	now = now.UTC().Truncate(time.Millisecond)
	digest := func(i int) map[string]string {
		return map[string]string{"sha256": hex.EncodeToString(chance[i : i+32])}
	}
	var subjects []ledger.ResourceDescriptor
	for i, name := range []string{"run.json", "requests.jsonl", "telemetry.jsonl", "checkpoint.json", "summary.json", "run.json#config"} {
		subjects = append(subjects, ledger.ResourceDescriptor{Name: name, Digest: digest(8 * i)})
	}
	score := 93.5
	b := ledger.Benchmark{
		Stamp:  ledger.Stamp{ID: id, Node: k.key.Node, Nonce: hex.EncodeToString(chance[64:80]), Time: now},
		Run:    ledger.BenchmarkRun{ID: id.String(), Status: assay.StatusComplete, Created: now.Add(-time.Minute)},
		Engine: assay.Engine{URL: "http://127.0.0.1:8000", Backend: "openai-chat", Model: "small_model"},
		GPUs:   []ledger.BenchmarkGPU{{UUID: "GPU-" + hex.EncodeToString(chance[80:96]), Name: "Simulated"}},
		Tool:   ledger.BenchmarkTool{Assay: "statements", Go: "go"}, Certificate: assay.Certified,
		Health: &ledger.BenchmarkHealth{Score: &score, Verdict: assay.Pass, Because: "nothing is wrong"},
	}
	for i, metric := range []string{"ttft_ms", "tpot_ms", "e2e_ms", "requests_per_second"} {
		v, lo, hi := 1+float64(chance[i]), float64(chance[i]), 2+float64(chance[i])
		b.Results = append(b.Results, ledger.Result{Stage: "steady", Metric: metric, Unit: "ms", Value: &v, Lo: &lo, Hi: &hi, N: 1000})
	}
	payload, err := encoded(ledger.GPUBenchmark, subjects, b)
	if err != nil {
		return ledger.Record{}, err
	}
	e, err := ledger.Sign(ctx, k.signer, payload)
	if err != nil {
		return ledger.Record{}, err
	}
	return ledger.Record{ID: id, Kind: ledger.KindEnvelope, Node: k.key.Node, Value: e.Encode()}, nil
}

func encoded(kind string, subjects []ledger.ResourceDescriptor, predicate any) ([]byte, error) {
	raw, err := json.Marshal(predicate)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(ledger.Statement{Type: ledger.StatementType, Subject: subjects, PredicateType: kind, Predicate: raw}); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
