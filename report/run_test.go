package report

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

var update = flag.Bool("update", false, "write the golden files")

func dist(n int, p50, p99 float64) assay.Dist {
	return assay.Dist{N: n, Effective: float64(n), Mean: p50, Percentiles: []assay.Percentile{
		{Level: 50, Value: p50, Lo: p50 - 1, Hi: p50 + 1}, {Level: 90, Value: (p50 + p99) / 2, Lo: p50, Hi: p99}, {Level: 99, Value: p99, Lo: p99 - 1, Hi: p99 + 1}}}
}

func few(n int) assay.Dist {
	d := dist(n, 40, 60)
	d.Effective /= 2
	d.Percentiles[2].Lo, d.Percentiles[2].Hi, d.Percentiles[2].Need = math.NaN(), math.NaN(), 368
	return d
}

func ptr(v float64) *float64 { return &v }

var sweep = assay.Summary{
	Format: assay.SummaryFormat, Status: assay.StatusComplete, Ended: 54e9,
	Engine: assay.Engine{URL: "http://127.0.0.1:8000", Backend: "openai-chat", Model: "sim\x1b[31m"},
	Client: assay.ClientSummary{Certificate: assay.Certified, Clock: assay.ClockKernel, AllowedLagUS: 1000,
		LagUS: dist(9000, 40, 90), SendLag: dist(500, 30, 80), CPUShare: ptr(0.034)},
	Stages: []assay.StageSummary{
		{Name: "c1", Plan: assay.Stage{Kind: assay.LoadClosed, Concurrency: 1}, Requests: 100, OK: 100, RequestsPerSecond: 1.47, GoodputPerSecond: 1.47, OutputTokensPerSecond: 94.2,
			TTFT: few(100), TPOT: few(100), E2E: few(100)},
		{Name: "c16", Plan: assay.Stage{Kind: assay.LoadClosed, Concurrency: 16}, Requests: 1600, OK: 1590, Failed: 10, ErrorRate: 10.0 / 1600, RequestsPerSecond: 23.4, GoodputPerSecond: 21, OutputTokensPerSecond: 1498,
			Errors: map[assay.Failure]int{assay.FailHTTP429: 10}, TTFT: dist(1590, 51.2, 60.1), TPOT: dist(1590, 10.01, 10.2), E2E: dist(1590, 681, 690),
			Engine: &assay.EngineStage{TPOT: dist(1590, 9.9, 10), Prompt: dist(1590, 20, 30), OursOverTheirs: ptr(1.011)}},
	},
	Scaling: &assay.Scaling{Points: make([]assay.ScalePoint, 2), Knee: assay.Quantity{N: 2, Est: 15.9, Lo: math.NaN(), Hi: math.NaN()},
		Peak: assay.Quantity{N: 2, Est: 16}, Cliff: assay.UnknownQuantity("goodput did not fall up to 16 streams"), USL: &assay.USL{Gamma: 1.47, Sigma: 0.001, R2: 0.999}},
	Warnings: []assay.Warning{{Kind: "little", Stage: "c16", Text: "a doubt"}},
}

var openLoopRun = assay.Summary{
	Format: assay.SummaryFormat, Status: assay.StatusPartial, Ended: 20e9,
	Engine: assay.Engine{URL: "http://127.0.0.1:8000", Backend: "openai", Model: "sim"},
	Client: assay.ClientSummary{Certificate: assay.Invalid, Cause: "cpu", Clock: assay.ClockUser, AllowedLagUS: 1000, ErrorBarUS: 25000, MergedShare: 0.2,
		LagUS: dist(9000, 4000, 25000), SendLag: dist(500, 3000, 18000), Why: []string{"p99 send lag 18 ms, 1 ms is allowed"}},
	Stages: []assay.StageSummary{{Name: "r200c64", Plan: assay.Stage{Kind: assay.LoadOpen, Rate: 200, Concurrency: 64}, Requests: 4000, OK: 3800,
		RequestsPerSecond: 190, GoodputPerSecond: 190, OutputTokensPerSecond: 3040, LateSent: 700, NeverSent: 200, Errors: map[assay.Failure]int{assay.FailNeverSent: 200},
		TTFT: dist(3800, 50.1, 1900), TTFTIntended: dist(3800, 51, 2400), TPOT: dist(3800, 10, 140), E2E: dist(3800, 200, 2200),
		Objectives: []assay.Held{{}}, Kept: assay.Fail}},
	FindMax: &assay.FindMax{Of: "rate", Load: assay.Quantity{N: 8, Est: 190, Lo: 188, Hi: 195}},
	Runs:    []assay.Variation{{Stage: "r200c64", Metric: "ttft_ms", Values: []float64{50, 51}, Mean: 50.5, CV: ptr(0.014)}},
}

// atOnce is a stage that has no steady window.
var atOnce = assay.Summary{
	Format: assay.SummaryFormat, Status: assay.StatusComplete, Ended: 9e9,
	Engine: assay.Engine{URL: "http://127.0.0.1:8000", Backend: "openai", Model: "sim"},
	Client: assay.ClientSummary{Certificate: assay.Certified, Clock: assay.ClockKernel, AllowedLagUS: 1000, LagUS: dist(9000, 40, 90), SendLag: dist(500, 30, 80)},
	Stages: []assay.StageSummary{
		{Name: "all", Plan: assay.Stage{Kind: assay.LoadOpen}, Complete: true, Requests: 200, OK: 200, RequestsPerSecond: 23, GoodputPerSecond: 23, OutputTokensPerSecond: 1475,
			RatesOf: assay.RatesOfWhole, WindowWhy: "all requests were sent at once: the load only falls", TTFT: few(200), TTFTIntended: few(200), TPOT: few(200), E2E: few(200)},
		{Name: "r4", Plan: assay.Stage{Kind: assay.LoadOpen, Rate: 4}, Complete: true, Requests: 400, OK: 400, RequestsPerSecond: 3.98, GoodputPerSecond: 3.98, OutputTokensPerSecond: 255,
			RatesOf: assay.RatesOfWindow, TTFT: few(400), TTFTIntended: few(400), TPOT: few(400), E2E: few(400)},
		{Name: "r8", Plan: assay.Stage{Kind: assay.LoadOpen, Rate: 8}, Complete: true, Requests: 400, OK: 400, RequestsPerSecond: 7.1, GoodputPerSecond: 7.1, OutputTokensPerSecond: 454,
			RatesOf: assay.RatesOfWhole, WindowWhy: "it took 14s until the load was steady, and the load lasted 45s: give --duration 59s or more", TTFT: few(400), TTFTIntended: few(400), TPOT: few(400), E2E: few(400)},
	},
}

func TestText(t *testing.T) {
	for name, s := range map[string]assay.Summary{"sweep": sweep, "open": openLoopRun, "whole": atOnce, "empty": {Format: assay.SummaryFormat}} {
		var b bytes.Buffer
		if err := Text(&b, Run(s, nil)); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsRune(b.String(), '\x1b') {
			t.Errorf("%s: an engine's escape sequence reaches the terminal", name)
		}
		golden := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if b.String() != string(want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, b.String(), want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.0012: "0.0012", 0.5: "0.5", 9.999: "10.0", 99.97: "100", 51.24: "51.2", 1499.6: "1500", math.NaN(): missing, math.Inf(1): missing} {
		if got := number(v); got != want {
			t.Errorf("number(%g) = %s, want %s", v, got, want)
		}
	}
}

// Requests that depend on each other are worth fewer: the hint counts those that are
// needed, not those that would be if they were independent.
func TestNextCountsIndependentRequests(t *testing.T) {
	d := assay.Dist{N: 1197, Effective: 330, Percentiles: []assay.Percentile{{Level: 99, Value: 80, Lo: math.NaN(), Hi: math.NaN(), Need: 368}}}
	next := Next(assay.Summary{Stages: []assay.StageSummary{{Name: "c8", OK: 1197, TTFT: d}}})
	if all := strings.Join(next, "\n"); !strings.Contains(all, "about 1340 requests a stage are needed (368 independent ones, as 1197 here are worth 330)") {
		t.Errorf("%s", all)
	}
}
