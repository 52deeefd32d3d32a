package assay_test

import (
	"go/ast"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

// everyday are heads of columns that say what they mean.
var everyday = words(`
	about advice because better command cost device driver figure found kind max mean measured median memory metric min
	model multiprocessors next note of points power remark requests series setting tokens unit value warning what why
	"a million output tokens" "a token" "bus, bits" "clock, mhz" course "energy, j" "how it ended" "is" "should be"
	"in sync" "latency, ms" lengths addresses objectives partitions pci replication temperature "throughput, tokens/s"
	doubts fastest "not answered" "not known" recommendation spread status
	topic uuid vbios "verdict by latency" "what it does, and needs" "what to do" "what was seen"
	"of the client itself" "mean tpot ms"`)

func words(list string) map[string]bool {
	out := map[string]bool{}
	for i, quoted := range strings.Split(list, `"`) {
		if i%2 == 1 {
			out[quoted] = true
			continue
		}
		for _, w := range strings.Fields(quoted) {
			out[w] = true
		}
	}
	return out
}

// glossary gives the words of docs/glossary.md.
func glossary(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile("docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || strings.Contains(cells[1], "---") {
			continue
		}
		for word := range strings.SplitSeq(cells[1], ", ") {
			word = strings.ToLower(strings.TrimSpace(word))
			if known[word] && word != "word" {
				t.Errorf("docs/glossary.md explains %q twice", word)
			}
			known[word] = true
		}
	}
	return known
}

// Each word that heads a column or a paragraph of a page, each verdict, each
// certificate and each class of failure is in the glossary, unless it is an
// everyday word.
func TestGlossaryHasTheReportsWords(t *testing.T) {
	known := glossary(t)
	for _, f := range assay.Failures() {
		if !known[string(f)] {
			t.Errorf("docs/glossary.md lacks the failure %q", f)
		}
	}
	for v := assay.Unknown; v <= assay.Fail; v++ {
		if !known[v.String()] {
			t.Errorf("docs/glossary.md lacks the verdict %q", v)
		}
	}
	for _, c := range []assay.Certificate{assay.Certified, assay.DegradedBy, assay.Invalid} {
		if !known[string(c)] {
			t.Errorf("docs/glossary.md lacks the certificate %q", c)
		}
	}
	heads := 0
	eachFile(t, func(_, _ string, fset *token.FileSet, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			for _, word := range headsOf(lit) {
				heads++
				word = strings.ToLower(strings.TrimRight(strings.TrimSpace(word), ":"))
				if word != "" && !known[word] && !everyday[word] {
					t.Errorf("%s: docs/glossary.md lacks %q", fset.Position(lit.Pos()), word)
				}
			}
			return true
		})
	})
	if heads < 100 {
		t.Errorf("%d heads were found: the walk misses most of them", heads)
	}
}

// headsOf gives the words of a literal that are printed as heads: names and
// groups of columns, heads of paragraphs and lists.
func headsOf(lit *ast.CompositeLit) []string {
	switch typeName(lit.Type) {
	case "Column":
		return members(lit, "Name", "Group")
	case "Paragraph", "List":
		if len(lit.Elts) > 0 {
			if s, ok := text(lit.Elts[0]); ok {
				return []string{s}
			}
		}
		return members(lit, "Head")
	case "[]Column":
		var out []string
		for _, e := range lit.Elts {
			if c, ok := e.(*ast.CompositeLit); ok && c.Type == nil {
				out = append(out, members(c, "Name", "Group")...)
			}
		}
		return out
	}
	return nil
}

func typeName(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.ArrayType:
		return "[]" + typeName(x.Elt)
	}
	return ""
}

func members(lit *ast.CompositeLit, names ...string) (out []string) {
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		for _, name := range names {
			if key, ok := kv.Key.(*ast.Ident); ok && key.Name == name {
				if s, ok := text(kv.Value); ok {
					out = append(out, s)
				}
			}
		}
	}
	return out
}

func text(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}
