// Package gotest reads what `go test -json` prints: what passed, failed and was
// skipped, with the output of what failed, and what took longest.
package gotest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Tally is what a run of tests came to. A test counts once, and so does each of
// its subtests: a table of cases is worth its cases. A package that fails
// without a failing test (it does not build, it panics, it times out) counts as
// one failure.
type Tally struct {
	Passed, Failed int
	Failures       []Failure // as many as Failed
	Once           []string  // what failed, and did not in a second try alone
	Skipped        []Skip
	Slow           []Timed // packages, slowest first
	SlowTests      []Timed // tests without their subtests, slowest first
}

// Failure is a test that failed, or, without a test's name, a package that did
// not build, died or did not end.
type Failure struct{ Package, Test, Output string }

// Name is the package's path, and the test behind it.
func (f Failure) Name() string {
	if f.Test == "" {
		return f.Package
	}
	return f.Package + "." + f.Test
}

// Skip is a test that did not run, and why it said so.
type Skip struct{ Name, Reason string }

// Timed is how long a test or a package took.
type Timed struct {
	Name    string
	Seconds float64
}

// event is a line of `go test -json`; `go doc test2json` describes it.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

type key struct{ pkg, test string }

// Read tallies events and prints the output of each failure to w as it comes:
// a run that is cut off has said what it knew.
func Read(r io.Reader, w io.Writer) (Tally, error) {
	var t Tally
	output := map[key]*strings.Builder{}
	builds := map[string]*strings.Builder{}
	open := map[string]bool{}       // packages that started and have not ended
	tests := map[key]bool{}         // tests that started and have not ended
	failedTests := map[string]int{} // by package

	s := bufio.NewScanner(r)
	s.Buffer(nil, 64<<20)
	for s.Scan() {
		var e event
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			// The go command may print plain lines before the first package.
			fmt.Fprintln(w, s.Text())
			continue
		}
		k := key{e.Package, e.Test}
		switch e.Action {
		case "build-output":
			add(builds, e.ImportPath, e.Output)
		case "output":
			add(output, k, e.Output)
		case "start":
			open[e.Package] = true
		case "run":
			tests[k] = true
		case "pass", "skip", "fail":
			if e.Test == "" {
				delete(open, e.Package)
				if e.Elapsed > 0 {
					t.Slow = append(t.Slow, Timed{e.Package, e.Elapsed})
				}
				if e.Action == "fail" && failedTests[e.Package] == 0 {
					said := text(builds[e.FailedBuild])
					// What a panic or a timeout left belongs to whichever
					// test was running.
					for o := range tests {
						if o.pkg == e.Package {
							said += fmt.Sprintf("    %s did not end:\n%s", o.test, text(output[o]))
							delete(tests, o)
						}
					}
					t.fail(w, Failure{Package: e.Package, Output: said + text(output[k])})
				}
				delete(output, k)
				continue
			}
			delete(tests, k)
			if !strings.Contains(e.Test, "/") {
				t.SlowTests = append(t.SlowTests, Timed{short(e.Package) + "." + e.Test, e.Elapsed})
			}
			switch e.Action {
			case "pass":
				t.Passed++
			case "skip":
				t.Skipped = append(t.Skipped, Skip{short(e.Package) + "." + e.Test, reason(text(output[k]))})
			case "fail":
				failedTests[e.Package]++
				t.fail(w, Failure{e.Package, e.Test, text(output[k])})
			}
			delete(output, k)
		}
	}
	if err := s.Err(); err != nil {
		return t, err
	}
	for p := range open {
		t.fail(w, Failure{Package: p, Output: "did not end\n"})
	}
	slices.SortFunc(t.Slow, slowestFirst)
	slices.SortFunc(t.SlowTests, slowestFirst)
	return t, nil
}

func (t *Tally) fail(w io.Writer, f Failure) {
	t.Failed++
	t.Failures = append(t.Failures, f)
	fmt.Fprintf(w, "--- FAIL: %s\n%s", f.Name(), f.Output)
}

func slowestFirst(a, b Timed) int {
	return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), strings.Compare(a.Name, b.Name))
}

// Print writes the slowest packages and tests, the skipped tests and the line of
// counts.
func (t Tally) Print(w io.Writer) {
	for _, slow := range [][]Timed{t.Slow[:min(8, len(t.Slow))], t.SlowTests[:min(12, len(t.SlowTests))]} {
		for _, p := range slow {
			fmt.Fprintf(w, "%7.1f s  %s\n", p.Seconds, p.Name)
		}
	}
	for _, s := range t.Skipped {
		fmt.Fprintf(w, "skipped %s: %s\n", s.Name, s.Reason)
	}
	for _, name := range t.Once {
		fmt.Fprintf(w, "failed once, not when alone: %s\n", name)
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", t.Passed, t.Failed, len(t.Skipped))
}

func add[K comparable](m map[K]*strings.Builder, k K, s string) {
	if m[k] == nil {
		m[k] = new(strings.Builder)
	}
	m[k].WriteString(s)
}

func text(b *strings.Builder) string {
	if b == nil {
		return ""
	}
	return b.String()
}

// short is a package's path without the module's host and owner.
func short(pkg string) string {
	if parts := strings.SplitN(pkg, "/", 3); len(parts) == 3 {
		return parts[2]
	}
	return pkg
}

// reason is what the test printed, without the lines that the test runner adds
// and without the file and line of the call.
func reason(output string) string {
	var said []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		if file, rest, ok := strings.Cut(line, ": "); ok && strings.Contains(file, ".go:") {
			line = rest
		}
		said = append(said, line)
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}
