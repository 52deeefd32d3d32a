package score

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/assay-bench/assay"
)

var update = flag.Bool("update", false, "write the example of docs/health.md")

// specified is a small run with the values of the profiler specification's
// example, as far as they can be measured.
func specified(t testing.TB) Input {
	in := healthy(1)
	s := &in.Summary.Stages[0]
	s.ErrorRate, s.Failed, s.OK, s.WindowCV = 0.01, 130, 12870, new(0.1)
	in.Summary.GPUs[0].Throttled["sw_thermal"] = 0.01
	in.Baseline.TTFTp99MS, in.Baseline.TPOTp50MS = new(52.0), new(7.8)
	in.Baseline.OutputTokensPerSecond, in.Baseline.TokensPerJoule = new(319.0), new(1.02)
	in.Terms = terms(t, "0.35", "0.30")
	r := &assay.Replicates{Windows: 290, Seed: 1}
	for i := range 200 { // spread evenly over ±2 %
		x := 0.98 + 0.04*float64(i)/199
		r.TTFTp99MS, r.TPOTp50MS = append(r.TTFTp99MS, 60*x), append(r.TPOTp50MS, 8*x)
		r.OutputTokensPerSecond, r.TokensPerJoule = append(r.OutputTokensPerSecond, 271.2/x), append(r.TokensPerJoule, 0.8475/x)
		r.ErrorRate = append(r.ErrorRate, 0.01*x)
	}
	s.Replicates = r
	return in
}

func decode(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// The specification's keys are all there with values of its types; what is
// added to them is listed here, so that nothing is added by accident.
func TestTheReportHasExactlyTheSpecificationsKeysAndOurAdditions(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "hammer-specification.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := decode(t, text)
	out, err := json.Marshal(Health(specified(t)))
	if err != nil {
		t.Fatal(err)
	}
	got := decode(t, out)
	added := map[string][]string{
		"":                    {"because", "findings", "format", "gpus", "run_id", "verdict"},
		"hardware_info":       {"gpu_count", "gpu_memory_bytes", "ram_bytes"},
		"health_score":        {"against", "baseline", "coverage", "deductions", "intervals", "stage", "unknown", "weights"},
		"performance_metrics": {"cpu_utilization", "error_rate", "max_gpu_temperature_celsius", "mean_gpu_power_watts", "output_tokens_per_second", "peak_memory_bytes", "stage", "tokens_per_joule", "tpot_p50_ms", "ttft_p99_ms"},
		"cost_analysis":       {"blended_cost_per_million_tokens", "currency", "curve", "energy", "energy_cost_per_million_tokens", "energy_rate_per_kwh", "price_per_hour", "rental_cost_per_million_good_tokens", "rental_cost_per_million_tokens", "total_cost_per_million_tokens", "unknown", "utilization"},
	}
	var compare func(path string, want, got map[string]any)
	compare = func(path string, want, got map[string]any) {
		keys := slices.Sorted(maps.Keys(want))
		all := slices.Sorted(slices.Values(append(keys, added[path]...)))
		if have := slices.Sorted(maps.Keys(got)); !slices.Equal(all, have) {
			t.Errorf("%q has the keys\n%v, want\n%v", path, have, all)
		}
		for _, k := range keys {
			if w, g := fmt.Sprintf("%T", want[k]), fmt.Sprintf("%T", got[k]); w != g {
				t.Errorf("%s.%s is a %s, the specification has a %s", path, k, g, w)
			}
			if inner, ok := want[k].(map[string]any); ok {
				compare(k, inner, got[k].(map[string]any))
			}
		}
	}
	compare("", want, got)

	// Values that a run can have are the specification's own, to its digits.
	for _, part := range []string{"hardware_info", "health_score", "performance_metrics"} {
		for k, v := range want[part].(map[string]any) {
			g := got[part].(map[string]any)[k]
			if n, ok := v.(float64); ok {
				digits := max(0, len(strings.TrimPrefix(fmt.Sprint(n), fmt.Sprint(int(n))))-1)
				if r := fmt.Sprintf("%.*f", digits, g); r != fmt.Sprint(n) {
					t.Errorf("%s.%s is %v, the specification's example has %v", part, k, g, n)
				}
			} else if g != v {
				t.Errorf("%s.%s is %v, the specification's example has %v", part, k, g, v)
			}
		}
	}
	for _, k := range []string{"node_id", "timestamp"} {
		if got[k] != want[k] {
			t.Errorf("%s is %v, want %v", k, got[k], want[k])
		}
	}
}

// docs/health.md shows this very report.
func TestTheDocumentedExampleIsWhatComesOut(t *testing.T) {
	path := filepath.Join("..", "docs", "health.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), "```json\n")
	shown, after, ok2 := strings.Cut(rest, "```\n")
	if !ok || !ok2 {
		t.Fatal("docs/health.md has no example")
	}
	out, err := json.MarshalIndent(Health(specified(t)), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+"```json\n"+string(out)+"\n```\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	// Not by its bytes: the last digit of a power differs between processors.
	if d := cmp.Diff(decode(t, []byte(shown)), decode(t, out), cmpopts.EquateApprox(1e-9, 0)); d != "" {
		t.Errorf("the example of docs/health.md is not what comes out; run go test ./score -update\n%s", d)
	}
}

// docs/health.md has a row for every rule.
func TestTheDocumentedRulesAreTheTable(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "health.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		if row := fmt.Sprintf("| `%s` | %s | %s |", r.Name, r.Sign, r.Verdict); !strings.Contains(string(page), row) {
			t.Errorf("docs/health.md lacks the row\n%s", row)
		}
	}
}

func schema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "docs", "formats", "schema", name+".schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, v any) error {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

func TestReportsKeepTheirSchema(t *testing.T) {
	s := schema(t, "health")
	bad := healthy(8)
	bad.Summary.GPUs[2].XIDs["79"] = 1
	bad.Summary.GPUs[5].Throttled["sw_thermal"] = 0.4
	bad.Summary.Restarts = 1
	bad.Checks = []assay.Check{{Name: "compute.product", Device: "GPU-c", Verdict: assay.Fail, Evidence: "one element differs", Values: map[string]float64{"elements": 1}}}
	bad.Summary.Stages[0].Replicates = &assay.Replicates{ErrorRate: []float64{0.1, 0.2, 0.3}}
	alone := healthy(1)
	alone.Baseline = nil
	invalid := specified(t)
	invalid.Summary.Client.Certificate = assay.Invalid
	for name, in := range map[string]Input{"specified": specified(t), "bad": bad, "no baseline": alone, "invalid": invalid, "nothing": {}} {
		if err := validate(t, s, Health(in)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	h := Health(specified(t))
	h.Score.Overall = new(1.5)
	if validate(t, s, h) == nil {
		t.Error("the schema takes a score of 1.5")
	}
}

func TestBaselinesKeepTheirSchema(t *testing.T) {
	s := schema(t, "baseline")
	list, err := Catalogue()
	if err != nil {
		t.Fatal(err)
	}
	in := healthy(1)
	b, err := FromRun(in.Manifest, in.Summary, "mine")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range append(list, b) {
		if err := validate(t, s, b); err != nil {
			t.Errorf("%s: %v", b.Name, err)
		}
	}
	b.TTFTp99MS = new(0.0)
	if validate(t, s, b) == nil {
		t.Error("the schema takes a time of zero")
	}
}
