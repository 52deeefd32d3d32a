package journal_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/summary"
)

var update = flag.Bool("update", false, "write the committed run directory again; only for a format that is not released")

const exampleDir = "testdata/run-v1"

func makeExample(t *testing.T, dir string, length int64) {
	t.Helper()
	w, err := journal.Create(dir, exampleManifest())
	if err != nil {
		t.Fatal(err)
	}
	if err := writeExample(w, length); err != nil {
		t.Fatal(err)
	}
	run, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := summary.Of(run)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Summary(&s); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// The bytes that this version writes for the example are those that were
// committed: a change of the format shows here.
func TestExampleBytes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if *update {
		if err := os.RemoveAll(exampleDir); err != nil {
			t.Fatal(err)
		}
		makeExample(t, exampleDir, 5*second)
	}
	makeExample(t, dir, 5*second)
	for _, name := range []string{journal.RunFile, journal.RequestsFile, journal.TelemetryFile, journal.ChecksFile, journal.EventsFile, journal.CheckpointFile} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(exampleDir, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from the committed one", name)
		}
	}
}

// Every later version must read the committed run.
func TestExampleReads(t *testing.T) {
	run, err := journal.Open(exampleDir)
	if err != nil {
		t.Fatal(err)
	}
	if got := run.Status(); got != assay.StatusComplete {
		t.Errorf("status %s, torn %q", got, run.Torn())
	}
	ids := map[string]bool{}
	failures := map[assay.Failure]int{}
	for r, err := range run.Requests() {
		if err != nil {
			t.Fatal(err)
		}
		if ids[r.ID] {
			t.Errorf("%s twice", r.ID)
		}
		ids[r.ID] = true
		failures[r.Error]++
	}
	if len(ids) != 239 || len(failures) != len(assay.Failures()) {
		t.Errorf("%d requests, %v", len(ids), failures)
	}
	readings, events, checks := 0, 0, 0
	for c, err := range run.Checks() {
		if err != nil {
			t.Fatal(err)
		}
		if c.Name == "" || c.Verdict == assay.Unknown {
			t.Errorf("check %+v", c)
		}
		checks++
	}
	for _, err := range run.Readings() {
		if err != nil {
			t.Fatal(err)
		}
		readings++
	}
	for e, err := range run.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == assay.EventStageStarted && e.Plan == nil {
			t.Error("a stage without a plan")
		}
		events++
	}
	if readings != 400 || events != 17 || checks != 1 {
		t.Errorf("%d readings, %d events, %d checks", readings, events, checks)
	}
	c, err := run.Checkpoint()
	if err != nil || c.Offsets[journal.RequestsFile] == 0 {
		t.Errorf("checkpoint %+v, %v", c, err)
	}
	if s, err := run.Summary(); err != nil || len(s.Stages) != 4 {
		t.Errorf("summary: %v", err)
	}
}
