package assay_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
	"testing"
)

// Every comparison with NaN is false, so a test that fails when
// math.Abs(got-want) > tol passes a value that is unknown. The question is
// whether it lies inside: !(math.Abs(got-want) <= tol).
func TestTestsRefuseNaN(t *testing.T) {
	fset := token.NewFileSet()
	tests := map[string][]*ast.File{} // by directory
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != "." || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		tests[filepath.Dir(path)] = append(tests[filepath.Dir(path)], f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("%d test files were read: the walk misses most of them", files)
	}
	for _, dir := range tests {
		for _, pos := range passesNaN(dir) {
			t.Errorf("%s: NaN passes: ask whether it lies inside, as !(math.Abs(x) <= tol)", fset.Position(pos))
		}
	}
}

// passesNaN finds the comparisons in a package's files that are true where a
// distance exceeds its tolerance, or where a number lies on either side of a
// range: x < 0.9 || x > 1.1. A distance is math.Abs of something, a variable that
// was given one in the same function, or a function that returns one.
func passesNaN(files []*ast.File) []token.Pos {
	functions := map[string]bool{}
	eachFunc(files, func(d *ast.FuncDecl) {
		if len(d.Body.List) == 1 {
			r, ok := d.Body.List[0].(*ast.ReturnStmt)
			functions[d.Name.Name] = ok && len(r.Results) == 1 && isDistance(r.Results[0], nil)
		}
	})
	var found []token.Pos
	eachFunc(files, func(d *ast.FuncDecl) {
		names := maps.Clone(functions)
		ast.Inspect(d.Body, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.AssignStmt:
				for i, v := range x.Rhs {
					if name, ok := x.Lhs[i].(*ast.Ident); ok && isDistance(v, names) {
						names[name.Name] = true
					}
				}
			case *ast.BinaryExpr:
				over := x.Op == token.GTR || x.Op == token.GEQ
				under := x.Op == token.LSS || x.Op == token.LEQ
				if over && isDistance(x.X, names) || under && isDistance(x.Y, names) || isOutside(x) {
					found = append(found, x.Pos())
				}
			}
			return true
		})
	})
	return found
}

func eachFunc(files []*ast.File, visit func(*ast.FuncDecl)) {
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				visit(fn)
			}
		}
	}
}

// isOutside reports whether b asks if a number lies on either side of a range
// with a fractional bound.
func isOutside(b *ast.BinaryExpr) bool {
	high, ok := b.Y.(*ast.BinaryExpr)
	if b.Op != token.LOR || !ok {
		return false
	}
	low, ok := b.X.(*ast.BinaryExpr)
	if ok && low.Op == token.LOR { // of a longer chain the last member
		low, ok = low.Y.(*ast.BinaryExpr)
	}
	if !ok || types.ExprString(low.X) != types.ExprString(high.X) || !isFraction(low.Y) && !isFraction(high.Y) {
		return false
	}
	below := func(op token.Token) bool { return op == token.LSS || op == token.LEQ }
	above := func(op token.Token) bool { return op == token.GTR || op == token.GEQ }
	return below(low.Op) && above(high.Op) || above(low.Op) && below(high.Op)
}

// isFraction reports whether a bound is written with a decimal point: without
// types, nothing else tells a float.
func isFraction(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.CallExpr:
			return false
		case *ast.BasicLit:
			found = found || x.Kind == token.FLOAT && strings.Contains(x.Value, ".")
		}
		return true
	})
	return found
}

func isDistance(e ast.Expr, names map[string]bool) bool {
	switch x := e.(type) {
	case *ast.Ident:
		return names[x.Name]
	case *ast.CallExpr:
		if sel, ok := x.Fun.(*ast.SelectorExpr); ok {
			pkg, ok := sel.X.(*ast.Ident)
			return ok && pkg.Name == "math" && sel.Sel.Name == "Abs"
		}
		name, ok := x.Fun.(*ast.Ident)
		return ok && names[name.Name]
	}
	return false
}

func TestPassesNaNFindsThePattern(t *testing.T) {
	for body, want := range map[string]int{
		`if math.Abs(got-want) > tol { t.Error() }`:                      1,
		`if tol < math.Abs(got-want) { t.Error() }`:                      1,
		`if ok && math.Abs(got-want) >= 1 || math.Abs(a) > 1 { fail() }`: 2,
		`d := math.Abs(got - want); if d > tol { t.Error() }`:            1,
		`if off(got, want) > 0.1 { t.Error() }`:                          1,
		`if !(math.Abs(got-want) <= tol) { t.Error() }`:                  0,
		`if math.Abs(got-want) <= tol { good++ }`:                        0,
		`if x.y < 0.9 || x.y > 1.1 { t.Error() }`:                        1,
		`if !ok || v > 2*a || v < .4*a || n == 3 { t.Error() }`:          1,
		`if n < 3 || n > 5 || m < 1.5 { t.Error() }`:                     0,
		`if n < 10e6 || n > most(0.05) { t.Error() }`:                    0,
		`if !(x >= 0.9 && x <= 1.1) { t.Error() }`:                       0,
	} {
		src := "package p\nfunc off(a, b float64) float64 { return math.Abs(a/b - 1) }\nfunc f() { " + body + " }"
		f, err := parser.ParseFile(token.NewFileSet(), "p.go", src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(passesNaN([]*ast.File{f})); got != want {
			t.Errorf("%s: found %d, want %d", body, got, want)
		}
	}
}
