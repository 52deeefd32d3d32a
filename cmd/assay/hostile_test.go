package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/assay-bench/assay/cmd/internal/cli"
)

// evil is what a node, an engine or a file's name may hold: sequences of a
// terminal by C0 and by C1, and characters that turn the writing around.
const evil = "x\x1b[2J\x1b]0;owned\a\u009b31m\u009d0;owned\u009c\u202eevil\u2066\u200f\x7f"

// loud finds what a terminal would obey, or what is no text at all.
func loud(s string) (at int, found bool) {
	for i, r := range s {
		if r == '\n' || r == '\t' {
			continue
		}
		if unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			return i, true
		}
	}
	return 0, false
}

// quiet runs a command line and wants nothing of evil in what it prints, but its
// word, so that a test which prints nothing fails.
func quiet(t *testing.T, args ...string) {
	t.Helper()
	var out, errs bytes.Buffer
	r := root()
	r.SetOut(&out)
	r.SetErr(&errs)
	code := cli.Run(t.Context(), r, args)
	for name, text := range map[string]string{"stdout": out.String(), "stderr": errs.String()} {
		if at, found := loud(text); found {
			t.Errorf("%q, exit %d: %s has %q", args, code, name, text[max(0, at-60):min(len(text), at+60)])
		}
	}
	if !strings.Contains(out.String()+errs.String(), "evil") {
		t.Errorf("%q, exit %d: the name is not printed at all\n%s%s", args, code, out.String(), errs.String())
	}
}

// A file's name is printed by whoever cannot read it.
func TestFileNamesSteerNoTerminal(t *testing.T) {
	nothing := filepath.Join(t.TempDir(), evil)
	file := filepath.Join(t.TempDir(), evil+".yaml")
	if err := os.WriteFile(file, []byte("{"+evil), 0o644); err != nil {
		t.Skip(err) // a file system that has no such names
	}
	for _, args := range [][]string{
		{evil},
		{"ledger", evil},
		{"help", evil},
		{"report", nothing},
		{"report", t.TempDir(), "--format", evil},
		{"compare", nothing, nothing},
		{"compare", file},
		{"compare", "--analyze-only", "--results", nothing},
		{"claims", "run", nothing},
		{"claims", "run", file},
		{"ledger", "verify", nothing},
		{"ledger", "verify", t.TempDir(), "--trust", file},
		{"ledger", "sign", nothing, "--key", nothing},
		{"ledger", "fsck", nothing, "--policy", file},
		{"ledger", "keygen", nothing, "--kind", evil},
		{"hammer", "--config", file},
		{"hammer", "--profile", evil},
		{"simulate", "--model", evil, "--listen", evil},
	} {
		quiet(t, args...)
	}
}

// hostileRun is a run whose every name is somebody's who means harm.
func hostileRun(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), evil)
	if err := os.CopyFS(dir, os.DirFS("../../journal/testdata/run-v1")); err != nil {
		t.Skip(err)
	}
	word, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	hostile := strings.Trim(string(word), `"`)
	for name, old := range map[string][]string{
		"run.json":        {"made-up", "made up", "GPU-0", "bench", "node-1", "openai-chat", "0.1.0"},
		"summary.json":    {"made-up", "GPU-0", "openai-chat"},
		"requests.jsonl":  {`c1"`},
		"events.jsonl":    {`c1"`},
		"checks.jsonl":    {"compute.product", "the product has the known hash", "GPU-0", "the device multiplies right"},
		"telemetry.jsonl": {"GPU-0"},
	} {
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// One request was refused, with words.
		b = bytes.Replace(b, []byte(`"http_status":200`), []byte(`"error":"http_5xx","error_detail":"`+hostile+`","http_status":500`), 1)
		for _, o := range old {
			if !bytes.Contains(b, []byte(o)) {
				t.Fatalf("%s has no %s", name, o)
			}
			b = bytes.ReplaceAll(b, []byte(o), []byte(hostile+o))
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// What a run directory says of itself is shown, and steers no terminal.
func TestRunsSteerNoTerminal(t *testing.T) {
	dir := hostileRun(t)
	for _, format := range []string{"text", "html", "md", "json", "health", "prometheus", "vllm"} {
		quiet(t, "report", dir, "--format", format)
	}
	for _, format := range []string{"text", "json", "md", "benchstat"} {
		quiet(t, "compare", dir, dir, "--format", format)
	}
	quiet(t, "hammer", "--resume", dir)
}

// A signature's key id is whatever its writer liked, and so are the files beside.
func TestStatementsSteerNoTerminal(t *testing.T) {
	dir := hostileRun(t)
	statement, err := os.ReadFile("../../ledger/testdata/test-result.statement.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{evil, evil + strings.Repeat("0", 64)} {
		envelope, err := json.Marshal(map[string]any{
			"payloadType": "application/vnd.in-toto+json", "payload": statement,
			"signatures": []map[string]any{{"keyid": id, "sig": make([]byte, 64)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"test-result.dsse.json", "gpu-benchmark.dsse.json", "key.dsse.json", evil + ".json"} {
			if err := os.WriteFile(filepath.Join(dir, name), envelope, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		quiet(t, "ledger", "verify", dir)
		quiet(t, "ledger", "verify", dir, "--format", "json")
		quiet(t, "ledger", "verify", dir, "--keys", filepath.Join(dir, evil+".json"), "--trust", filepath.Join(dir, "key.dsse.json"))
	}
}
