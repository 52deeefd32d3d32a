package experiment

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/compare"
	"github.com/assay-bench/assay/internal/yamltext"
)

func seconds(s float64) assay.Duration { return assay.Duration(s * float64(time.Second)) }

func TestSeedConfigIsReadAsItStands(t *testing.T) {
	f, err := os.Open("testdata/config_seed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := ReadConfig(f, "seed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Engines) != 5 || c.Engines[2].Name != "candle_cuda" || c.Engines[2].BinaryPath != "./target/release/candle-bench" || !c.Engines[2].On() {
		t.Errorf("engines: %+v", c.Engines)
	}
	w := c.Workloads[1]
	if len(c.Workloads) != 2 || w.Name != "throughput_test" || w.TestCases[0].MaxTokens != 200 || *w.TestCases[0].Temperature != 0.7 || w.requests() != 50 || w.warmups() != 5 || w.Concurrency != 1 {
		t.Errorf("workloads: %+v", c.Workloads)
	}
	a := c.Analysis
	if a.ConfidenceLevel != 0.95 || !a.RemoveOutliers || a.OutlierThreshold != 2 || a.SignificanceTest != "mann_whitney_u" || !*a.GeneratePlots {
		t.Errorf("analysis: %+v", a)
	}
	s := c.System
	if *s.GPUDevice != 0 || s.MaxMemoryGB != 20 || len(s.CPUAffinity) != 4 || s.ThermalLimit != 80 || *s.CoolDownSeconds != 5 || s.CoolDownTimeout != seconds(120) {
		t.Errorf("system: %+v", s)
	}
	if c.Monitoring.SampleIntervalMS != 100 || !*c.Monitoring.PowerMonitoring {
		t.Errorf("monitoring: %+v", c.Monitoring)
	}
	x := c.Experiment
	if x.Effect != 0.05 || x.Level != 0.05 || x.Power != 0.9 || *x.Pilot != 3 || x.PrimaryMetric != "e2e_ms_mean" || x.MaxRounds != 100 || x.Looks != 1 {
		t.Errorf("experiment: %+v", x)
	}
}

const goodConfig = `benchmark:
  name: "x"
engines:
  - name: a
    serve:
      command: [assay, simulate, --listen, "127.0.0.1:{port}"]
  - name: b
    url: http://127.0.0.1:8000
workloads:
  - name: w
    test_cases:
      - prompt: "Hi"
        max_tokens: 5
    iterations: 10
`

func TestConfigFaultsHaveLineAndColumn(t *testing.T) {
	if _, err := ReadConfig(strings.NewReader(goodConfig), "f"); err != nil {
		t.Fatal(err)
	}
	swap := func(old, new string) string {
		if !strings.Contains(goodConfig, old) {
			t.Fatalf("%q is not in the good one", old)
		}
		return strings.Replace(goodConfig, old, new, 1)
	}
	tests := []struct{ name, yaml, want string }{
		{"unknown key", swap("    iterations: 10", "    iteration: 10"), "[14:5]"},
		{"wrong type", swap("iterations: 10", "iterations: many"), "[14:17]"},
		{"not YAML", swap("engines:", "engines: ["), "[9:1]"},
		{"empty", "", "engines: there must be at least one"},
		{"name twice", swap("name: b", "name: A"), "f:7:11: an engine's name is there twice"},
		{"bad name", swap("name: b", `name: "../b"`), "f:7:11: an engine's name is up to 64"},
		{"no name", swap("name: b\n    url", "url"), "f:7:5: an engine's name is missing"},
		{"two ways", swap("name: b", "name: b\n    binary_path: ./b"), "f:7:5: engine b: give exactly one of"},
		{"no way", swap("    url: http://127.0.0.1:8000\n", ""), "engine b: give exactly one of"},
		{"bad url", swap("http://127.0.0.1:8000", "ftp://x"), "f:8:10: engine b: engine's address \"ftp://x\": write http://HOST:PORT"},
		{"no port", swap("{port}", "80"), "f:6:"},
		{"no iterations", swap("iterations: 10", "iterations: 0"), "f:14:17: workload w: iterations"},
		{"connection", swap("iterations: 10", "iterations: 10\n    connection: new"), "f:15:17: workload w: connection is keep or fresh"},
		{"no prompt", swap(`"Hi"`, `""`), "f:12:9: workload w: a test case needs a prompt"},
		{"no tokens", swap("max_tokens: 5", "max_tokens: -1"), "f:13:21: workload w: max_tokens"},
		{"both data", swap("iterations: 10", "iterations: 10\n    input_len: 3\n    output_len: 3"), "workload w: give test_cases, or"},
		{"temperatures", swap("    iterations", "      - {prompt: b, max_tokens: 3, temperature: 1}\n    iterations"), "f:14:10: workload w: its test cases have different temperatures"},
		{"metric", goodConfig + "experiment: {primary_metric: ttft}", "f:15:30: primary_metric \"ttft\" is not known"},
		{"a metric that is no merit", goodConfig + "experiment: {primary_metric: gpu_utilization_mean}", "is not known"},
		{"level", goodConfig + "experiment: {level: 1.5}", "f:15:21: level must lie between 0 and 1"},
		{"one pilot", goodConfig + "experiment: {pilot: 1}", "f:15:21: pilot is 0, or 2 to 20"},
		{"no plan", goodConfig + "experiment: {pilot: 0}", "without a pilot, rounds"},
		{"too many rounds", goodConfig + "experiment: {rounds: 20, max_rounds: 10}", "more than max_rounds"},
		{"test", goodConfig + "analysis: {significance_test: t}", "f:15:31: significance_test \"t\" is not known"},
		{"price", goodConfig + "analysis: {price_per_hour: {a: much}}", "f:15:32: price of a"},
		{"price of nobody", goodConfig + "analysis: {price_per_hour: {c: 1}}", "there is a price of c"},
		{"a key that is none", goodConfig + "analysis: {prices: {a: 1}}", "prices"},
		{"currency", goodConfig + "analysis: {currency: \"$ (US)\"}", "f:15:22: currency is up to 8 letters"},
		{"slo", goodConfig + "analysis: {slo: [fast]}", "f:15:18:"},
		{"not a number", goodConfig + "system: {max_memory_gb: .nan}", "f:15:25: max_memory_gb"},
		{"env", swap("url: http://127.0.0.1:8000", "binary_path: ./b\n    env: {\"A=B\": c}"), "is not a variable"},
		{"none on", strings.ReplaceAll(strings.ReplaceAll(goodConfig, "name: a", "name: a\n    enabled: false"), "name: b", "name: b\n    enabled: false"), "none is enabled"},
	}
	for _, tt := range tests {
		_, err := ReadConfig(strings.NewReader(tt.yaml), "f")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	// All at once.
	_, err := ReadConfig(strings.NewReader(strings.ReplaceAll(swap("max_tokens: 5", "max_tokens: 0"), "iterations: 10", "iterations: 0")), "f")
	if err == nil || !strings.Contains(err.Error(), "f:13:") || !strings.Contains(err.Error(), "f:14:") {
		t.Errorf("two faults: %v", err)
	}
}

// All of the configuration is kept with the result, so a password in it is refused,
// and not repeated.
func TestConfigRefusesPasswords(t *testing.T) {
	const word = "pa55word"
	swap := func(old, new string) string { return strings.Replace(goodConfig, old, new, 1) }
	for name, text := range map[string]string{
		"address":           swap("http://127.0.0.1:8000", "http://alice:"+word+"@127.0.0.1:8000"),
		"token":             swap("http://127.0.0.1:8000", "http://"+word+"@127.0.0.1:8000"),
		"address, no parse": swap("http://127.0.0.1:8000", "http://alice:"+word+"/x@127.0.0.1:8000"),
		"args":              swap("url: http://127.0.0.1:8000", "binary_path: ./b\n    args: [\"--proxy=http://alice:"+word+"@proxy:1\"]"),
		"env":               swap("url: http://127.0.0.1:8000", "binary_path: ./b\n    env: {PROXY: \"http://alice:"+word+"@proxy:1\"}"),
		"command":           swap("{port}", "{port}\", \"http://alice:"+word+"@proxy:1"),
	} {
		if text == goodConfig {
			t.Fatalf("%s: nothing was swapped", name)
		}
		_, err := ReadConfig(strings.NewReader(text), "f")
		if err == nil || !strings.Contains(err.Error(), "would be recorded") || strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPick(t *testing.T) {
	c, err := ReadConfig(strings.NewReader(goodConfig), "f")
	if err != nil {
		t.Fatal(err)
	}
	_, before, _ := c.encoded()
	picked := c
	if err := picked.Pick([]string{"b"}); err != nil {
		t.Fatal(err)
	}
	if e := picked.enabled(); len(e) != 1 || e[0].Name != "b" {
		t.Errorf("picked %+v", e)
	}
	if _, after, _ := picked.encoded(); after == before {
		t.Error("another experiment has the same hash")
	}
	if len(c.enabled()) != 2 {
		t.Error("picking changed the configuration that it was picked from")
	}
	if err := picked.Pick([]string{"c"}); err == nil || !strings.Contains(err.Error(), "the file has a, b") {
		t.Errorf("picking nobody: %v", err)
	}
}

func TestAsk(t *testing.T) {
	c, err := ReadConfig(strings.NewReader(goodConfig+"analysis: {price_per_hour: {a: 0.35, default: 1}, slo: [ttft_p99<200ms]}"), "f")
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.ask()
	if err != nil {
		t.Fatal(err)
	}
	if a.Prices["a"].Nano != 350_000_000 || a.Prices[""].Currency != "USD" || a.SLO[0].Max != 200 || a.Confidence != 0.95 || !a.Plots {
		t.Errorf("%+v", a)
	}
}

// The table that the page is made from is what the code reads: it has each member
// and no other, its defaults are those that a configuration gets, and what is not
// among its values is refused.
func TestAnalysisTableIsWhatIsRead(t *testing.T) {
	c, err := ReadConfig(strings.NewReader(goodConfig+"analysis: {price_per_hour: {default: 1}}"), "f")
	if err != nil {
		t.Fatal(err)
	}
	var members []string
	v := reflect.ValueOf(c.Analysis)
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("yaml")
		members = append(members, key)
		k := compare.AnalysisKeyOf(key)
		if k.Key == "" {
			t.Errorf("%s is not in the table", key)
		}
		if is := fmt.Sprint(reflect.Indirect(v.Field(i)).Interface()); k.Default != "" && is != k.Default {
			t.Errorf("%s is %s unless said, and the table has %s", key, is, k.Default)
		}
		if len(k.Values) == 0 {
			continue
		}
		for _, value := range append(k.Values, "other") {
			_, err := ReadConfig(strings.NewReader(goodConfig+"analysis: {"+key+": "+value+"}"), "f")
			if (err != nil) != (value == "other") {
				t.Errorf("%s: %s: %v", key, value, err)
			}
		}
	}
	for _, k := range compare.AnalysisKeys() {
		if !slices.Contains(members, k.Key) {
			t.Errorf("the table has %s, and nothing reads it", k.Key)
		}
	}
}

func TestReadConfigRefusesWhatExplodes(t *testing.T) {
	if _, err := ReadConfig(strings.NewReader("engines: "+strings.Repeat("[", 100_000)), "f.yaml"); !errors.Is(err, yamltext.ErrBounds) {
		t.Error(err)
	}
}
