package assay_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// byHand are variables that only a person sets; the tests that read them run
// without them as well.
var byHand = map[string]string{
	"ASSAY_RECORD":      "keeps the requests of an agent, at a release",
	"ASSAY_SCREENSHOTS": "keeps the pictures of pages and plots",
	"ASSAY_STATEMENTS":  "makes a test of the ledger shorter for who works on it",
	"ASSAY_STORM_SEED":  "repeats a storm",
}

var (
	readsVariable = regexp.MustCompile(`(?:Getenv|LookupEnv|engineURL)\((?:t, )?"([A-Z_]+)"\)`)
	setsVariable  = regexp.MustCompile(`\b([A-Z][A-Z_]+)\b(?:=|", )`)
)

// A test that asks for a variable which nothing sets never runs: .ci sets it, or
// a test that starts a child, or the system.
func TestVariablesOfTestsAreSet(t *testing.T) {
	set := map[string]bool{"PATH": true, "HOME": true}
	asked := map[string]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != "." && d.Name() != ".ci") {
			return filepath.SkipDir
		}
		script := strings.HasPrefix(path, ".ci")
		if d.IsDir() || !script && !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range setsVariable.FindAllStringSubmatch(string(text), -1) {
			set[m[1]] = true
		}
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range readsVariable.FindAllStringSubmatch(string(text), -1) {
				asked[m[1]] = path
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(asked) < 10 {
		t.Errorf("tests ask for %d variables: the pattern misses some", len(asked))
	}
	for name, path := range asked {
		if !set[name] && byHand[name] == "" {
			t.Errorf("%s asks for %s, which nothing sets", path, name)
		}
	}
}
