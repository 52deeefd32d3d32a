package acceptance

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// .ci/run has the names of the tests that call light, since it runs them apart: one
// that it does not know would run beside what is timed.
func TestLightOnesAreKnown(t *testing.T) {
	script, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^LIGHT_TESTS='(.*)'$`).FindSubmatch(script)
	if list == nil {
		t.Fatal(".ci/run has no LIGHT_TESTS")
	}
	known := regexp.MustCompile(string(list[1]))
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\) \{\n\tlight\(t\)$`).FindAllSubmatch(text, -1) {
			if n++; !known.Match(m[1]) {
				t.Errorf("LIGHT_TESTS in .ci/run lacks %s", m[1])
			}
		}
	}
	if n < 8 {
		t.Errorf("%d tests call light", n)
	}
}
