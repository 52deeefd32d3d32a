package assay_test

import (
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// docs/users.md answers each thing that stood in a new user's way, and what it names
// is there.
func TestUsersNameWhatIsThere(t *testing.T) {
	page, err := os.ReadFile("docs/users.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := requirements(string(page))
	flags := commandFlags(t)
	sections := map[string]int{}
	for _, r := range rows {
		if r.asked == "what was found" {
			continue
		}
		sections[r.document]++
		for _, wrong := range r.check(".", flags) {
			t.Errorf("docs/users.md:%d: %s: %s", r.line, r.asked, wrong)
		}
	}
	for section, n := range map[string]int{"Wrong": 15, "Missing or in the way": 17, "Looks": 10, "Words": 12} {
		if sections[section] < n {
			t.Errorf("%s has %d rows, want %d", section, sections[section], n)
		}
	}
}

// awkward are words that new users did not understand; docs/users.md has those in their
// place.
var awkward = []*regexp.Regexp{
	regexp.MustCompile(`ready and not let run`),
	regexp.MustCompile(`known as bounds only`),
	regexp.MustCompile(`found and took`),
	regexp.MustCompile(`\bheld against`),
	regexp.MustCompile(`interval holds`),
	regexp.MustCompile(`nobody told`),
	regexp.MustCompile(`given as trusted`),
	regexp.MustCompile(`^not shown$`),
	regexp.MustCompile(`^but not\b`),
	regexp.MustCompile(`\bin all$`),
	regexp.MustCompile(`parted at`),
	regexp.MustCompile(`arg\(s\)`),
}

// No text of the program has them.
func TestWordsOfUsers(t *testing.T) {
	n := 0
	eachFile(t, func(_, _ string, fset *token.FileSet, f *ast.File) {
		if ast.IsGenerated(f) {
			return
		}
		ast.Inspect(f, func(node ast.Node) bool {
			lit, ok := node.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				return true
			}
			n++
			if i := slices.IndexFunc(awkward, func(w *regexp.Regexp) bool { return w.MatchString(strings.TrimSpace(text)) }); i >= 0 {
				t.Errorf("%s: %q: users do not understand %q", fset.Position(lit.Pos()), text, awkward[i])
			}
			return true
		})
	})
	if n < 5000 {
		t.Errorf("%d texts were read: the walk misses most of them", n)
	}
}
