package site

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/assay-bench/assay/docs"
)

// literals are the strings of the program's code, without its tests.
func literals(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "tools" || strings.HasPrefix(d.Name(), ".") && path != repository):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil {
					all.WriteString(s + "\n")
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// unsaid are the parts of a message, between its ellipses, that no string has.
func unsaid(message, said string) (missing []string) {
	parts := 0
	for part := range strings.SplitSeq(message, "…") {
		if part = strings.Trim(part, " "); len(part) > 3 {
			parts++
			if !strings.Contains(said, part) {
				missing = append(missing, part)
			}
		}
	}
	if parts == 0 {
		missing = append(missing, message)
	}
	return missing
}

// What the page on troubleshooting quotes is what a command prints.
func TestTroubleshootingQuotesTheProgram(t *testing.T) {
	text, err := fs.ReadFile(docs.Pages, "troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	said := literals(t)
	quoted := 0
	for _, h := range parse("troubleshooting.md", text).headings {
		if h.level != 3 {
			continue
		}
		quoted++
		for _, part := range unsaid(h.text, said) {
			t.Errorf("no command prints %q: %s", part, h.text)
		}
	}
	if quoted < 20 {
		t.Errorf("%d messages were found", quoted)
	}
	if got := unsaid("no engine answered …, and nobody ever says this", said); len(got) != 1 {
		t.Errorf("what nobody says is found: %q", got)
	}
}
