package gotest

import (
	"slices"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	const p = `"Package":"example.org/m/p"`
	for _, c := range []struct {
		name            string
		events          []string
		passed, failed  int
		skipped         []Skip
		printed, silent string
	}{
		{
			name: "pass, fail, skip and a subtest",
			events: []string{
				`{"Action":"start",` + p + `}`,
				`{"Action":"run",` + p + `,"Test":"TestA"}`,
				`{"Action":"output",` + p + `,"Test":"TestA","Output":"quiet\n"}`,
				`{"Action":"run",` + p + `,"Test":"TestA/sub"}`,
				`{"Action":"pass",` + p + `,"Test":"TestA/sub"}`,
				`{"Action":"pass",` + p + `,"Test":"TestA"}`,
				`{"Action":"run",` + p + `,"Test":"TestB"}`,
				`{"Action":"output",` + p + `,"Test":"TestB","Output":"    b_test.go:3: wrong by 7\n"}`,
				`{"Action":"fail",` + p + `,"Test":"TestB"}`,
				`{"Action":"run",` + p + `,"Test":"TestC"}`,
				`{"Action":"output",` + p + `,"Test":"TestC","Output":"=== RUN   TestC\n"}`,
				`{"Action":"output",` + p + `,"Test":"TestC","Output":"    c_test.go:9: no GPU here: none found\n"}`,
				`{"Action":"output",` + p + `,"Test":"TestC","Output":"--- SKIP: TestC (0.00s)\n"}`,
				`{"Action":"skip",` + p + `,"Test":"TestC"}`,
				`{"Action":"fail",` + p + `,"Elapsed":1.5}`,
			},
			passed: 2, failed: 1,
			skipped: []Skip{{"p.TestC", "no GPU here: none found"}},
			printed: "wrong by 7", silent: "quiet",
		},
		{
			name: "a package that does not build",
			events: []string{
				`{"ImportPath":"example.org/m/p [p.test]","Action":"build-output","Output":"p.go:1: undefined: x\n"}`,
				`{"ImportPath":"example.org/m/p [p.test]","Action":"build-fail"}`,
				`{"Action":"start",` + p + `}`,
				`{"Action":"fail",` + p + `,"FailedBuild":"example.org/m/p [p.test]"}`,
			},
			failed: 1, printed: "undefined: x",
		},
		{
			name: "a package that dies in a test",
			events: []string{
				`{"Action":"start",` + p + `}`,
				`{"Action":"run",` + p + `,"Test":"TestA"}`,
				`{"Action":"output",` + p + `,"Test":"TestA","Output":"panic: gone\n"}`,
				`{"Action":"fail",` + p + `}`,
			},
			failed: 1, printed: "panic: gone",
		},
		{
			name:   "input cut off",
			events: []string{`{"Action":"start",` + p + `}`, `{"Action":"run",` + p + `,"Test":"TestA"}`},
			failed: 1, printed: "did not end",
		},
		{
			name:    "a plain line",
			events:  []string{`go: no such module`},
			printed: "no such module",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			got, err := Read(strings.NewReader(strings.Join(c.events, "\n")), &out)
			if err != nil {
				t.Fatal(err)
			}
			if got.Passed != c.passed || got.Failed != c.failed || len(got.Failures) != c.failed || !slices.Equal(got.Skipped, c.skipped) {
				t.Errorf("got %d passed, %d failed, skipped %v", got.Passed, got.Failed, got.Skipped)
			}
			if !strings.Contains(out.String(), c.printed) {
				t.Errorf("%q is missing in:\n%s", c.printed, out.String())
			}
			if c.silent != "" && strings.Contains(out.String(), c.silent) {
				t.Errorf("%q was printed", c.silent)
			}
		})
	}
}

func TestPrintEndsWithCounts(t *testing.T) {
	var out strings.Builder
	Tally{Passed: 3, Failed: 1, Skipped: []Skip{{"p.TestC", "no GPU"}}}.Print(&out)
	want := "skipped p.TestC: no GPU\n3 passed, 1 failed, 1 skipped\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
