package assay_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// requirement is one row of docs/origins.md.
type requirement struct {
	document, asked, where string
	line                   int
}

// originDocuments are the headings under which docs/origins.md has a table of
// requirements.
var originDocuments = []string{
	"Hammer GPU Profiler Specification", "Benchmark Test Design", "Single-Node Performance Benchmarks", "Benchmark Runner", "GPU Logger",
}

// requirements reads the tables. A row of a document whose second cell is empty
// is a heading within the table.
func requirements(page string) (out []requirement) {
	document := ""
	n := 0
	for line := range strings.Lines(page) {
		n++
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			document = heading
		}
		cells := strings.Split(line, "|")
		if document == "" || len(cells) < 4 || strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| what it asks") {
			continue
		}
		asked, where := strings.TrimSpace(cells[1]), strings.TrimSpace(strings.Join(cells[2:len(cells)-1], "|"))
		if where == "" && strings.HasPrefix(asked, "*") {
			continue
		}
		out = append(out, requirement{document, asked, where, n})
	}
	return out
}

var (
	originTest = regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9_]+)`")
	originADR  = regexp.MustCompile(`\[ADR ([0-9]+)\]\(adr/0*([0-9]+)-[^)]*\)`)
	originFlag = regexp.MustCompile("`(?:assay |hammer |verify |report )?[^`]*--[^`]*`")
	flagName   = regexp.MustCompile(`--([a-z][a-z-]*)`)
)

// check says what a row names that is not there; root is where the repository
// is. Nothing: all of it is. Links are looked at with those of all pages, in
// docs/site.
func (r requirement) check(root string, flags func(string) bool) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	answered := strings.Contains(r.where, "planned")
	for _, m := range originTest.FindAllStringSubmatch(r.where, -1) {
		answered = true
		dir := m[1]
		if dir == "assay" {
			dir = "."
		}
		if !hasTest(filepath.Join(root, filepath.FromSlash(dir)), m[2]) {
			bad("%s has no test %s", dir, m[2])
		}
	}
	for _, m := range originADR.FindAllStringSubmatch(r.where, -1) {
		answered = true
		if m[1] != m[2] {
			bad("ADR %s leads to the page of %s", m[1], m[2])
		}
	}
	for _, words := range originFlag.FindAllString(r.where, -1) {
		for _, m := range flagName.FindAllStringSubmatch(words, -1) {
			if !flags(m[1]) {
				bad("no command has a flag --%s", m[1])
			}
		}
	}
	if !answered {
		bad("it names no test and no decision, and is not planned")
	}
	return wrong
}

func hasTest(dir, name string) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return false
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(b), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}

// commandFlags reports whether some command declares a flag.
func commandFlags(t *testing.T) func(string) bool {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir("cmd", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		all.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(name string) bool { return strings.Contains(all.String(), `"`+name+`"`) }
}

// docs/origins.md answers each requirement of the five documents, and whatever
// it names is there.
func TestOriginsNameWhatIsThere(t *testing.T) {
	page, err := os.ReadFile("docs/origins.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := requirements(string(page))
	for _, d := range originDocuments {
		if !slices.ContainsFunc(rows, func(r requirement) bool { return r.document == d }) {
			t.Errorf("docs/origins.md has no requirement of %s", d)
		}
	}
	flags := commandFlags(t)
	for _, r := range rows {
		for _, wrong := range r.check(".", flags) {
			t.Errorf("docs/origins.md:%d: %s: %s", r.line, r.asked, wrong)
		}
	}
}

func TestOriginsFindWhatIsNot(t *testing.T) {
	rows := requirements("# Origins\n| a | b |\n| not | yet |\n## Doc\n| what it asks | where it is |\n| --- | --- |\n| *part* | |\n| a thing | there |\n")
	if len(rows) != 1 || rows[0].asked != "a thing" || rows[0].where != "there" || rows[0].document != "Doc" || rows[0].line != 8 {
		t.Fatalf("%+v", rows)
	}
	flags := func(name string) bool { return name == "price" }
	for where, wrong := range map[string]string{
		"`assay.TestImportsFollowTheTable`":                 "",
		"`score.TestNothingOfThisName`":                     "has no test",
		"`nowhere.TestImportsFollowTheTable`":               "has no test",
		"planned: network":                                  "",
		"it is there":                                       "names no test",
		"[ADR 9](adr/009-price-of-a-token.md)":              "",
		"[ADR 9](adr/006-float64.md)":                       "leads to the page of 6",
		"`assay hammer --price 1/h`; planned":               "",
		"`assay hammer --no-such-flag-anywhere 1`; planned": "no command has a flag --no-such-flag-anywhere",
	} {
		got := strings.Join(requirement{where: where}.check(".", flags), "; ")
		if (got == "") != (wrong == "") || !strings.Contains(got, wrong) {
			t.Errorf("%s: %q, want %q", where, got, wrong)
		}
	}
}
