package journal_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay/journal"
)

func schema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "docs", "formats", "schema", name+".schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func document(t *testing.T, b []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// What the code writes keeps the schemas of the format's page.
func TestSchemasHold(t *testing.T) {
	for file, name := range map[string]string{
		journal.RunFile: "run", journal.RequestsFile: "request", journal.TelemetryFile: "reading", journal.ChecksFile: "check",
		journal.EventsFile: "event", journal.CheckpointFile: "checkpoint", journal.SummaryFile: "summary",
	} {
		s := schema(t, name)
		b, err := os.ReadFile(filepath.Join(exampleDir, file))
		if err != nil {
			t.Fatal(err)
		}
		docs := [][]byte{b}
		if strings.HasSuffix(file, ".jsonl") {
			docs = bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
		}
		for i, d := range docs {
			if err := s.Validate(document(t, d)); err != nil {
				t.Errorf("%s document %d: %v", file, i+1, err)
			}
		}
	}
}

// The schemas refuse documents that were altered.
func TestSchemasRefuse(t *testing.T) {
	line := func(file, with string) string {
		b, err := os.ReadFile(filepath.Join(exampleDir, file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, ".jsonl") {
			return string(b)
		}
		for l := range strings.Lines(string(b)) {
			if strings.Contains(l, with) {
				return l
			}
		}
		t.Fatalf("%s has no line with %s", file, with)
		return ""
	}
	set := func(path string, v any) func(any) {
		return func(doc any) {
			keys := strings.Split(path, ".")
			for _, k := range keys[:len(keys)-1] {
				switch d := doc.(type) {
				case map[string]any:
					doc = d[k]
				case []any:
					var i int
					if _, err := fmt.Sscan(k, &i); err != nil {
						t.Fatal(err)
					}
					doc = d[i]
				}
			}
			m, ok := doc.(map[string]any)
			if !ok {
				t.Fatalf("%s leads nowhere", path)
			}
			if v == nil {
				if _, ok := m[keys[len(keys)-1]]; !ok {
					t.Fatalf("%s is not there to be removed", path)
				}
				delete(m, keys[len(keys)-1])
				return
			}
			m[keys[len(keys)-1]] = v
		}
	}
	for _, c := range []struct {
		schema, file, with string
		alter              func(any)
	}{
		{"run", journal.RunFile, "", set("format", "assay/run/v2")},
		{"run", journal.RunFile, "", set("clock", "sun")},
		{"run", journal.RunFile, "", set("judge", nil)},
		{"run", journal.RunFile, "", set("node.gpus", "none")},
		{"run", journal.RunFile, "", set("surprise", true)},
		{"request", journal.RequestsFile, "gaps_us", set("id", nil)},
		{"request", journal.RequestsFile, "gaps_us", set("id", "")},
		{"request", journal.RequestsFile, "gaps_us", set("first_ns", nil)},
		{"request", journal.RequestsFile, "gaps_us", set("sent_ns", json.Number("0"))},
		{"request", journal.RequestsFile, "gaps_us", set("sent_ns", json.Number("1.5"))},
		{"request", journal.RequestsFile, "gaps_us", set("gaps_us", []any{})},
		{"request", journal.RequestsFile, "gaps_us", set("gaps_us", []any{json.Number("4294967296")})},
		{"request", journal.RequestsFile, "gaps_us", set("tokens_from", "guess")},
		{"request", journal.RequestsFile, `"error"`, set("error", "bad_luck")},
		{"request", journal.RequestsFile, `"error"`, set("error", nil)},
		{"request", journal.RequestsFile, `"engine"`, set("engine.extra_ns", json.Number("1"))},
		{"request", journal.RequestsFile, "gaps_us", set("prompt", nil)},
		{"reading", journal.TelemetryFile, "value", set("value", nil)},
		{"reading", journal.TelemetryFile, "value", set("counts", []any{json.Number("1"), json.Number("1")})},
		{"reading", journal.TelemetryFile, "counts", set("counts", []any{json.Number("-1"), json.Number("1")})},
		{"reading", journal.TelemetryFile, "value", set("t_ns", nil)},
		{"event", journal.EventsFile, "stage_started", set("plan", nil)},
		{"event", journal.EventsFile, "stage_started", set("plan.kind", "sideways")},
		{"event", journal.EventsFile, "stage_steady", set("plan", map[string]any{"name": "c1", "kind": "closed"})},
		{"event", journal.EventsFile, "stage_steady", set("kind", "")},
		{"checkpoint", journal.CheckpointFile, "", set("status", "done")},
		{"checkpoint", journal.CheckpointFile, "", set("errors.bad_luck", json.Number("1"))},
		{"checkpoint", journal.CheckpointFile, "", set("offsets", []any{})},
		{"summary", journal.SummaryFile, "", set("format", "assay/run/v1")},
		{"summary", journal.SummaryFile, "", set("status", "running")},
		{"summary", journal.SummaryFile, "", set("client.certificate", "fine")},
		{"summary", journal.SummaryFile, "", set("client.certificate", "invalid")}, // without a cause
		{"summary", journal.SummaryFile, "", set("client.lag_us", nil)},
		{"summary", journal.SummaryFile, "", set("stages.0.ttft_ms.p99", nil)},
		{"summary", journal.SummaryFile, "", set("stages.0.ttft_ms.n", json.Number("0"))},
		{"summary", journal.SummaryFile, "", set("stages.0.error_rate", json.Number("1.5"))},
		{"summary", journal.SummaryFile, "", set("stages.0.kept", "maybe")},
		{"summary", journal.SummaryFile, "", set("stages.0.errors", nil)},
		{"summary", journal.SummaryFile, "", set("scaling.knee.n", json.Number("0"))},
		{"summary", journal.SummaryFile, "", set("warnings", nil)},
	} {
		doc := document(t, []byte(line(c.file, c.with)))
		s := schema(t, c.schema)
		if err := s.Validate(doc); err != nil {
			t.Fatalf("%s: refused before it was altered: %v", c.schema, err)
		}
		c.alter(doc)
		if err := s.Validate(doc); err == nil {
			b, _ := json.Marshal(doc)
			t.Errorf("%s takes what was altered: %.300s", c.schema, b)
		}
	}
}
