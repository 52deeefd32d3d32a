package compare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/report"
)

func TestReproductionInstructions(t *testing.T) {
	e := full()
	e.ID, e.ConfigSHA256, e.Plan.Seed = "01TEST", strings.Repeat("c", 64), 42
	e.Command = []string{"assay", "compare", "my bench.yaml", "--gate", "ttft_p99<=+5%", "it's"}
	e.Version.BinarySHA256 = strings.Repeat("b", 64)
	e.Node.Kernel, e.Node.GPUs = "6.1.0", []assay.GPU{{UUID: "g", Name: "A GPU", Index: 1, Driver: "570.1", CUDA: "12.8"}}
	e.Engines[0].Lock = map[string]string{"command": "vllm serve", "command_sha256": strings.Repeat("a", 64), "python": "3.11.2", "python_packages_sha256": "d00d", "gpu_driver": "570.1"}
	e.Engines[0].Packages = []string{"aiohttp==1.0", "torch==2.13.0"}
	dir := t.TempDir()
	if err := WriteOutputs(dir, e, Analyze(e), OutputOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"comparison_table.md", "report.html"} {
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"How to repeat this", "assay compare RESULTS/reproduce/config.json", "RESULTS/reproduce/a-requirements.txt", "Python 3.11.2",
			strings.Repeat("a", 64), strings.Repeat("b", 64), strings.Repeat("c", 64), "d00d", "570.1", "12.8", "6.1.0", "AMD EPYC", "vllm serve",
		} {
			// Markdown escapes some letters, and HTML others.
			if !strings.Contains(strings.ReplaceAll(string(b), `\`, ""), want) {
				t.Errorf("%s lacks %q", file, want)
			}
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "reproduce", "a-requirements.txt")); err != nil || string(got) != "aiohttp==1.0\ntorch==2.13.0\n" {
		t.Errorf("requirements: %q %v", got, err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "reproduce", "config.json")); err != nil || string(got) != "{\n  \"z\": 1,\n  \"a\": [\n    \"x\"\n  ]\n}\n" {
		t.Errorf("configuration: %q %v", got, err)
	}
	if got, want := shellWords(e.Command), `assay compare 'my bench.yaml' --gate 'ttft_p99<=+5%' 'it'\''s'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Runs that were made elsewhere have no configuration, and nobody is told to run one.
func TestReproductionOfRuns(t *testing.T) {
	e := made(2, 1, 1)
	e.Config, e.ConfigSHA256 = nil, ""
	dir := t.TempDir()
	if err := WriteOutputs(dir, e, Analyze(e), OutputOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "reproduce", "config.json")); err == nil {
		t.Error("there is a configuration")
	}
	var b strings.Builder
	if err := report.Text(&b, report.Page{Blocks: reproduction(e)}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "config.json") || !strings.Contains(b.String(), "Nothing was started for it") {
		t.Error(b.String())
	}
}
