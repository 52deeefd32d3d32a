package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// The example that needs nothing but this program, for one short round: it runs as
// it stands, and says that one round decides nothing.
func TestExampleTwoSimulators(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are held together on Linux only")
	}
	t.Parallel()
	dir := t.TempDir()
	b, err := os.ReadFile(filepath.Join("..", "..", "examples", "compare", "two-simulators.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(b), "  rounds: 10\n", "  rounds: 1\n", 1)
	text = regexp.MustCompile(`iterations: \d+, warmup_iterations: \d+`).ReplaceAllString(text, "iterations: 4, warmup_iterations: 1")
	file, out := filepath.Join(dir, "short.yaml"), filepath.Join(dir, "out")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("assay", "compare", file, "--output", out)
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for _, want := range []string{"Not decided", "more rounds; set experiment.rounds to", "report: " + filepath.Join(out, "report.html")} {
		if !strings.Contains(string(said), want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	var sum struct {
		Summary struct {
			Fastest string `json:"fastest_engine"`
		}
	}
	if b, err = os.ReadFile(filepath.Join(out, "summary.json")); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &sum); err != nil || sum.Summary.Fastest != "tied" {
		t.Errorf("fastest %q, %v", sum.Summary.Fastest, err)
	}
	html, err := os.ReadFile(filepath.Join(out, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Throughput over concurrency", "Memory over time", "How to repeat this", "RESULTS/reproduce/config.json"} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	// What it says is how to repeat it can be read, and names the same engines.
	again := exec.Command("assay", "compare", filepath.Join(out, "reproduce", "config.json"), "--locked", out, "--engines", "nobody", "--output", filepath.Join(dir, "again"))
	if said, err := again.CombinedOutput(); err == nil || !strings.Contains(string(said), "the file has four_slots, eight_slots") {
		t.Errorf("%v: %s", err, said)
	}
}
