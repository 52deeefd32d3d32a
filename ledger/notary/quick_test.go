package notary

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/ledger"
)

// slowStatement is how the two verdicts on a run's statement are defined.
func slowStatement(payload []byte) (string, ledger.Stamp, error) {
	s, st, err := ledger.ParseStatement(payload)
	if err == nil {
		err = shape(s)
	}
	return s.PredicateType, st, err
}

// samePayload compares the two readers: whatever the quick one takes, the other
// takes too, with the same meaning.
func samePayload(t *testing.T, payload []byte) (quick bool) {
	t.Helper()
	kind, st, ok := quickStatement(payload)
	if !ok {
		return false
	}
	k, s, err := slowStatement(payload)
	if err != nil || k != kind || s.ID != st.ID || s.Node != st.Node || s.Nonce != st.Nonce || !s.Time.Equal(st.Time) {
		t.Errorf("quick %s %+v\nslow  %s %+v, %v\n%s", kind, st, k, s, err, payload)
	}
	return true
}

// payloads are statements as our programs write them: with everything that a
// predicate may have, and with as little.
func payloads(t testing.TB) map[string][]byte {
	t.Helper()
	encode := func(kind string, predicate any) []byte {
		s := statement(ulid.Make(), "node-0", epoch, 3)
		s.PredicateType, s.Predicate = kind, must(json.Marshal(predicate))
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(s); err != nil {
			t.Fatal(err)
		}
		return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	}
	v, lo := 12.5e-7, -3.25
	score := 0.0
	stamp := ledger.Stamp{ID: ulid.Make(), Node: "node-0", Nonce: "00ff", Time: epoch.Add(time.Nanosecond)}
	full := ledger.Benchmark{
		Stamp: stamp, Run: ledger.BenchmarkRun{ID: "r", Status: assay.Status("done"), Created: epoch},
		Engine:      assay.Engine{URL: "http://[::1]:1/v1?a=b&c", Backend: "openai", Model: "modèle \"x\"\t<y>\u2028", Version: "v\\1"},
		GPUs:        []ledger.BenchmarkGPU{{UUID: "GPU-1", Name: "a"}, {UUID: "", Name: "b"}},
		Tool:        ledger.BenchmarkTool{Assay: "v1", Go: "go1.26"},
		Certificate: "certified",
		Results: []ledger.Result{
			{Stage: "s", Metric: "m", Stat: "p50", Unit: "ms", Value: &v, Lo: &lo, Hi: &score, N: 1},
			{Stage: "s", Metric: "m", Why: "nothing was measured"},
			{Stage: "s", Metric: "m", Value: &score, Why: "but"},
		},
		LeftOut: 12, Health: &ledger.BenchmarkHealth{Score: &score, Verdict: assay.Pass, Because: "so"},
	}
	plain := ledger.Benchmark{Stamp: stamp, Run: full.Run, GPUs: []ledger.BenchmarkGPU{}, Tool: full.Tool, Results: []ledger.Result{}}
	unscored := plain
	unscored.Health = &ledger.BenchmarkHealth{}
	result := ledger.TestResultPredicate{
		Result: "WARNED", Passed: []string{"check/a", "b"}, Warned: []string{}, Failed: []string{"c\n"},
		Configuration: []ledger.ResourceDescriptor{{Name: "run.json#config", Digest: map[string]string{"sha256": fmt.Sprintf("%064x", 7)}, Annotations: &stamp}},
	}
	out := map[string][]byte{
		"all": encode(ledger.GPUBenchmark, full), "little": encode(ledger.GPUBenchmark, plain), "unscored": encode(ledger.GPUBenchmark, unscored),
		"test-result": encode(ledger.TestResult, result),
	}
	for _, name := range []string{"gpu-benchmark", "test-result"} { // as package ledger makes them of a run
		b, err := os.ReadFile(filepath.Join("..", "testdata", name+".statement.json"))
		if err != nil {
			t.Fatal(err)
		}
		var c bytes.Buffer
		if err := json.Compact(&c, b); err != nil {
			t.Fatal(err)
		}
		out["golden "+name] = c.Bytes()
	}
	return out
}

func TestOwnStatementsAreReadInOnePass(t *testing.T) {
	for name, payload := range payloads(t) {
		if !samePayload(t, payload) {
			t.Errorf("%s is read by the slow way: does quick.go know all members?\n%s", name, payload)
		}
	}
}

// Each byte is replaced, left out and doubled, and words are put where they do not
// belong: what the quick reader still takes means the same to the other.
func TestOnePassIsNoLaxer(t *testing.T) {
	words := []string{
		`"`, `\`, `\"`, `\u00`, `\u0041`, `\x`, `,`, `:`, `{`, `}`, `[`, `]`, ` `, "\n", "\x00", "\xff", "é", `null`, `0`, `00`, `-`, `1e999`, `1E5`, `.`, `1.`, `.5`, `e`, `+1`,
		`9223372036854775808`, `123456789012345678901234567890123456789012345`, `""`, `{}`, `[]`, `,"x":1`, `,"n":1`, `"n":-1`, `A`, `z`, `true`, `0001-01-01T00:00:00Z`,
	}
	taken := 0
	try := func(payload []byte) {
		if samePayload(t, payload) {
			taken++
		}
	}
	all := payloads(t)
	for _, name := range []string{"all", "test-result"} {
		payload := all[name]
		for i := range payload {
			if t.Failed() {
				t.Fatalf("%s, byte %d", name, i)
			}
			for _, w := range words {
				try(append(append(bytes.Clone(payload[:i]), w...), payload[i:]...))
				try(append(append(bytes.Clone(payload[:i]), w...), payload[i+1:]...))
			}
			try(append(bytes.Clone(payload[:i]), payload[i+1:]...))
			try(append(bytes.Clone(payload[:i+1]), payload[i:]...))
			try(payload[:i])
		}
	}
	if taken < 1000 {
		t.Errorf("only %d changed statements were taken: nothing was compared", taken)
	}
}

func FuzzOnePass(f *testing.F) {
	for _, payload := range payloads(f) {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload []byte) { samePayload(t, payload) })
}
