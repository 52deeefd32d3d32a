package acceptance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Ten experiments between two simulators that are the same: how often a
// difference is found that is not there. At a level of 5 %, two of ten or more
// come up in nine of a hundred such tens.
func TestTenExperimentsBetweenEquals(t *testing.T) {
	assay := program(t, "assay")
	if !long() {
		t.Skip("ten experiments take about ten minutes: .ci/run long")
	}
	found := 0
	for i := range 10 {
		dir := t.TempDir()
		file := filepath.Join(dir, "bench.yaml")
		engine := func(name string) string {
			return fmt.Sprintf("  - name: %s\n    serve:\n      command: [%q, simulate, --listen, \"127.0.0.1:{port}\", --ttft, 20ms, --itl, 5ms]\n      health: /health\n", name, assay)
		}
		text := "benchmark: {name: equals, output_dir: " + filepath.Join(dir, "out") + "}\nengines:\n" + engine("a") + engine("b") +
			"workloads:\n  - name: short\n    test_cases: [{prompt: Hello, max_tokens: 16, temperature: 0}]\n    iterations: 20\n    warmup_iterations: 2\n" +
			fmt.Sprintf("system: {cool_down_seconds: 0}\nexperiment: {rounds: 10, pilot: 0, seed: %d}\n", i+1)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		r := run(t, assay, "compare", file, "--quiet", "--format", "json")
		if r.exit != 0 {
			t.Fatalf("exit %d: %s", r.exit, r.stderr)
		}
		b, err := os.ReadFile(filepath.Join(dir, "out", "summary.json"))
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			Summary struct {
				Fastest string `json:"fastest_engine"`
			} `json:"summary"`
		}
		if err := json.Unmarshal(b, &s); err != nil {
			t.Fatal(err)
		}
		say(t, "experiment %d: %s", i+1, s.Summary.Fastest)
		if s.Summary.Fastest != "tied" {
			found++
		}
	}
	say(t, "a difference between equals in %d of 10 experiments", found)
	if found > 2 {
		t.Errorf("%d of 10", found)
	}
}
