package hammer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/journal"
)

// recorded writes a small run with the given stages.
func recorded(t *testing.T, c hammer.Config, stages ...assay.Stage) string {
	t.Helper()
	config, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	const sec, t0 = int64(1e9), int64(1_790_000_000e9)
	w, err := journal.Create(dir, assay.Manifest{
		Format: assay.RunFormat, ID: "01J00000000000000000000000", Created: t0, Config: config,
		Engine: assay.Engine{URL: "http://gpu", Backend: "openai-chat", Model: "org/tiny"}, Clock: assay.ClockUser,
	})
	if err != nil {
		t.Fatal(err)
	}
	at, n := t0, 0
	for _, s := range stages {
		hammerMust(t, w.Event(assay.Event{At: at, Kind: assay.EventStageStarted, Stage: s.Name, Plan: &s}))
		for i := range 5 {
			sent := at + sec/2 + int64(i)*sec/10
			hammerMust(t, w.Request(&assay.Request{
				ID: fmt.Sprint(n), Stage: s.Name, Warmup: i == 0, Prompt: n, Scheduled: sent, Sent: sent, First: sent + sec/20,
				Last: sent + sec/20 + sec/100, End: sent + sec/10, Gaps: []int32{10_000}, InputTokens: 8, OutputTokens: 2, TokensFrom: "usage",
			}))
			n++
		}
		at += 2 * sec
		hammerMust(t, w.Event(assay.Event{At: at, Kind: assay.EventStageEnded, Stage: s.Name}))
	}
	hammerMust(t, w.Close())
	return dir
}

func hammerMust(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func readLines(t *testing.T, path string) (lines []map[string]any) {
	t.Helper()
	b, err := os.ReadFile(path)
	hammerMust(t, err)
	for _, line := range bytes.Split(b, []byte("\n")) {
		var m map[string]any
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%s: %v in %q", path, err, line)
		}
		lines = append(lines, m)
	}
	return lines
}

func TestSaveResult(t *testing.T) {
	c, out, _, err := resolve(strings.Fields("--backend vllm --model m --request-rate 10 --num-prompts 4 --save-result --append-result --metadata a=b --label l --result-filename r.json --percentile-metrics e2el --goodput ttft:20"), nil)
	hammerMust(t, err)
	dir := recorded(t, c, assay.Stage{Name: "open", Kind: assay.LoadOpen, Rate: 10, Burstiness: 1, Requests: 4})
	out.ResultDir = filepath.Join(t.TempDir(), "new", "dir")
	out.Exports = []export{{"vllm", filepath.Join(t.TempDir(), "x.json")}}
	hammerMust(t, writeExports(dir, out))
	hammerMust(t, writeExports(dir, out))

	lines := readLines(t, filepath.Join(out.ResultDir, "r.json"))
	if len(lines) != 2 {
		t.Fatalf("appended twice, and there are %d lines", len(lines))
	}
	want := map[string]any{
		"backend": "vllm", "label": "l", "model_id": "org/tiny", "a": "b", "num_prompts": 4.0, "request_rate": 10.0, "burstiness": 1.0,
		"max_concurrency": nil, "completed": 4.0, "failed": 0.0, "duration": 2.0, "request_goodput": 0.0, "mean_e2el_ms": 60.0,
	}
	for k, v := range want {
		if diff := cmp.Diff(v, lines[1][k]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", k, diff)
		}
	}
	if _, ok := lines[0]["mean_ttft_ms"]; ok {
		t.Error("ttft was not asked for")
	}
	if _, ok := lines[0]["stage"]; ok {
		t.Error("a run of one stage names it")
	}
	if x := readLines(t, out.Exports[0].Path); len(x) != 1 {
		t.Errorf("--export has %d lines, want 1: it replaces", len(x))
	}
}

func TestSaveResultOfStages(t *testing.T) {
	c, out, _, err := resolve(strings.Fields("--sweep 1,2 --save-result"), nil)
	hammerMust(t, err)
	dir := recorded(t, c,
		assay.Stage{Name: "c1", Kind: assay.LoadClosed, Concurrency: 1, DurationNS: 1e9, RampUpNS: 1},
		assay.Stage{Name: "c2", Kind: assay.LoadClosed, Concurrency: 2, DurationNS: 1e9, RampUpNS: 1})
	out.ResultDir = t.TempDir()
	hammerMust(t, writeExports(dir, out))
	entries, err := os.ReadDir(out.ResultDir)
	hammerMust(t, err)
	if len(entries) != 1 || !strings.HasPrefix(entries[0].Name(), "openai-chat-infqps-concurrency1-tiny-2026") {
		t.Fatalf("files are %v", entries)
	}
	lines := readLines(t, filepath.Join(out.ResultDir, entries[0].Name()))
	var got []string
	for _, l := range lines {
		got = append(got, fmt.Sprintf("%v %v %v %v", l["stage"], l["max_concurrency"], l["completed"], l["duration"]))
	}
	if diff := cmp.Diff([]string{"c1 1 4 1.4", "c2 2 4 1.4"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSaveResultFails(t *testing.T) {
	c, out, _, err := resolve(strings.Fields("--num-prompts 5 --save-result"), nil)
	hammerMust(t, err)
	if err := writeExports(t.TempDir(), out); err == nil {
		t.Error("a directory without a run is no error")
	}
	if err := writeExports(recorded(t, c), out); err == nil || !strings.Contains(err.Error(), "no stage") {
		t.Errorf("a run without a stage gives %v", err)
	}
	out.ResultFilename = "missing/dir/r.json"
	out.ResultDir = t.TempDir()
	dir := recorded(t, c, assay.Stage{Name: "a", Kind: assay.LoadOpen, Requests: 5})
	if err := writeExports(dir, out); err == nil {
		t.Error("a missing directory is no error")
	}
	entries, err := os.ReadDir(out.ResultDir)
	hammerMust(t, err)
	if len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}
