package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/campaign"
	"github.com/assay-bench/assay/campaign/store"
	"github.com/assay-bench/assay/internal/database"
	"github.com/assay-bench/assay/report"
	"github.com/assay-bench/assay/report/plot"
)

const runDir = "../../journal/testdata/run-v1"

func usd(units float64) *assay.Money {
	return &assay.Money{Nano: int64(math.Round(units * 1e9)), Currency: "USD"}
}

var origin = Origin{Campaign: "c1", Provider: "vast", GPU: "RTX 4090", Price: usd(0.36)}

func opened(t *testing.T) *store.Store {
	t.Helper()
	db, err := database.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "c.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := store.New(db)
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// The mapping of docs/campaigns.md: requests of all stages, tokens of the best.
func TestFiguresOfASummary(t *testing.T) {
	s := assay.Summary{Stages: []assay.StageSummary{
		{Name: "c1", OK: 10, Failed: 1, Warmups: 5, Censored: 3, NeverSent: 2, OutputTokensPerSecond: 50},
		{Name: "c4", OK: 30, Failed: 2, OutputTokensPerSecond: 180},
		{Name: "c16", OK: 20, Failed: 40, OutputTokensPerSecond: 170},
		{Name: "dead", Failed: 7, OutputTokensPerSecond: 999},
	}}
	f := FiguresOf(s)
	if f.TotalRequests != 110 || f.ErrorCount != 50 || f.TokensPerSecond == nil || *f.TokensPerSecond != 180 || f.Stage != "c4" {
		t.Errorf("%+v", f)
	}
	if f := FiguresOf(assay.Summary{Stages: s.Stages[3:]}); f.TokensPerSecond != nil || f.ErrorCount != 7 {
		t.Errorf("nothing was answered: %+v", f)
	}
}

func TestARunBecomesRows(t *testing.T) {
	r, err := FromRun(runDir, origin)
	if err != nil {
		t.Fatal(err)
	}
	m, b := r.Manifest, r.Benchmark
	if m.ID != "run-01K74T0AB00000000000000000" || m.Status != "success" || m.Model != "made-up" || m.GPUType != "RTX 4090" || m.BenchmarkID != b.ID || *m.TotalRequests == 0 {
		t.Errorf("%+v", m)
	}
	if b.Engine != "openai-chat" || b.GPUCount != 1 || b.PricePerHour.Units() != 0.36 || *b.TokensPerSecond != *m.TokensPerSecond {
		t.Errorf("%+v", b)
	}
	s := opened(t)
	for range 2 { // again: nothing changes
		if err := s.PutResult(t.Context(), b, m); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := s.Manifests(t.Context(), "c1")
	if err != nil || len(rows) != 1 {
		t.Fatalf("%v %v", rows, err)
	}
	if d := cmp.Diff(m.TokensPerSecond, rows[0].TokensPerSecond); d != "" {
		t.Error(d)
	}
	kept, err := s.Benchmarks(t.Context(), "c1")
	if err != nil || len(kept) != 1 {
		t.Fatalf("%v %v", kept, err)
	}
	var sum assay.Summary
	if err := json.Unmarshal([]byte(kept[0].Summary), &sum); err != nil || len(sum.Stages) != 4 {
		t.Errorf("%v, %d stages", err, len(sum.Stages))
	}
}

// copyRun copies the run, with changes.
func copyRun(t *testing.T, change map[string]func([]byte) []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(runDir)); err != nil {
		t.Fatal(err)
	}
	for name, f := range change {
		b, err := os.ReadFile(filepath.Join(runDir, name))
		if err != nil {
			t.Fatal(err)
		}
		if b = f(b); b == nil {
			err = os.Remove(filepath.Join(dir, name))
		} else {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func replace(old, now string) func([]byte) []byte {
	return func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(old), []byte(now)) }
}

// A node's own summary is not believed, and what it names itself must be a name.
func TestAHostileRun(t *testing.T) {
	honest, err := FromRun(runDir, origin)
	if err != nil {
		t.Fatal(err)
	}
	forged := copyRun(t, map[string]func([]byte) []byte{"summary.json": replace(`"output_tokens_per_second": `, `"output_tokens_per_second": 9`)})
	r, err := FromRun(forged, origin)
	if err != nil || *r.Manifest.TokensPerSecond != *honest.Manifest.TokensPerSecond {
		t.Errorf("%v %v", r.Manifest.TokensPerSecond, err)
	}
	for name, dir := range map[string]string{
		"escapes":   copyRun(t, map[string]func([]byte) []byte{"run.json": replace("made-up", `a\u001b[2Jb`)}),
		"a novel":   copyRun(t, map[string]func([]byte) []byte{"run.json": replace("made-up", strings.Repeat("x", 201))}),
		"no model":  copyRun(t, map[string]func([]byte) []byte{"run.json": replace("made-up", "")}),
		"no run":    copyRun(t, map[string]func([]byte) []byte{"run.json": func([]byte) []byte { return nil }}),
		"a version": copyRun(t, map[string]func([]byte) []byte{"run.json": replace("run/v1", "run/v9")}),
	} {
		if r, err := FromRun(dir, origin); err == nil {
			t.Errorf("%s: %+v", name, r.Manifest)
		}
	}
}

// A run that was cut short is partial, and one without an answer failed.
func TestRunsThatAreNotWhole(t *testing.T) {
	half := copyRun(t, map[string]func([]byte) []byte{
		"requests.jsonl": func(b []byte) []byte { return b[:len(b)/2] }, "checkpoint.json": replace("complete", "running"), "summary.json": func([]byte) []byte { return nil },
	})
	r, err := FromRun(half, origin)
	if err != nil || r.Manifest.Status != string(campaign.Partial) || r.Manifest.TokensPerSecond == nil {
		t.Errorf("%+v %v", r.Manifest, err)
	}
	none := copyRun(t, map[string]func([]byte) []byte{"requests.jsonl": func([]byte) []byte { return []byte{} }, "checkpoint.json": func([]byte) []byte { return nil }})
	r, err = FromRun(none, origin)
	if !errors.Is(err, ErrNothing) || r.Manifest.Status != string(campaign.Failed) || r.Manifest.FailureStage != "benchmark" || r.Manifest.BenchmarkID != "" {
		t.Errorf("%+v %v", r.Manifest, err)
	}
	if err := opened(t).PutManifest(t.Context(), r.Manifest); err != nil {
		t.Error(err)
	}
}

const script = `{
  "status": "completed",
  "model": "qwen2:7b",
  "timestamp": "2026-01-05T10:11:12.123456",
  "results": [
    {"tokens": 100, "tps": 50.5, "timestamp": 1767607800.5},
    {"error": "HTTPConnectionPool: Read timed out", "timestamp": 1767607830.5},
    {"tokens": 300, "timestamp": 1767607860.5}
  ],
  "summary": {"total_requests": 3, "successful_requests": 2, "error_count": 1, "total_tokens": 400, "duration_seconds": 80.0, "tokens_per_second": 5.0}
}`

func TestTheScriptsFiles(t *testing.T) {
	r, err := FromCheckpoint(strings.NewReader(script), "results/abc-1_results.json", origin)
	if err != nil {
		t.Fatal(err)
	}
	m := r.Manifest
	if m.Status != "success" || *m.TokensPerSecond != 5 || *m.TotalRequests != 3 || *m.ErrorCount != 1 || m.SessionID != "abc-1" || m.Model != "qwen2:7b" || m.Created.Year() != 2026 || r.Benchmark.Engine != "ollama" {
		t.Errorf("%+v", m)
	}
	again, err := FromCheckpoint(strings.NewReader(script), "elsewhere/benchmark_checkpoint.json", origin)
	if err != nil || again.Manifest.ID != m.ID || again.Manifest.SessionID != "" {
		t.Errorf("the same file is the same row: %+v %v", again.Manifest, err)
	}
	s := opened(t)
	if err := s.PutResult(t.Context(), r.Benchmark, m); err != nil {
		t.Error(err)
	}
	running := strings.Replace(script, "completed", "running", 1)
	if r, err := FromCheckpoint(strings.NewReader(running), "x", origin); err != nil || r.Manifest.Status != "partial" {
		t.Errorf("%+v %v", r.Manifest, err)
	}
	// Without a summary the times of the results say how long it took.
	from := strings.Index(script, `"summary"`)
	bare := script[:from] + `"summary": null}`
	if r, err := FromCheckpoint(strings.NewReader(bare), "x", origin); err != nil || !(math.Abs(*r.Manifest.TokensPerSecond-400.0/60) <= 1e-6) {
		t.Errorf("%v %v", r.Manifest.TokensPerSecond, err)
	}
	empty := `{"status": "started", "model": "qwen2:7b", "timestamp": "2026-01-05T10:11:12", "results": [], "summary": null}`
	if r, err := FromCheckpoint(strings.NewReader(empty), "x", origin); !errors.Is(err, ErrNothing) || r.Manifest.Status != "failed" {
		t.Errorf("%+v %v", r.Manifest, err)
	}
}

func TestHostileScriptFiles(t *testing.T) {
	for name, c := range map[string]struct{ old, now, want string }{
		"forged counts":   {`"error_count": 1`, `"error_count": 0`, "its summary is not that of its results"},
		"forged tokens":   {`"total_tokens": 400`, `"total_tokens": 4000`, "its summary is not that of its results"},
		"forged rate":     {`"tokens_per_second": 5.0`, `"tokens_per_second": 500`, "are not its 400 tokens in 80 s"},
		"negative tokens": {`"tokens": 100`, `"tokens": -100`, "not what the benchmark script writes"},
		"half tokens":     {`"tokens": 100`, `"tokens": 0.5`, "not what the benchmark script writes"},
		"both":            {`"tokens": 100,`, `"tokens": 100, "error": "x",`, "not what the benchmark script writes"},
		"neither":         {`"tokens": 100,`, ``, "not what the benchmark script writes"},
		"status":          {`completed`, `done`, "not what the benchmark script writes"},
		"escapes":         {`qwen2:7b`, `q\u001b[2J`, "is no name"},
		"timestamp":       {`2026-01-05T10:11:12.123456`, `yesterday, about noon`, "is no time"},
		"no JSON":         {`{`, `[`, "it is no JSON"},
		"a path":          {`qwen2:7b`, strings.Repeat("../", 100), "not what the benchmark script writes"},
	} {
		text := strings.Replace(script, c.old, c.now, 1)
		if r, err := FromCheckpoint(strings.NewReader(text), "x_results.json", origin); err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsRune(err.Error(), 0x1b) {
			t.Errorf("%s: %v %+v", name, err, r.Manifest)
		}
	}
	long := endless{}
	if _, err := FromCheckpoint(&long, "x", origin); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("%v", err)
	}
	if long.read > maxCheckpoint+(1<<20) {
		t.Errorf("%d bytes of an endless file were read", long.read)
	}
	if _, err := FromCheckpoint(strings.NewReader(script), "x", Origin{Campaign: "c", Provider: "vast"}); err == nil || !strings.Contains(err.Error(), "its GPU is not known") {
		t.Errorf("%v", err)
	}
}

type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read += len(p)
	return len(p), nil
}

func benchmark(gpu string, rate, price float64) store.Benchmark {
	b := store.Benchmark{ID: gpu, RunID: "c", GPUType: gpu, GPUCount: 1, Provider: "vast", Model: "m", Engine: "ollama", TokensPerSecond: &rate, Summary: "{}"}
	if price > 0 {
		b.PricePerHour = usd(price)
	}
	return b
}

func names(list []Candidate) string {
	var out []string
	for _, c := range list {
		out = append(out, c.GPU)
	}
	return strings.Join(out, " ")
}

func TestRankAndFront(t *testing.T) {
	list := []store.Benchmark{
		benchmark("slow-dear", 50, 2), benchmark("old", 1, 1), benchmark("cheap", 40, 0.2), benchmark("fast", 200, 3), benchmark("middle", 100, 0.9), benchmark("same-price", 90, 0.9), benchmark("unpriced", 500, 0),
	}
	again := benchmark("old", 60, 1)
	again.ID = "newer"
	other := benchmark("other-model", 1000, 0.1)
	other.Model = "n"
	list = append(list, again, other)
	if got := names(Rank(list, Query{Model: "M", By: BySpeed})); got != "unpriced fast middle same-price old slow-dear cheap" {
		t.Errorf("by speed: %s", got)
	}
	cost := Rank(list, Query{Model: "m", By: ByCost})
	if got := names(cost); got != "cheap middle same-price fast old slow-dear unpriced" {
		t.Errorf("by cost: %s", got)
	}
	// 0.2 USD an hour, 40 tokens a second: 144,000 tokens an hour.
	if per := cost[0].PerMillion; !(math.Abs(per.Units()-0.2/0.144) <= 1e-9) {
		t.Errorf("%s a million", per)
	}
	if got := names(Front(cost)); got != "cheap middle fast" {
		t.Errorf("front: %s", got)
	}
}

// With limits only loads count that keep them; what is not known is no pass.
func TestBestWithinLimits(t *testing.T) {
	r, err := FromRun(runDir, origin)
	if err != nil {
		t.Fatal(err)
	}
	var sum assay.Summary
	if err := json.Unmarshal([]byte(r.Benchmark.Summary), &sum); err != nil {
		t.Fatal(err)
	}
	p := func(i int) assay.Percentile { v, _ := sum.Stages[i].TTFT.P(50); return v }
	if !(p(0).Hi < p(2).Lo) {
		t.Fatalf("the stages' medians are not apart: %+v %+v", p(0), p(2))
	}
	between := assay.Objective{Metric: "ttft", Stat: "p50", Max: (p(0).Hi + p(2).Lo) / 2}
	file := benchmark("script", 1e6, 1)
	list := []store.Benchmark{file, r.Benchmark}
	got := Rank(list, Query{SLO: []assay.Objective{between}, By: BySpeed})
	if got[0].Kept != assay.Pass || got[0].Stage == sum.Stages[2].Name || *got[0].TokensPerSecond >= *r.Benchmark.TokensPerSecond {
		t.Errorf("%+v", got[0])
	}
	if got[1].GPU != "script" || got[1].Kept != assay.Unknown || got[1].TokensPerSecond != nil {
		t.Errorf("%+v", got[1])
	}
	never := assay.Objective{Metric: "ttft", Stat: "p50", Max: 0.001}
	if got := Rank(list[1:], Query{SLO: []assay.Objective{never}}); got[0].Kept != assay.Fail || got[0].TokensPerSecond != nil || got[0].Why == "" {
		t.Errorf("%+v", got[0])
	}
	few := assay.Objective{Metric: "ttft", Stat: "p99.9", Max: 1e6}
	if got := Rank(list[1:], Query{SLO: []assay.Objective{few}}); got[0].Kept != assay.Unknown {
		t.Errorf("too few samples for a p99.9: %+v", got[0])
	}
}

// tried is a campaign with a cell of each kind of end.
func tried() Outcome {
	rate := 120.5
	manifest := func(gpu, model, status, stage, cause string, r *float64) store.Manifest {
		return store.Manifest{GPUType: gpu, Provider: "vast", Model: model, Status: status, FailureStage: stage, FailureReason: cause, TokensPerSecond: r, ErrorMessage: "because\x1b[31m <blink>"}
	}
	return Outcome{Name: "c", Spent: usd(1.25), Reserved: usd(0.5),
		Manifests: []store.Manifest{
			manifest("RTX 3090", "m", "failed", "provision", "no-capacity", nil),
			manifest("RTX 3090", "m", "success", "", "", &rate),
			manifest("RTX 3090", "n", "skipped", "load", "size", nil),
			manifest("RTX 4090", "m", "partial", "benchmark", "lost", &rate),
			manifest("RTX 4090", "m", "failed", "provision", "no-capacity", nil),
			manifest("RTX 5090", "m", "skipped", "provision", "budget", nil),
		},
		Archive: []Archived{
			{GPU: "RTX 3090", Provider: "vast", Model: "m", Directory: "results/a", Key: strings.Repeat("ab", 32)},
			{GPU: "RTX 4090", Provider: "vast", Model: "m", Directory: "results/b"},
			{GPU: "RTX 4090", Provider: "vast", Model: "m", Directory: "results/c", Missing: true},
		},
		Trust:      "campaigns/archive.pub",
		Benchmarks: []store.Benchmark{benchmark("RTX 3090", rate, 0.2), benchmark("RTX 4090", rate*2, 0.4)},
	}
}

func TestPage(t *testing.T) {
	o := tried()
	page := Page(o)
	var text, md, html bytes.Buffer
	if err := errors.Join((report.Look{}).Text(&text, page), report.Markdown(&md, page), report.HTML(&html, page)); err != nil {
		t.Fatal(err)
	}
	flat := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{
		"6 attempts: 1 success, 1 partial, 2 failed, 2 skipped.", "RTX 3090 vast 120.5 skipped: load", "RTX 4090 vast 120.5 (partial) –",
		"m RTX 4090 vast ollama 241 0.400 USD 0.4610 USD", "provision no-capacity 2 another location; this one is trusted less", "1.25 USD spent, failed tries included; 0.5 USD are reserved",
		"No other result is faster for as little: RTX 3090 at vast", "1 cells were not tried, or not again", "resume CAMPAIGN --budget USD",
		"RTX 3090 vast m ababababababa", "RTX 4090 vast m not signed results/b", "RTX 4090 vast m is not there results/c", "assay ledger verify DIRECTORY --trust campaigns/archive.pub",
	} {
		if !strings.Contains(flat, want) {
			t.Errorf("it lacks %q:\n%s", want, text.String())
		}
	}
	for name, b := range map[string]string{"text": text.String(), "markdown": md.String(), "html": html.String()} {
		if strings.ContainsRune(b, 0x1b) || strings.Contains(b, "<blink>") && name == "html" {
			t.Errorf("%s lets through what a node wrote", name)
		}
	}
	var png bytes.Buffer
	if err := plot.PNG(&png, Chart("m", Rank(o.Benchmarks, Query{})), plot.Options{}); err != nil || png.Len() < 1000 {
		t.Errorf("%d bytes, %v", png.Len(), err)
	}
	if got := fmt.Sprint(Page(Outcome{Name: "none"}).Blocks[0]); !strings.Contains(got, "Nothing was tried") {
		t.Errorf("%s", got)
	}
}

// Tries of one's own count once there are enough of them; imports are none.
func TestHistory(t *testing.T) {
	var list []store.Manifest
	for i := range 12 {
		status := campaign.Success
		if i%3 == 0 {
			status = campaign.Failed
		}
		list = append(list, store.Manifest{ID: fmt.Sprint(i), SessionID: "label", Status: string(status)})
	}
	list = append(list, store.Manifest{ID: "run-1", Status: "failed"}, store.Manifest{ID: "file-1", SessionID: "s", Status: "failed"}, store.Manifest{ID: "x", SessionID: "s", Status: "skipped"})
	if h := HistoryOf(list); h.Tries != 12 || h.Failures != 4 || h.Source != "4 of your own 12 tries failed" {
		t.Errorf("%+v", h)
	}
	if h := HistoryOf(list[:9]); h.Tries != 0 {
		t.Errorf("too few: %+v", h)
	}
}
