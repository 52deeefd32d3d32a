package experiment

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/assay-bench/assay/compare"
)

// A set of processors that the machine does not have and a program that is not
// there are refused before the pilot, together, and nothing is written.
func TestMissingProcessorsAndProgramsAreRefusedBeforeThePilot(t *testing.T) {
	l := newLab(t)
	dir := l.dir + "/new"
	c := quick(1, l.engine("fine", ""),
		EngineConfig{Name: "absent", Serve: &ServeConfig{Command: []string{"./no-such-engine", "{port}"}}},
		EngineConfig{Name: "nowhere", Serve: &ServeConfig{Command: []string{"no-such-engine", "{port}"}}},
		EngineConfig{Name: "no_bench", BinaryPath: "no-such-bench"},
		EngineConfig{Name: "elsewhere", URL: "http://127.0.0.1:1"},
	)
	off := EngineConfig{Name: "off", BinaryPath: "no-such-bench", Enabled: new(bool)}
	c.Engines = append(c.Engines, off)
	c.System.CPUAffinity = []int{0, 1000}
	_, err := Run(t.Context(), c, dir, l.opt)
	if !errors.Is(err, ErrMissing) {
		t.Fatal(err)
	}
	for _, want := range []string{"system.cpu_affinity: CPU 1000 is not ours", "engine absent: its program cannot be run: ./no-such-engine", "engine nowhere: ", "engine no_bench: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	for _, name := range []string{"fine", "elsewhere", "off"} {
		if strings.Contains(err.Error(), name) {
			t.Errorf("%s is refused too: %v", name, err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
}

// What outlier_threshold asks for is not done, and the result says so.
func TestOutlierThresholdIsAnswered(t *testing.T) {
	var c Config
	if n := c.notes(); len(n) != 0 {
		t.Errorf("nothing was asked, and answered: %q", n)
	}
	c.Analysis.OutlierThreshold = 2
	if n := strings.Join(c.notes(), ""); !strings.Contains(n, "outlier_threshold: 2 removes nothing") {
		t.Errorf("%q", n)
	}
}

// The configuration that a result keeps is one that can be run again: it is read
// back as the same experiment.
func TestReproductionIsTheSameExperiment(t *testing.T) {
	for _, name := range []string{"quick.yaml", "comprehensive.yaml", "gpu-only.yaml", "two-simulators.yaml", "ollama.yaml", "llama-cpp.yaml", "vllm.yaml", "pytorch.yaml"} {
		c := example(t, name)
		config, hash, err := c.encoded()
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		e := compare.Experiment{Format: compare.ExperimentFormat, Config: config, ConfigSHA256: hash, Engines: []compare.Engine{{Name: "a"}}, Workloads: []string{"w"}}
		if err := compare.WriteOutputs(dir, e, compare.Analyze(e), compare.OutputOptions{}); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(dir + "/reproduce/config.json")
		if err != nil {
			t.Fatal(err)
		}
		again, err := ReadConfig(f, name)
		_ = f.Close()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, is, _ := again.encoded(); is != hash {
			t.Errorf("%s: read back it is another experiment", name)
		}
	}
}
