package compare

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/report"
)

// full is an experiment with everything that an analysis can show.
func full() Experiment {
	e := made(14, 1, 0.8, 1.3)
	e.Engines[1].Name, e.Engines[2] = "b<i>|", Engine{Name: "crashed", Kind: "serve", Failed: "it exited with 139", LogTail: "loading\nsegmentation fault | <b>\n"}
	e.Engines[0].Lock = map[string]string{"version": "1.2"}
	e.Samples = slices.DeleteFunc(e.Samples, func(s Sample) bool { return s.Engine == "c" })
	for i := range e.Samples {
		s := &e.Samples[i]
		if s.Engine == "b" {
			s.Engine = "b<i>|"
		}
		s.Texts = []string{"0123", "4567"}
		s.Latencies = []float64{100, 120.5}
		s.Requests, s.OK, s.Cases = 400, 400, 2
		s.Metrics["gpu_utilization_mean"] = 0.7 + 0.01*float64(i%3)
		s.Metrics["gpu_memory_peak_bytes"] = 10 << 30
		s.Metrics["tokens_per_joule"] = 2.5
		s.Series = map[string]Series{SeriesMemory: {At: []float64{0, 0.5}, Values: []float64{1 << 30, 2 << 30}}}
		s.Counters = map[string]float64{"cycles": 100, "instructions": 250}
	}
	e.Samples = append(e.Samples, Sample{Engine: "crashed", Workload: "w", Round: 1, Failed: "it exited with 139", Metrics: map[string]float64{}, Client: assay.NoClient})
	e.Node = assay.Node{ID: "n", Hostname: "box", OS: "linux", Arch: "amd64", CPU: "AMD EPYC", Cores: 2, MemoryBytes: 64 << 30, GPUs: []assay.GPU{{UUID: "g", Name: "GPU", MemoryBytes: 24 << 30}}}
	e.Analysis = AnalysisAsk{Confidence: 0.95, RemoveOutliers: true, Threshold: 2, Test: "mann_whitney_u", Plots: true, Raw: true,
		Prices: map[string]assay.Money{"": {Nano: 2_000_000_000, Currency: "USD"}}, SLO: []assay.Objective{{Metric: "ttft", Stat: "p99", Max: 100}}}
	e.Config = json.RawMessage(`{"z":1,"a":["x"]}`)
	e.Version = assay.Version{Assay: "test", Go: "go", BinarySHA256: "00"}
	e.ConfigSHA256, e.Command = "11", []string{"assay", "compare", "f.yaml"}
	e.Engines[0].Packages = []string{"torch==1"}
	e.Loads = []Load{{"w", 4, "x"}}
	e.Plan.Test, e.Plan.Adjust = testSignedRank, adjustHolm
	e.Notes = []string{"a note"}
	return e
}

// picture stands for report/plot, whose pictures are its own tests' concern.
func picture(w io.Writer, c report.Chart) error {
	_, err := io.WriteString(w, "PNG of "+c.Title)
	return err
}

func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[filepath.ToSlash(name)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The tree of docs/formats/experiment.md, less the logs, which the experiment writes;
// and the analysis can be redone from the raw data, byte for byte.
func TestOutputsAreComplete(t *testing.T) {
	dir, e := t.TempDir(), full()
	if err := WriteExperiment(dir, e); err != nil {
		t.Fatal(err)
	}
	if err := WriteOutputs(dir, e, Analyze(e), OutputOptions{Plot: picture}); err != nil {
		t.Fatal(err)
	}
	first := tree(t, dir)
	want := []string{
		"analysis/business_recommendations.json", "analysis/performance_analysis.json", "analysis/statistical_summary.json",
		"comparison_table.md", "experiment.json",
		"plots/gpu_utilization.png", "plots/latency_comparison.png", "plots/memory_over_time.png", "plots/memory_usage.png", "plots/throughput_scaling.png",
		"raw_data/a.json", "raw_data/b_i__.json", "raw_data/crashed.json", "report.html", "reproduce/a-requirements.txt", "reproduce/config.json", "summary.json",
	}
	if got := slices.Sorted(maps.Keys(first)); !slices.Equal(got, want) {
		t.Errorf("files: %v", got)
	}
	for name := range first {
		if name != "experiment.json" && !strings.HasPrefix(name, "raw_data/") {
			if err := os.Remove(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
				t.Fatal(err)
			}
		}
	}
	read, err := ReadExperiment(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteOutputs(dir, read, Analyze(read), OutputOptions{Plot: picture}); err != nil {
		t.Fatal(err)
	}
	again := tree(t, dir)
	for name := range first {
		if again[name] != first[name] {
			t.Errorf("%s comes out differently", name)
		}
	}
}

func TestSummaryKeys(t *testing.T) {
	var s map[string]any
	b, err := encode(summaryOf(Analyze(full())))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	sum := s["summary"].(map[string]any)
	for _, k := range []string{"fastest_engine", "best_throughput", "best_latency_ms", "most_consistent", "best_gpu_utilization", "recommendation"} {
		if v, ok := sum[k]; !ok || v == nil {
			t.Errorf("summary.%s is %v", k, v)
		}
	}
	if sum["fastest_engine"] != "b<i>|" || !strings.Contains(sum["recommendation"].(string), "b<i>| for e2e_ms_mean") {
		t.Errorf("summary: %v", sum)
	}
	matrix := s["comparison_matrix"].(map[string]any)
	a, other := matrix["a"].(map[string]any), matrix["b<i>|"].(map[string]any)
	if a["speedup"] != 1.0 || other["speedup"].(float64) < 1.15 || other["latency_ms"].(float64) >= a["latency_ms"].(float64) || other["throughput"].(float64) <= a["throughput"].(float64) {
		t.Errorf("the matrix: %v", matrix)
	}
	lo, hi := other["speedup_low"].(float64), other["speedup_high"].(float64)
	if !(lo < 1.25 && 1.25 < hi) {
		t.Errorf("a speedup of 1.25 is not in [%v, %v]", lo, hi)
	}
	crashed := matrix["crashed"].(map[string]any)
	if crashed["speedup"] != nil || crashed["latency_ms"] != nil || crashed["failed"] == "" {
		t.Errorf("an engine without runs has figures: %v", crashed)
	}
}

func TestOutputsKeepTheirSchemas(t *testing.T) {
	dir, e := t.TempDir(), full()
	a := Analyze(e)
	if err := WriteExperiment(dir, e); err != nil {
		t.Fatal(err)
	}
	if err := WriteOutputs(dir, e, a, OutputOptions{}); err != nil {
		t.Fatal(err)
	}
	check := func(name, ref, file string) error {
		s, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "docs", "formats", "schema", name+".schema.json") + ref)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		return s.Validate(v)
	}
	for _, f := range [][3]string{
		{"experiment", "", "experiment.json"}, {"experiment", "#/$defs/samples_file", "raw_data/a.json"}, {"experiment", "#/$defs/samples_file", "raw_data/crashed.json"},
		{"comparison", "", "analysis/statistical_summary.json"}, {"comparison", "#/$defs/summary", "summary.json"},
		{"comparison", "#/$defs/performance", "analysis/performance_analysis.json"}, {"comparison", "#/$defs/recommendations", "analysis/business_recommendations.json"},
	} {
		if err := check(f[0], f[1], f[2]); err != nil {
			t.Errorf("%s: %v", f[2], err)
		}
	}
	// What is printed has all of them in one document.
	a = Analyze(full())
	held, _ := CheckGates(full(), a, nil)
	for _, gates := range [][]GateResult{held, {{Gate: "ttft_p99<=+5%", Workload: "w", Engine: "b", Against: "a", Change: assay.UnknownQuantity("none"), Verdict: "undecided", Why: "none"}}} {
		b, err := json.Marshal(DocumentOf(a, gates))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "printed.json"), b, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := check("comparison", "#/$defs/document", "printed.json"); err != nil {
			t.Errorf("printed: %v", err)
		}
	}
	// And they refuse what is not of the format.
	if check("comparison", "", "summary.json") == nil || check("experiment", "", "raw_data/a.json") == nil {
		t.Error("a schema takes another document")
	}
}

func TestTheTableSaysEverything(t *testing.T) {
	e := full()
	e.Samples[0].Client = assay.Invalid
	var b strings.Builder
	if err := report.Markdown(&b, Page(e, Analyze(e), false)); err != nil {
		t.Fatal(err)
	}
	md := b.String()
	for _, want := range []string{"faster \\*", "adjusted p", "Holm", "large (δ", "trimmed mean", "segmentation fault \\| &lt;b&gt;", "| met |", "a note", "same answer in", "bottleneck", "b&lt;i&gt;\\|"} {
		if !strings.Contains(md, want) {
			t.Errorf("the table lacks %q", want)
		}
	}
	if strings.Contains(md, "NaN") || strings.Contains(md, "+Inf") || strings.Contains(md, "<b>") {
		t.Error("the table has what no table should have")
	}
	b.Reset()
	if err := report.HTML(&b, Page(e, Analyze(e), true)); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "<i>|") || !strings.Contains(b.String(), "by round") {
		t.Error("the page obeys a name, or lacks its charts")
	}
}

// Everything that is read may have been altered.
func TestHostileExperimentsAreRefused(t *testing.T) {
	for name, alter := range map[string]func(*Experiment){
		"another format":     func(e *Experiment) { e.Format = "assay/experiment/v9" },
		"no engines":         func(e *Experiment) { e.Engines, e.Samples = nil, nil },
		"one engine twice":   func(e *Experiment) { e.Engines = append(e.Engines, e.Engines[0]) },
		"too many engines":   func(e *Experiment) { e.Engines = make([]Engine, maxEngines+1) },
		"an empty name":      func(e *Experiment) { e.Engines[1].Name = "" },
		"a long name":        func(e *Experiment) { e.Workloads = append(e.Workloads, strings.Repeat("x", 300)) },
		"too many workloads": func(e *Experiment) { e.Workloads = make([]string, maxWorkloads+1) },
		"too many pairs": func(e *Experiment) {
			for i := range 60 {
				e.Engines = append(e.Engines, Engine{Name: fmt.Sprint("engine", i)})
				e.Workloads = append(e.Workloads, fmt.Sprint("workload", i))
			}
		},
		"unknown workload":    func(e *Experiment) { e.Samples[0].Workload = "other" },
		"a sample twice":      func(e *Experiment) { e.Samples[1] = e.Samples[0] },
		"round -1":            func(e *Experiment) { e.Samples[0].Round = -1 },
		"round 1001":          func(e *Experiment) { e.Samples[0].Round = maxRounds + 1 },
		"negative metric":     func(e *Experiment) { e.Samples[0].Metrics["e2e_ms_mean"] = -1 },
		"more ok than asked":  func(e *Experiment) { e.Samples[0].OK = 1000 },
		"a plan of 101 looks": func(e *Experiment) { e.Plan.Looks = 101 },
		"negative rounds":     func(e *Experiment) { e.Plan.Rounds = -1 },
		"a load of nobody":    func(e *Experiment) { e.Loads = []Load{{"other", 1, "x"}} },
		"a series backwards":  func(e *Experiment) { e.Samples[0].Series = map[string]Series{"m": {[]float64{2, 1}, []float64{1, 1}}} },
		"half a series":       func(e *Experiment) { e.Samples[0].Series = map[string]Series{"m": {[]float64{2, 3}, []float64{1}}} },
		"a long series": func(e *Experiment) {
			e.Samples[0].Series = map[string]Series{"m": {make([]float64, 241), make([]float64, 241)}}
		},
		"a negative counter": func(e *Experiment) { e.Samples[0].Counters = map[string]float64{"cycles": -1} },
		"too many packages":  func(e *Experiment) { e.Engines[0].Packages = make([]string, maxPackages+1) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, e := t.TempDir(), made(3, 1, 1)
			alter(&e)
			if err := WriteExperiment(dir, e); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadExperiment(dir); !errors.Is(err, ErrExperiment) {
				t.Errorf("read with %v", err)
			}
		})
	}
	dir := t.TempDir()
	if _, err := ReadExperiment(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing is read with %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, ExperimentFile), []byte(`{"format":`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadExperiment(dir); !errors.Is(err, ErrExperiment) {
		t.Errorf("half a file is read with %v", err)
	}
}

// Whatever bytes are changed in the files, they are refused or analysed, and
// what comes out is JSON.
func TestAlteredBytesNeverBreakTheAnalysis(t *testing.T) {
	dir, e := t.TempDir(), full()
	e.Samples = e.Samples[:8]
	for i := range e.Samples {
		e.Samples[i].Latencies = nil
	}
	e.Plan.Looks, e.Plan.Rounds = 3, 4
	if err := WriteExperiment(dir, e); err != nil {
		t.Fatal(err)
	}
	paths := []string{filepath.Join(dir, ExperimentFile), filepath.Join(dir, RawDir, "a.json")}
	whole := map[string][]byte{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		whole[p] = b
	}
	rng := rand.New(rand.NewPCG(11, 12))
	read, alterations := 0, 1500
	if raced || testing.Short() {
		alterations = 300
	}
	for range alterations {
		path := paths[rng.IntN(2)]
		b := slices.Clone(whole[path])
		for range 1 + rng.IntN(3) {
			// Digits are what an alteration that still parses is made of.
			at := rng.IntN(len(b))
			for n := 0; n < 50 && (b[at] < '0' || b[at] > '9'); n++ {
				at = rng.IntN(len(b))
			}
			b[at] = "0123456789-eE."[rng.IntN(14)]
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if x, err := ReadExperiment(dir); err == nil {
			read++
			a := Analyze(x)
			if _, err := encode([]any{summaryOf(a), statisticsOf(a), performanceOf(a), recommendationsOf(a)}); err != nil {
				t.Fatalf("%v\n%s", err, b)
			}
			if err := report.Markdown(io.Discard, Page(x, a, true)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(path, whole[path], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read < alterations/15 {
		t.Errorf("only %d of %d alterations were readable: the test tests nothing", read, alterations)
	}
}

// Names of engines lead to files in raw_data and nowhere else.
func TestReadLocksRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "e.json")
	for text, want := range map[string]string{"{": "unexpected end", `{"format":"other"}`: "its format is"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadLocks(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestNamesOfFiles(t *testing.T) {
	got := fileNames([]Engine{{Name: "../../etc/passwd"}, {Name: ".."}, {Name: "a b"}, {Name: "A_b"}, {Name: ""}, {Name: "ä"}})
	want := []string{"_._.._etc_passwd", "_.", "a_b", "A_b-2", "_", "_-2"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestBenchstatLines(t *testing.T) {
	e := made(2, 1, 1.1)
	e.Workloads[0] = "latency test/1-8"
	for i := range e.Samples {
		e.Samples[i].Workload = e.Workloads[0]
		e.Samples[i].Metrics = map[string]float64{"ttft_ms_p50": 50.25, "output_tokens_per_second": 1e6}
	}
	e.Node.OS, e.Node.Arch, e.Node.CPU = "linux", "amd64", "A\nBenchmarkEvil 1 1 ns/op"
	var b strings.Builder
	if err := Benchstat(&b, e); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Unit ttft_ms_p50 better=lower\n", "Unit output_tokens_per_second better=higher\n", "cpu: A BenchmarkEvil 1 1 ns/op\n",
		"BenchmarkLatency_test_1_8/engine=a 60 50.25 ttft_ms_p50 1e+06 output_tokens_per_second\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if n := strings.Count(b.String(), "\nBenchmark"); n != 4 {
		t.Errorf("%d lines for four runs", n)
	}
}

func TestASentenceLeavesMetricsAlone(t *testing.T) {
	for in, want := range map[string]string{"e2e_ms_mean: not enough data": "e2e_ms_mean: not enough data", "one engine has no runs": "One engine has no runs", "": ""} {
		if got := sentence(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
