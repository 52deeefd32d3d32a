package campaign

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay/cmd/internal/cli"
)

const example = "../../../examples/campaigns/gpu-matrix.yaml"

// run runs the command as the program does.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	root := cli.Root("assay", nil, New())
	root.SetOut(&out)
	root.SetErr(&errs)
	code = cli.Run(t.Context(), root, args)
	return code, out.String(), errs.String()
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The names of the plan's members are fixed: other programs read them.
func TestPlanPrintsFixedNames(t *testing.T) {
	code, stdout, stderr := run(t, "campaign", "plan", example, "--offline", "--format", "json")
	if code != 0 {
		t.Fatalf("%d %s", code, stderr)
	}
	var p struct {
		Cells []map[string]any `json:"cells"`
		Count int              `json:"count"`
		Run   int              `json:"runnable"`
	}
	if err := json.Unmarshal([]byte(stdout), &p); err != nil {
		t.Fatal(err)
	}
	if p.Count != 21 || p.Run != 21 || len(p.Cells) != 21 {
		t.Errorf("%d cells, %d runnable", p.Count, p.Run)
	}
	for _, name := range []string{"gpu", "provider", "model", "engine", "skip"} {
		if _, ok := p.Cells[0][name]; !ok {
			t.Errorf("a cell has no %s: %v", name, p.Cells[0])
		}
	}
}

func TestPlanForPeople(t *testing.T) {
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	big := write(t, "big.yaml", string(text)+`  - gpus: [RTX 3090]
    providers: [static]
    models: ["deepseek-r1:70b"]
`)
	code, stdout, stderr := run(t, "campaign", "plan", big, "--offline")
	if code != 0 {
		t.Fatalf("%d %s", code, stderr)
	}
	for _, want := range []string{"Plan of gpu-matrix", "RTX 3090/static/deepseek-r1:70b/ollama: it needs 41.8 GiB and 23.3 GiB are usable", "only shut itself down: its disk is billed", "the machine is one's own, and costs nothing"} {
		if !strings.Contains(strings.Join(strings.Fields(stdout), " "), want) {
			t.Errorf("it lacks %q:\n%s", want, stdout)
		}
	}
}

func TestPlanExitCodes(t *testing.T) {
	none := write(t, "none.yaml", "format: assay/matrix/v1\ncells:\n  - {gpus: [RTX 3090], providers: [vast], models: [\"deepseek-r1:70b\"]}\n")
	bad := write(t, "bad.yaml", "format: assay/matrix/v1\ncells:\n  - {gpus: [RTX 3090], providers: [vast], models: []}\n")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{none, "--offline"}, 3, "no cell can run"},
		{[]string{bad, "--offline"}, 1, "bad.yaml:3:51: cells[0].models: write a list"},
		{[]string{none + ".not", "--offline"}, 1, "no such file"},
		{[]string{none, "--offline", "--format", "xml"}, 1, "unknown format"},
		{nil, 1, "which matrix?"},
	} {
		code, _, stderr := run(t, append([]string{"campaign", "plan"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: %d %s", c.args, code, stderr)
		}
	}
	if code, _, stderr := run(t, "campaign", "paln"); code != 1 || !strings.Contains(stderr, "did you mean plan?") {
		t.Errorf("%d %s", code, stderr)
	}
	for flag, want := range map[string]string{"--output": "did you mean --out?", "--databas": "did you mean --database?", "--foo": "lists its flags"} {
		if code, _, stderr := run(t, "campaign", "report", flag, "x"); code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s", flag, code, stderr)
		}
	}
	if code, _, stderr := run(t, "campaign", "reap", "--database", "sqlite:"+t.TempDir()+"/new.db", "--confirm", "nope"); code == 0 || strings.HasSuffix(stderr, "not found\n") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
