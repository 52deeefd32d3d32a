package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/summary"
)

func copyRun(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// readAll reads everything of a run and says how many of each line there are.
func readAll(run *journal.Run) (n [3]int, err error) {
	for _, err := range run.Requests() {
		if err != nil {
			return n, err
		}
		n[0]++
	}
	for _, err := range run.Readings() {
		if err != nil {
			return n, err
		}
		n[1]++
	}
	for _, err := range run.Events() {
		if err != nil {
			return n, err
		}
		n[2]++
	}
	return n, nil
}

// A run that is cut off at any byte of any file can be read and summarised, and
// never passes for complete. Lines lost without a torn one show by the
// checkpoint's offsets.
func TestCutAtEveryByte(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole")
	makeExample(t, whole, second/3)
	for _, name := range []string{journal.RequestsFile, journal.TelemetryFile, journal.EventsFile, journal.CheckpointFile, journal.SummaryFile} {
		b, err := os.ReadFile(filepath.Join(whole, name))
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "cut")
		copyRun(t, whole, dir)
		step := 1
		if testing.Short() {
			step = 7
		}
		for at := len(b) - 1; at >= 0; at -= step {
			if err := os.Truncate(filepath.Join(dir, name), int64(at)); err != nil {
				t.Fatal(err)
			}
			run, err := journal.Open(dir)
			if err != nil {
				t.Fatalf("%s cut at %d: %v", name, at, err)
			}
			var n [3]int
			if name != journal.SummaryFile { // derived: the others do not know it
				if n, err = readAll(run); err != nil {
					t.Fatalf("%s cut at %d: %v", name, at, err)
				}
			}
			if got := run.Status(); got != assay.StatusPartial {
				t.Fatalf("%s cut at %d: status %s", name, at, got)
			}
			if strings.HasSuffix(name, ".jsonl") {
				i := map[string]int{journal.RequestsFile: 0, journal.TelemetryFile: 1, journal.EventsFile: 2}[name]
				if want := bytes.Count(b[:at], []byte("\n")); n[i] != want {
					t.Fatalf("%s cut at %d: %d lines, want %d", name, at, n[i], want)
				}
				if len(run.Torn()) == 0 {
					t.Fatalf("%s cut at %d: nothing is said to be torn", name, at)
				}
			}
			if at%97 == 0 {
				s, err := summary.Of(run)
				if err != nil {
					t.Fatalf("%s cut at %d: %v", name, at, err)
				}
				if want := name == journal.SummaryFile; (s.Status == assay.StatusComplete) != want {
					t.Fatalf("%s cut at %d: summary says %s", name, at, s.Status)
				}
			}
		}
	}
	// run.json is renamed into place, so a cut one is damage.
	b, err := os.ReadFile(filepath.Join(whole, journal.RunFile))
	if err != nil {
		t.Fatal(err)
	}
	for at := len(b) - 1; at >= 0; at-- {
		if err := os.Truncate(filepath.Join(whole, journal.RunFile), int64(at)); err != nil {
			t.Fatal(err)
		}
		if _, err := journal.Open(whole); err == nil || !strings.Contains(err.Error(), journal.RunFile) {
			t.Fatalf("run.json cut at %d: %v", at, err)
		}
	}
}

func TestBrokenLines(t *testing.T) {
	for _, c := range []struct {
		name, file string
		alter      func([]byte) []byte
		line       int
	}{
		{"garbage in the middle", journal.RequestsFile, func(b []byte) []byte { return replaceLine(b, 3, "{garbage") }, 3},
		{"an empty line", journal.RequestsFile, func(b []byte) []byte { return replaceLine(b, 2, "") }, 2},
		{"a request without an id", journal.RequestsFile, func(b []byte) []byte { return replaceLine(b, 1, "{}") }, 1},
		{"the wrong type", journal.TelemetryFile, func(b []byte) []byte { return replaceLine(b, 5, `{"t_ns":"soon"}`) }, 5},
		{"garbage in the last whole line", journal.EventsFile, func(b []byte) []byte { return append(b, "nonsense\n"...) }, 18},
		{"a line without an end", journal.RequestsFile, func(b []byte) []byte {
			return replaceLine(b, 2, `{"id":"`+strings.Repeat("x", journal.MaxLine)+`"}`)
		}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			copyRun(t, exampleDir, dir)
			path := filepath.Join(dir, c.file)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, c.alter(b), 0o644); err != nil {
				t.Fatal(err)
			}
			run, err := journal.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			_, err = readAll(run)
			var le *journal.LineError
			if !errors.As(err, &le) || le.File != c.file || le.Line != c.line {
				t.Errorf("got %v, want line %d of %s", err, c.line, c.file)
			}
			if _, err := summary.Of(run); !errors.As(err, &le) {
				t.Errorf("the summary passes over it: %v", err)
			}
		})
	}
}

func replaceLine(b []byte, n int, with string) []byte {
	lines := bytes.SplitAfter(b, []byte("\n"))
	lines[n-1] = []byte(with + "\n")
	return bytes.Join(lines, nil)
}

func TestLongLineReads(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	w, err := journal.Create(dir, exampleManifest())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		r := &assay.Request{ID: fmt.Sprint(i), Stage: "a", Text: strings.Repeat("y", i*3_000_000)}
		if err := w.Request(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	run, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for r, err := range run.Requests() {
		if err != nil {
			t.Fatal(err)
		}
		if r.ID != fmt.Sprint(i) || len(r.Text) != i*3_000_000 {
			t.Errorf("line %d: id %s, %d bytes of text", i, r.ID, len(r.Text))
		}
		i++
	}
	if i != 3 {
		t.Errorf("%d lines", i)
	}
}

func TestOpenWhatIsNoRun(t *testing.T) {
	if _, err := journal.Open(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty directory: %v", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, journal.RunFile), []byte(`{"format":"assay/run/v2"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.Open(dir); err == nil || !strings.Contains(err.Error(), "assay/run/v2") {
		t.Errorf("a later format: %v", err)
	}
	// A run that died right after run.json has nothing in it, and reads.
	if err := os.WriteFile(filepath.Join(dir, journal.RunFile), []byte(`{"format":"assay/run/v1","id":"x"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run, err := journal.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := readAll(run); err != nil || n != [3]int{} || run.Status() != assay.StatusPartial {
		t.Errorf("%v, %v, %s", n, err, run.Status())
	}
	if _, err := run.Summary(); !errors.Is(err, journal.ErrNone) {
		t.Errorf("summary: %v", err)
	}
	if _, err := run.Checkpoint(); !errors.Is(err, journal.ErrNone) {
		t.Errorf("checkpoint: %v", err)
	}
}
