package campaign

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay/campaign/record"
)

const runDir = "../../../journal/testdata/run-v1"

const scriptFile = `{"status": "completed", "model": "qwen2:7b", "timestamp": "2026-01-05T10:11:12.123456",
 "results": [{"tokens": 100}, {"tokens": 300}, {"error": "timeout"}],
 "summary": {"total_requests": 3, "successful_requests": 2, "error_count": 1, "total_tokens": 400, "duration_seconds": 80.0, "tokens_per_second": 5.0}}`

// From results that lie about to a report, and the question which is best.
func TestImportReportBest(t *testing.T) {
	dir := t.TempDir()
	results := filepath.Join(dir, "results")
	if err := os.CopyFS(filepath.Join(results, "first"), os.DirFS(runDir)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"s1_results.json": scriptFile, "deep/benchmark_checkpoint.json": strings.Replace(scriptFile, "300", "301", 1), "notes.json": "{}",
	} {
		path := filepath.Join(results, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db := "sqlite:" + filepath.Join(dir, "c.db")
	if code, _, stderr := run(t, "campaign", "report", "--database", db); code != 1 || !strings.Contains(stderr, "there is no file") {
		t.Errorf("%d %s", code, stderr)
	}
	for range 2 { // again: nothing changes
		code, stdout, stderr := run(t, "campaign", "import", results, "--database", db, "--provider", "vast", "--gpu", "RTX 4090", "--price", "0.36/h")
		if code != 3 || strings.Count(stdout, "success") != 2 || !strings.Contains(stderr, "its summary is not that of its results") {
			t.Fatalf("%d %s%s", code, stdout, stderr)
		}
	}
	out := filepath.Join(dir, "report")
	code, stdout, stderr := run(t, "campaign", "report", "imported", "--database", db, "--out", out)
	if code != 0 {
		t.Fatalf("%d %s", code, stderr)
	}
	for _, name := range []string{"BENCHMARK_REPORT.md", "BENCHMARK_REPORT.html", "speed-against-price-1.png", "speed-against-price-2.png"} {
		b, err := os.ReadFile(filepath.Join(out, name))
		if err != nil || len(b) == 0 || !strings.Contains(stdout, name) {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	md, _ := os.ReadFile(filepath.Join(out, "BENCHMARK_REPORT.md"))
	if !strings.Contains(string(md), "2 attempts: 2 success.") || !strings.Contains(string(md), "| RTX 4090 | vast |") {
		t.Errorf("%s", md)
	}
	code, stdout, stderr = run(t, "campaign", "best", "--database", db, "--model", "QWEN2:7b", "--by", "cost", "--format", "json")
	var list []record.Candidate
	if err := json.Unmarshal([]byte(stdout), &list); code != 0 || err != nil || len(list) != 1 || *list[0].TokensPerSecond != 5 || list[0].PerMillion.String() != "20.00 USD" {
		t.Errorf("%d %v %s%s", code, err, stdout, stderr)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--model", "made-up", "--slo", "ttft_p50<10s"}, 0, ""},
		{[]string{"--model", "made-up", "--slo", "ttft_p50<0.001ms"}, 3, "no result is known to keep the limits"},
		{[]string{"--model", "qwen2:7b", "--slo", "ttft_p50<10s"}, 2, "no result is known to keep the limits"},
		{[]string{"--model", "unheard-of"}, 2, "there are no results of unheard-of; there are some of "},
		{[]string{"--slo", "soon"}, 1, "is not an objective"},
		{[]string{"--by", "colour"}, 1, "known are speed, cost"},
	} {
		code, _, stderr := run(t, append([]string{"campaign", "best", "--database", db}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: %d %s", c.args, code, stderr)
		}
	}
}

func TestImportRefuses(t *testing.T) {
	db := "sqlite:" + filepath.Join(t.TempDir(), "c.db")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{runDir}, 1, "--provider is needed"},
		{[]string{runDir, "--provider", "vast", "--price", "cheap"}, 1, "--price"},
		{[]string{t.TempDir(), "--provider", "vast"}, 2, "there are no results there"},
		{[]string{"/nonexistent", "--provider", "vast"}, 1, "no such file"},
		{[]string{"import_test.go", "--provider", "vast"}, 3, "it is no JSON"},
		{[]string{runDir, "--provider", "a\x1bb"}, 3, "its provider"},
	} {
		code, _, stderr := run(t, append([]string{"campaign", "import", "--database", db}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.says) || strings.ContainsRune(stderr, 0x1b) {
			t.Errorf("%v: %d %s", c.args, code, stderr)
		}
	}
}
