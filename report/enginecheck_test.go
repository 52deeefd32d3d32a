package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

func figure(what, from, unit string, ours, theirs float64, v assay.Verdict) assay.Compared {
	return assay.Compared{What: what, From: from, Unit: unit, Ours: &ours, Theirs: &theirs, Verdict: v}
}

// Ours stands beside the engine's, with whose figures they are; a search's steps
// are shown only where they are off.
func TestEngineCheckTable(t *testing.T) {
	s := assay.Summary{Stages: []assay.StageSummary{
		{Name: "c8", EngineCheck: &assay.EngineCheck{Engine: "vllm", Verdict: assay.Fail, Compared: []assay.Compared{
			figure("requests", "metrics", "1", 400, 400, assay.Pass), figure("ttft", "metrics", "ms", 66.8, 42.8, assay.Fail),
			figure("after_first", "metrics", "ms", 493, 550, assay.Fail), figure("tpot", "metrics", "ms", 7.83, 8.74, assay.Fail),
			figure("e2e", "metrics", "ms", 560, 593, assay.Fail)}}},
		{Name: "c9", EngineCheck: &assay.EngineCheck{Engine: "vllm", Compared: []assay.Compared{figure("requests", "metrics", "1", 10, 22, assay.Unknown)}}},
		{Name: "probe1", Plan: assay.Stage{Probe: true}, EngineCheck: &assay.EngineCheck{Engine: "vllm", Verdict: assay.Pass}},
		{Name: "probe2", Plan: assay.Stage{Probe: true}, EngineCheck: &assay.EngineCheck{Engine: "vllm", Verdict: assay.Fail}},
		{Name: "quiet"},
	}}
	var b bytes.Buffer
	if err := Text(&b, Page{Blocks: engines(s)}); err != nil {
		t.Fatal(err)
	}
	want := `
Ours beside the engine's own figures (means)
        ── requests ──  ── TTFT ms ───  ── TPOT ms ───  ─── E2E ms ───
stage   ours  engine's  ours  engine's  ours  engine's  ours  engine's    agree
c8       400       400  66.8      42.8  7.83      8.74   560       593       no
c9        10        22     –         –     –         –     –         –  unknown
probe2     –         –     –         –     –         –     –         –       no
engine's: vllm's /metrics page, after less before. Warm-ups are in both. Ours have HTTP and
transport in TTFT and E2E.
`
	if got := b.String(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	b.Reset()
	s.Stages = []assay.StageSummary{{Name: "c1", EngineCheck: &assay.EngineCheck{Verdict: assay.Pass, Compared: []assay.Compared{
		figure("tpot", "answers", "ms", 10.1, 10, assay.Pass), figure("prompt", "answers", "ms", 51, 46, assay.Pass)}}}}
	if err := HTML(&b, Page{Blocks: engines(s)}); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"Ours beside the engine", "prompt ms", ">46.0<", "in each answer"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("no %q in the HTML", part)
		}
	}
}
