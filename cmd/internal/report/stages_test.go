package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay/cmd/internal/cli"
)

// A run is written in other tools' formats, from its directory alone.
func TestOtherToolsFormats(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	example(t, dir)
	out := filepath.Join(t.TempDir(), "new")
	for format, file := range map[string]string{"aiperf": "profile_export_aiperf*.json", "llm-d": "benchmark_report_v0.2*.json"} {
		stdout, stderr, code := typed(t, "report", dir, "--format", format, "--output", out)
		if code != cli.ExitOK {
			t.Fatalf("%s: exit %d: %s", format, code, stderr)
		}
		names, err := filepath.Glob(filepath.Join(out, file))
		if err != nil || len(names) < 2 {
			t.Errorf("%s: %q, %v: a file for each stage is wanted", format, names, err)
		}
		for _, name := range names {
			if !strings.Contains(stdout, "wrote "+name+"\n") {
				t.Errorf("%s does not say that it wrote %s: %q", format, name, stdout)
			}
			b, err := os.ReadFile(name)
			if err != nil || !json.Valid(b) || !strings.Contains(string(b), "01K74T0AB") {
				t.Errorf("%s: %v, does not say of which run it is:\n%s", name, err, b)
			}
		}
	}
	stdout, stderr, code := typed(t, "report", dir, "--format", "vllm")
	if code != cli.ExitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	schema := jsonschema.NewCompiler().MustCompile(filepath.Join("..", "..", "..", "docs", "formats", "schema", "vllm-result.schema.json"))
	for line := range strings.Lines(stdout) {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Error(err)
		}
	}
}

// The name of a stage is a stranger's, and leads to no other file.
func TestStagesNameFiles(t *testing.T) {
	for _, c := range []struct {
		stage string
		n, of int
		want  string
	}{
		{"c4", 0, 1, "x.json"},
		{"../../etc/passwd", 0, 1, "x.json"},
		{"c4", 1, 3, "x-c4.json"},
		{"rate-2.5", 1, 3, "x-rate-2.5.json"},
		{"../../etc/passwd", 1, 3, "x-2.json"},
		{"", 2, 3, "x-3.json"},
		{".", 0, 2, "x-1.json"},
		{"a\x00b", 0, 2, "x-1.json"},
		{strings.Repeat("a", 300), 0, 2, "x-1.json"},
	} {
		if got := stageFile("x", c.stage, c.n, c.of); got != c.want {
			t.Errorf("%q, %d of %d: %q, want %q", c.stage, c.n, c.of, got, c.want)
		}
	}
}
