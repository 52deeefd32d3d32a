package assay_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// foreignOnly are what cuts and cleans text: rules of security, which have one
// owner.
var foreignOnly = map[string][]string{
	"strings":      {"ToValidUTF8"},
	"bytes":        {"ToValidUTF8"},
	"unicode":      {"IsControl", "IsPrint", "IsGraphic", "Bidi_Control", "C", "Cc", "Cf", "Zl", "Zp", "PrintRanges", "GraphicRanges"},
	"unicode/utf8": {"RuneStart", "DecodeLastRune", "DecodeLastRuneInString"},
	"strconv":      {"IsPrint", "IsGraphic", "QuoteToASCII", "QuoteToGraphic", "AppendQuoteToASCII"},
}

// ownCutters cut by another measure than bytes, or keep more than the beginning.
var ownCutters = map[string]string{
	"internal/proc": "a writer",       // keeps both ends of an engine's log
	"report/plot":   "text is cut by", // to a width on paper, of text that report has made harmless
}

// foreignFaults finds where a file does what internal/foreign is for: calls that
// clean text, text that is cut by hand before an ellipsis, and writers that keep
// the first bytes.
func foreignFaults(fset *token.FileSet, f *ast.File) []string {
	var out []string
	fault := func(n ast.Node, what string) {
		out = append(out, fmt.Sprintf("%s: %s; internal/foreign does it", fset.Position(n.Pos()), what))
	}
	imported := map[string]string{}
	for _, i := range f.Imports {
		at, _ := strconv.Unquote(i.Path.Value)
		name := path.Base(at)
		if i.Name != nil {
			name = i.Name.Name
		}
		imported[name] = at
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.SelectorExpr:
			if pkg, ok := x.X.(*ast.Ident); ok && slices.Contains(foreignOnly[imported[pkg.Name]], x.Sel.Name) {
				fault(x, pkg.Name+"."+x.Sel.Name)
			}
		case *ast.BinaryExpr:
			if right, ok := x.Y.(*ast.BasicLit); ok && x.Op == token.ADD && strings.HasPrefix(right.Value, `"…`) && cuts(x.X) {
				fault(x, "text is cut by hand")
			}
		case *ast.FuncDecl:
			if p := written(x); p != "" && keepsFirst(x.Body, p) {
				fault(x, "a writer that keeps the first bytes")
			}
		}
		return true
	})
	return out
}

// cuts reports whether an expression is the beginning of something.
func cuts(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if s, ok := n.(*ast.SliceExpr); ok && s.Low == nil && s.High != nil {
			found = true
		}
		return !found
	})
	return found
}

// written is the name of what an io.Writer's method is given.
func written(f *ast.FuncDecl) string {
	if f.Recv == nil || f.Body == nil || f.Name.Name != "Write" || len(f.Type.Params.List) != 1 || f.Type.Results.NumFields() != 2 {
		return ""
	}
	p := f.Type.Params.List[0]
	if a, ok := p.Type.(*ast.ArrayType); !ok || a.Len != nil || len(p.Names) != 1 {
		return ""
	}
	return p.Names[0].Name
}

// keepsFirst reports whether a body takes p's beginning, as far as some min goes.
func keepsFirst(body *ast.BlockStmt, p string) bool {
	takes, bounds := false, false
	ast.Inspect(body, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.SliceExpr:
			of, ok := x.X.(*ast.Ident)
			takes = takes || ok && of.Name == p && x.Low == nil && x.High != nil
		case *ast.CallExpr:
			fn, ok := x.Fun.(*ast.Ident)
			bounds = bounds || ok && fn.Name == "min"
		}
		return true
	})
	return takes && bounds
}

// Text from outside is made harmless in one place: about twenty rules were not
// the same rule.
func TestForeignTextHasOneOwner(t *testing.T) {
	eachFile(t, func(dir, _ string, fset *token.FileSet, f *ast.File) {
		if dir == "internal/foreign" {
			return
		}
		for _, fault := range foreignFaults(fset, f) {
			if own := ownCutters[dir]; own == "" || !strings.Contains(fault, own) {
				t.Error(fault)
			}
		}
	})
}

// The rule finds what it forbids, under whatever name it is imported.
func TestForeignRuleFinds(t *testing.T) {
	const head = "package p\nimport (\"strings\"; \"bytes\"; u \"unicode\"; \"unicode/utf8\"; \"strconv\")\n"
	for _, c := range []struct {
		body string
		want int
	}{
		{`var x = strings.ToValidUTF8(s, "")`, 1},
		{`var x = bytes.ToValidUTF8`, 1},
		{`func f(r rune) bool { return u.IsPrint(r) || u.In(r, u.Bidi_Control) }`, 2},
		{`var x = utf8.RuneStart(s[0])`, 1},
		{`var x = strconv.QuoteToASCII(s)`, 1},
		{`func f(s string) string { return s[:9] + "…" }`, 1},
		{`func f(s string) string { return string([]rune(s)[:9]) + "… and more" }`, 1},
		{`func (h *head) Write(p []byte) (int, error) { h.b = append(h.b, p[:min(len(p), h.n-len(h.b))]...); return len(p), nil }`, 1},
		{`func (h *head) Write(p []byte) (int, error) { n := min(9, len(p)); h.b.Write(p[:n]); return len(p), nil }`, 1},

		{`var x = strings.Map(f, s) + strconv.Quote(s)`, 0},
		{`var x = u.IsSpace('x') && utf8.ValidString(s)`, 0},
		{`func f(s string) string { return s[9:] + "…" + x + "..." }`, 0},
		{`func (w *wire) Write(p []byte) (int, error) { return w.c.Write(p) }`, 0},
	} {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "p.go", head+c.body, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := foreignFaults(fset, f); len(got) != c.want {
			t.Errorf("%s: found %q, want %d", c.body, got, c.want)
		}
	}
}
