package gotest

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxAgain is how many tests have a second try. More that fail at once are not
// the machine's doing.
const maxAgain = 12

// Again tries each test that failed once more, alone, by run, which prints the
// events of that one test. On a machine that others use too, a second run alone
// tells a test that is wrong from one that had no processor for a minute; the
// failure is printed either way, and so is that it failed once.
//
// A data race is final, however often the test passes: it was seen. So is a
// panic, and a package that did not build or did not end.
func (t *Tally) Again(w io.Writer, run func(pkg, test string) (io.Reader, error)) error {
	tests := t.retried()
	if len(tests) > maxAgain {
		fmt.Fprintf(w, "%d tests failed: too many for a second try\n", len(tests))
		return nil
	}
	for _, k := range tests {
		fmt.Fprintf(w, "\nsecond try, alone: %s.%s\n", short(k.pkg), k.test)
		events, err := run(k.pkg, k.test)
		if err != nil {
			return err
		}
		second, err := Read(events, w)
		if err != nil {
			return err
		}
		t.replace(k, second)
	}
	return nil
}

// retried are the tests, without their subtests, that may have been the
// machine's fault.
func (t *Tally) retried() []key {
	var all []key
	final := map[key]bool{}
	for _, f := range t.Failures {
		if f.Test == "" {
			continue
		}
		k := topOf(f)
		if !slices.Contains(all, k) {
			all = append(all, k)
		}
		for _, word := range []string{"DATA RACE", "race detected", "panic: "} {
			if strings.Contains(f.Output, word) {
				final[k] = true
			}
		}
	}
	return slices.DeleteFunc(all, func(k key) bool { return final[k] })
}

// replace puts a test's second result in the place of its first.
func (t *Tally) replace(k key, second Tally) {
	if second.Passed+second.Failed+len(second.Skipped) == 0 {
		return // it did not run: what is known stands
	}
	mine := func(f Failure) bool { return f.Test != "" && topOf(f) == k }
	first := 0
	for _, f := range t.Failures {
		if mine(f) {
			first++
		}
	}
	t.Failures = append(slices.DeleteFunc(t.Failures, mine), second.Failures...)
	t.Failed = len(t.Failures)
	if second.Failed == 0 {
		// What passed in the first run is counted already.
		t.Passed += max(0, first-len(second.Skipped))
		t.Skipped = append(t.Skipped, second.Skipped...)
		t.Once = append(t.Once, short(k.pkg)+"."+k.test)
	}
}

func topOf(f Failure) key {
	top, _, _ := strings.Cut(f.Test, "/")
	return key{f.Package, top}
}
