package main

import (
	"go/parser"
	"go/token"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/assay-bench/assay/cmd/internal/cli/clitest"
)

// The test's own program is assay too, the first in the path.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"assay": main,
	})
}

// The scripts are what a person would type, right and wrong.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script"})
}

func TestCommandTree(t *testing.T) { clitest.Tree(t, root) }

// The commands in the manual, the doc comment of this package, do what it says.
func TestManual(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "main.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(f.Doc.Text(), "\n")
	ran := 0
	for i, line := range lines {
		typed, ok := strings.CutPrefix(strings.TrimSpace(line), "$ assay ")
		if !ok {
			continue
		}
		ran++
		var want []string
		for _, l := range lines[i+1:] {
			if strings.TrimSpace(l) == "" {
				break
			}
			want = append(want, strings.TrimSpace(l))
		}
		out, err := exec.Command("assay", strings.Fields(typed)...).Output()
		if err != nil {
			t.Errorf("assay %s: %v", typed, err)
		}
		if got := mask(strings.TrimSpace(string(out))); got != mask(strings.Join(want, "\n")) {
			t.Errorf("assay %s printed\n%s\nthe manual says\n%s", typed, got, strings.Join(want, "\n"))
		}
	}
	if ran == 0 {
		t.Error("the manual has no command to run")
	}
}

var goVersion = regexp.MustCompile(`go1[0-9.]+`)

func mask(s string) string { return goVersion.ReplaceAllString(s, "go1") }
