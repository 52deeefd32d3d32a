package gotest

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestAgain(t *testing.T) {
	const p = `"Package":"example.org/m/p"`
	events := func(test, action, output string) string {
		return `{"Action":"run",` + p + `,"Test":"` + test + `"}
{"Action":"output",` + p + `,"Test":"` + test + `","Output":"` + output + `"}
{"Action":"` + action + `",` + p + `,"Test":"` + test + `"}
`
	}
	first := events("TestGood", "pass", "") +
		events("TestBusy/late", "fail", "took 6 s\\n") + events("TestBusy", "fail", "") +
		events("TestWrong", "fail", "2 and 2 are 5\\n") +
		events("TestStill", "fail", "took 9 s\\n") +
		events("TestRaced/a", "fail", "WARNING: DATA RACE\\n") + events("TestRaced", "fail", "") +
		events("TestDied", "fail", "panic: gone\\n")
	tally, err := Read(strings.NewReader(first), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	second := map[string]string{
		"TestBusy":  events("TestBusy/late", "pass", "") + events("TestBusy", "pass", ""),
		"TestWrong": events("TestWrong", "fail", "2 and 2 are 5\\n"),
		"TestStill": events("TestStill", "skip", "the machine stood still\\n"),
	}
	var out strings.Builder
	err = tally.Again(&out, func(pkg, test string) (io.Reader, error) {
		s, ok := second[test]
		if !ok || pkg != "example.org/m/p" {
			t.Errorf("%s of %s was tried again", test, pkg)
		}
		delete(second, test)
		return strings.NewReader(s), nil
	})
	if err != nil || len(second) != 0 {
		t.Fatalf("%v; not tried again: %v", err, second)
	}
	var failed []string
	for _, f := range tally.Failures {
		failed = append(failed, f.Test)
	}
	slices.Sort(failed)
	if want := []string{"TestDied", "TestRaced", "TestRaced/a", "TestWrong"}; !slices.Equal(failed, want) || tally.Failed != len(want) {
		t.Errorf("failed %d: %v, want %v", tally.Failed, failed, want)
	}
	if want := []string{"p.TestBusy", "p.TestStill"}; tally.Passed != 3 || len(tally.Skipped) != 1 || !slices.Equal(tally.Once, want) {
		t.Errorf("%d passed, %d skipped, failed once %v, want 3, 1 and %v", tally.Passed, len(tally.Skipped), tally.Once, want)
	}
	tally.Print(&out)
	if !strings.Contains(out.String(), "failed once, not when alone: ") {
		t.Errorf("it is not said:\n%s", &out)
	}
}

// A second try that ran no test takes nothing back.
func TestAgainThatDidNotRun(t *testing.T) {
	tally := Tally{Failed: 1, Failures: []Failure{{"p", "TestA", "wrong"}}}
	if err := tally.Again(io.Discard, func(string, string) (io.Reader, error) { return strings.NewReader(""), nil }); err != nil {
		t.Fatal(err)
	}
	if tally.Failed != 1 || len(tally.Failures) != 1 || tally.Once != nil {
		t.Errorf("%+v", tally)
	}
}

// A broken change is not tried again test by test.
func TestAgainHasABound(t *testing.T) {
	var tally Tally
	for i := range maxAgain + 1 {
		tally.fail(io.Discard, Failure{"p", "Test" + string(rune('A'+i)), "wrong"})
	}
	err := tally.Again(io.Discard, func(string, string) (io.Reader, error) {
		t.Error("tried again")
		return strings.NewReader(""), nil
	})
	if err != nil || tally.Failed != maxAgain+1 {
		t.Errorf("%v, %d failed", err, tally.Failed)
	}
}
