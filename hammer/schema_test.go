package hammer

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/simulate"
)

// What a run really writes keeps the schemas of docs/formats.
func TestRunDirectoryKeepsItsSchemas(t *testing.T) {
	c := short(engine(t, simulate.Config{TTFT: 2 * time.Millisecond, ITL: time.Millisecond, Faults: simulate.Faults{Reset: 0.1, Status: map[int]float64{500: 0.1}}}), "ollama")
	c.Load = Load{Mode: ModeSweep, Levels: []int{1, 3}, Rates: []float64{50}, Duration: assay.Duration(1500 * time.Millisecond), Burstiness: 1, Grace: assay.Duration(time.Second)}
	c.Judge.Goodput = []assay.Limit{{Metric: "ttft", MaxMS: 100}}
	c.Judge.Objectives = []assay.Objective{{Metric: "ttft", Stat: "p50", Max: 100}}
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := Run(t.Context(), c, dir, Options{Version: assay.Version{Assay: "test", Go: "go"}}); err != nil {
		t.Fatal(err)
	}
	for file, schema := range map[string]string{
		"run.json": "run", "requests.jsonl": "request", "telemetry.jsonl": "reading",
		"events.jsonl": "event", "checkpoint.json": "checkpoint", "summary.json": "summary",
	} {
		s, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "docs", "formats", "schema", schema+".schema.json"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		docs := [][]byte{b}
		if filepath.Ext(file) == ".jsonl" {
			docs = bytes.Split(bytes.TrimSpace(b), []byte("\n"))
		}
		for i, d := range docs {
			v, err := jsonschema.UnmarshalJSON(bytes.NewReader(d))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if err := s.Validate(v); err != nil {
				t.Errorf("%s, document %d: %v\n%.300s", file, i+1, err, d)
				break
			}
		}
	}
}
