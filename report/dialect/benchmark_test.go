package dialect

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay"
)

// script is the summary as the benchmark script computes it from its results:
// by whether an entry has tokens or error, and nothing else.
func script(results []map[string]any) (total, valid, failed int, tokens float64) {
	for _, r := range results {
		if n, ok := r["tokens"]; ok {
			valid++
			tokens += n.(float64)
		}
		if _, ok := r["error"]; ok {
			failed++
		}
	}
	return len(results), valid, failed, tokens
}

func checkpoint(t *testing.T, c assay.Checkpoint, list []*assay.Request) (string, map[string]any) {
	t.Helper()
	var b bytes.Buffer
	if err := BenchmarkCheckpoint(&b, manifest, c, seq(list)); err != nil {
		t.Fatal(err)
	}
	s, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "docs", "formats", "schema", "benchmark-checkpoint.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatalf("%v in %s", err, b.String())
	}
	if err := s.Validate(doc); err != nil {
		t.Errorf("%v in %s", err, b.String())
	}
	var m map[string]any
	if err := json.Unmarshal(b.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	return b.String(), m
}

func TestBenchmarkCheckpointIsTheScripts(t *testing.T) {
	list := invented()
	at := time.Date(2026, 8, 22, 15, 45, 9, 250_000_000, time.UTC).UnixNano()
	text, m := checkpoint(t, assay.Checkpoint{At: at, Status: assay.StatusComplete}, list)
	if m["status"] != "completed" || m["model"] != "org/tiny" || m["timestamp"] != "2026-08-22T15:45:09.250000" {
		t.Errorf("%v %v %v", m["status"], m["model"], m["timestamp"])
	}
	// The script writes these keys in this order.
	last := -1
	for _, key := range []string{"status", "model", "timestamp", "results", "summary"} {
		i := strings.Index(text, "\n  \""+key+"\": ")
		if i <= last {
			t.Errorf("%s stands at %d, after %d", key, i, last)
		}
		last = i
	}
	var results []map[string]any
	for _, r := range m["results"].([]any) {
		results = append(results, r.(map[string]any))
	}
	total, valid, failed, tokens := script(results)
	sum := m["summary"].(map[string]any)
	if total == 0 || failed == 0 || total != valid+failed {
		t.Fatalf("%d results, %d with tokens, %d with an error", total, valid, failed)
	}
	for key, want := range map[string]float64{
		"total_requests": float64(total), "successful_requests": float64(valid), "error_count": float64(failed), "total_tokens": tokens,
	} {
		if sum[key] != want {
			t.Errorf("%s is %v, the script has %v", key, sum[key], want)
		}
	}
	seconds, rate := sum["duration_seconds"].(float64), sum["tokens_per_second"].(float64)
	if !(math.Abs(rate*seconds/tokens-1) < 1e-12) {
		t.Errorf("%v tokens in %v s are not %v a second", tokens, seconds, rate)
	}
	// What was counted is what was sent and judged, by the record itself.
	counts, first, end := 0, int64(math.MaxInt64), int64(0)
	for _, r := range list {
		if !r.Warmup && r.Error != assay.FailNeverSent {
			counts++
			first, end = min(first, r.Sent), max(end, r.End)
		}
	}
	if counts != total || !(math.Abs(seconds-float64(end-first)/1e9) < 1e-6) {
		t.Errorf("%d results over %v s, recorded are %d over %v s", total, seconds, counts, float64(end-first)/1e9)
	}
	for i, r := range slices.Backward(results) {
		if n, ok := r["tokens"]; ok && !(math.Abs(r["duration_seconds"].(float64)*r["tokens_per_second"].(float64)-n.(float64)) < 1e-9) {
			t.Errorf("result %d: %v", i, r)
		}
	}
}

func TestBenchmarkStatusesAreTheScripts(t *testing.T) {
	ok := &assay.Request{Sent: 5e9, First: 6e9, Last: 7e9, End: 7e9, OutputTokens: 8}
	cut := &assay.Request{Sent: 5e9, End: 9e9, Error: assay.FailCancelled, Detail: "after 3 tokens"}
	for _, c := range []struct {
		status assay.Status
		list   []*assay.Request
		want   string
	}{
		{assay.StatusComplete, []*assay.Request{ok, cut}, "completed"},
		{assay.StatusRunning, []*assay.Request{ok, cut}, "running"},
		{assay.StatusPartial, []*assay.Request{ok, cut}, "running"},
		{assay.StatusPartial, []*assay.Request{cut}, "started"},
		{assay.StatusRunning, nil, "started"},
	} {
		_, m := checkpoint(t, assay.Checkpoint{At: 8e9, Status: c.status}, c.list)
		if m["status"] != c.want || m["timestamp"] != "1970-01-01T00:00:08" {
			t.Errorf("%s with %d requests: %v at %v, want %s", c.status, len(c.list), m["status"], m["timestamp"], c.want)
		}
		if (m["summary"] == nil) != (c.want == "started") {
			t.Errorf("%s: summary %v", c.want, m["summary"])
		}
	}
}

func TestBenchmarkResultsAreTheSummary(t *testing.T) {
	list := invented()
	_, m := checkpoint(t, assay.Checkpoint{At: 8e9, Status: assay.StatusComplete}, list)
	var b bytes.Buffer
	if err := BenchmarkResults(&b, seq(list)); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := m["summary"].(map[string]any)
	if len(got) != 6 || len(want) != 6 {
		t.Errorf("%d and %d keys", len(got), len(want))
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %v alone and %v in the checkpoint", k, got[k], v)
		}
	}
	b.Reset()
	if err := BenchmarkResults(&b, seq(nil)); err != nil || b.String() != "null\n" {
		t.Errorf("of nothing: %q, %v", b.String(), err)
	}
}

// A record that cannot be read to its end is an error, not a shorter file, and
// what an engine said steers no terminal.
func TestBenchmarkCheckpointOfBadInput(t *testing.T) {
	broken := func(yield func(*assay.Request, error) bool) {
		_ = yield(&assay.Request{Sent: 5e9, End: 7e9}, nil) && yield(nil, errors.New("line 2 is damaged"))
	}
	for _, write := range []func(iter.Seq2[*assay.Request, error]) error{
		func(s iter.Seq2[*assay.Request, error]) error {
			return BenchmarkCheckpoint(&bytes.Buffer{}, manifest, assay.Checkpoint{}, s)
		},
		func(s iter.Seq2[*assay.Request, error]) error { return BenchmarkResults(&bytes.Buffer{}, s) },
	} {
		if err := write(broken); err == nil || !strings.Contains(err.Error(), "line 2 is damaged") {
			t.Error(err)
		}
	}
	hostile := manifest
	hostile.Engine.Model = "m\x1b[2J\u202e\u009b"
	var b bytes.Buffer
	r := &assay.Request{Sent: 5e9, End: 7e9, Error: assay.FailHTTP5xx, Detail: "\u202e\u009b2J"}
	if err := BenchmarkCheckpoint(&b, hostile, assay.Checkpoint{}, seq([]*assay.Request{r})); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsFunc(b.String(), func(c rune) bool { return c > 0x7e || c < ' ' && c != '\n' }) {
		t.Errorf("%q", b.String())
	}
}
