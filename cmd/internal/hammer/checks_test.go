package hammer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

func TestChecksOfBefore(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "checks.jsonl"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"t_ns":1,"name":"memory.bandwidth","device":"GPU-a","verdict":"pass","evidence":"read 900 GB/s","values":{"peak_share":0.9}}
{"t_ns":2,"name":"memory.pattern","device":"GPU-a","verdict":"fail","evidence":"wrong words"}
`)
	got, err := readChecks(dir)
	if err != nil || len(got) != 2 || got[0].Values["peak_share"] != 0.9 || got[1].Verdict != assay.Fail {
		t.Fatalf("%+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"":                                "it has no check",
		"{":                               "line 1",
		`{"t_ns":1,"verdict":"pass"}`:     "it is no check",
		strings.Repeat("x", 1+(4<<20)):    "larger than",
		"{\"name\":\"a\",\"t_ns\":1}\n[]": "line 2",
	} {
		write(text)
		if _, err := readChecks(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v; want %q", text, err, want)
		}
	}
	if _, err := readChecks(filepath.Join(dir, "nothing")); err == nil || !strings.Contains(err.Error(), "assay verify --out DIR writes it") {
		t.Error(err)
	}
}
