package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay/cmd/internal/cli"
)

// typed runs one of our commands as a person types it.
func typed(t *testing.T, words ...string) (stdout, stderr string, code int) {
	t.Helper()
	root := cli.Root("assay", nil, New(), Runs())
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	code = cli.Run(t.Context(), root, words)
	return out.String(), errs.String(), code
}

// example copies the run of the format's page to where hammer would put it.
func example(t *testing.T, dir string) {
	t.Helper()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "..", "journal", "testdata", "run-v1"))); err != nil {
		t.Fatal(err)
	}
}

func TestRunsAndLatest(t *testing.T) {
	schema := jsonschema.NewCompiler().MustCompile(filepath.Join("..", "..", "..", "docs", "formats", "schema", "runs.schema.json"))
	dir := t.TempDir()
	wd, err := filepath.Abs(filepath.Join("..", "..", "..", "journal", "testdata", "run-v1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if _, stderr, code := typed(t, "runs"); code != cli.ExitUsage || !strings.Contains(stderr, "assay hammer") {
		t.Errorf("without a directory: exit %d, %s", code, stderr)
	}
	if _, stderr, code := typed(t, "report", "latest"); code != cli.ExitUnknown || !strings.Contains(stderr, "assay hammer") {
		t.Errorf("latest of nothing: exit %d, %s", code, stderr)
	}
	if err := os.CopyFS(filepath.Join("runs", "one"), os.DirFS(wd)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join("runs", "z-not-a-run"), 0o755); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := typed(t, "runs")
	if code != cli.ExitOK || !strings.Contains(stdout, filepath.Join("runs", "one")) || !strings.Contains(stdout, "certified") || stderr != "" {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
	stdout, _, code = typed(t, "runs", "--format", "json")
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(stdout))
	if err != nil || code != cli.ExitOK {
		t.Fatalf("exit %d, %v: %s", code, err, stdout)
	}
	if err := schema.Validate(v); err != nil {
		t.Error(err)
	}
	if stdout, stderr, code := typed(t, "report", "latest"); code != cli.ExitOK || !strings.Contains(stdout, "CERTIFIED") {
		t.Errorf("latest: exit %d: %s%s", code, stdout, stderr)
	}
}

// The name that a report is written to says its format, unless somebody else does.
func TestFormatByName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	example(t, dir)
	for name, want := range map[string]string{"x.html": "<!doctype html>", "x.MD": "# ", "x.json": "{", "x.txt": "made-up at"} {
		to := filepath.Join(t.TempDir(), name)
		if _, stderr, code := typed(t, "report", dir, "-o", to); code != cli.ExitOK {
			t.Fatalf("%s: exit %d: %s", name, code, stderr)
		}
		b, err := os.ReadFile(to)
		if err != nil || !bytes.HasPrefix(b, []byte(want)) {
			t.Errorf("%s: %v, begins %q, want %q", name, err, b[:min(len(b), 20)], want)
		}
	}
	to := filepath.Join(t.TempDir(), "x.html")
	if _, stderr, code := typed(t, "report", dir, "-f", "json", "-o", to); code != cli.ExitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	b, err := os.ReadFile(to)
	if err != nil || !json.Valid(b) {
		t.Errorf("--format json is not kept: %v", err)
	}
}
