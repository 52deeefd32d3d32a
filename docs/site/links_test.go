package site

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark/ast"
)

// repository is where the whole of it lies, from here.
const repository = "../.."

// everyPage reads all Markdown of the repository, by its path within it.
func everyPage(t *testing.T) map[string]*page {
	t.Helper()
	pages := map[string]*page{}
	err := filepath.WalkDir(repository, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && file != repository) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(file) != ".md" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(repository, file)
		if err != nil {
			return err
		}
		pages[filepath.ToSlash(name)] = parse(filepath.ToSlash(name), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// broken says what a page links to that is not there; exists answers for files
// that are no pages.
func (p *page) broken(pages map[string]*page, exists func(string) bool) (wrong []string) {
	each(p.doc, func(n ast.Node) {
		var destination string
		switch x := n.(type) {
		case *ast.Link:
			destination = string(x.Destination)
		case *ast.Image:
			destination = string(x.Destination)
		default:
			return
		}
		to, ours := p.resolve(destination)
		if !ours {
			return
		}
		name := to.name
		if strings.HasSuffix(destination, "/") {
			name = path.Dir(name) // a directory needs no page of its own
		}
		target := pages[to.name]
		switch {
		case target == nil && !exists(name):
			wrong = append(wrong, destination+" is not there")
		case to.anchor != "" && target != nil && !slices.ContainsFunc(target.headings, func(h heading) bool { return h.id == to.anchor }):
			wrong = append(wrong, destination+": the page has no such heading")
		}
	})
	return wrong
}

// Every link between our own pages leads to a file, and to a heading that is there.
func TestLinksLeadSomewhere(t *testing.T) {
	pages := everyPage(t)
	if len(pages) < 100 {
		t.Errorf("%d pages were found", len(pages))
	}
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(repository, filepath.FromSlash(name)))
		return err == nil
	}
	for name, p := range pages {
		for _, wrong := range p.broken(pages, exists) {
			t.Errorf("%s: %s", name, wrong)
		}
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	pages := map[string]*page{"docs/other.md": parse("docs/other.md", []byte("# Other\n\n## A `part`, of it\n\n## Twice\n\n## Twice\n"))}
	exists := func(name string) bool { return name == "docs/picture.png" || name == "docs/adr" }
	for link, fine := range map[string]bool{
		"[a](other.md)":                     true,
		"[a](other.md#a-part-of-it)":        true,
		"[a](other.md#twice-1)":             true,
		"[a](other.md#twice-2)":             false,
		"[a](other.md#nothing)":             false,
		"[a](nothing.md)":                   false,
		"[a](../nothing.md)":                false,
		"![a](picture.png)":                 true,
		"![a](pictures.png)":                false,
		"[a](adr/)":                         true,
		"[a](nowhere/)":                     false,
		"[a](https://example.org/x#y)":      true,
		"[a][b]\n\n[b]: nothing.md":         false,
		"```\n[a](nothing.md)\n```\n":       true,
		"`[a](nothing.md)`":                 true,
		"[a](#here)\n\n# Here":              true,
		"[a](#there)\n\n# Here":             false,
		"| [a](nothing.md) |\n| --- |\n":    false,
		"- one\n  - [a](other.md#anything)": false,
	} {
		p := parse("docs/page.md", []byte(link))
		pages["docs/page.md"] = p
		if wrong := p.broken(pages, exists); (len(wrong) == 0) != fine {
			t.Errorf("%q: %q", link, wrong)
		}
	}
}
