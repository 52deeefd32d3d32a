package site

import (
	"bytes"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// markdown is GitHub's Markdown, as far as our pages use it. HTML in a page is left
// out, and cells are aligned by an attribute: styles are the style sheet's.
var markdown = goldmark.New(goldmark.WithExtensions(
	extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), extension.Linkify, extension.Strikethrough,
))

// page is one file of Markdown.
type page struct {
	name     string // with slashes, from the directory of the documentation
	title    string
	source   []byte
	doc      ast.Node
	headings []heading
}

type heading struct {
	node  *ast.Heading
	level int
	text  string
	id    string
}

// parse reads a page and gives its headings the anchors that GitHub gives them.
func parse(name string, source []byte) *page {
	p := &page{name: name, source: source, doc: markdown.Parser().Parse(text.NewReader(source)), title: name}
	taken := map[string]int{}
	each(p.doc, func(n ast.Node) {
		h, ok := n.(*ast.Heading)
		if !ok {
			return
		}
		words := p.words(h)
		id := anchor(words)
		if taken[id]++; taken[id] > 1 {
			id = fmt.Sprintf("%s-%d", id, taken[id]-1)
		}
		h.SetAttributeString("id", []byte(id))
		p.headings = append(p.headings, heading{h, h.Level, words, id})
	})
	if len(p.headings) > 0 {
		p.title = p.headings[0].text
	}
	return p
}

// anchor is what GitHub makes of a heading: letters, digits, hyphens and underscores
// stay, spaces become hyphens, all in lower case.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// each visits a node and those below it. Visiting may replace the node's children.
func each(n ast.Node, visit func(ast.Node)) {
	visit(n)
	for c := n.FirstChild(); c != nil; {
		next := c.NextSibling()
		each(c, visit)
		c = next
	}
}

// words is the text below a node, without its marks.
func (p *page) words(n ast.Node) string {
	var b strings.Builder
	each(n, func(n ast.Node) {
		switch x := n.(type) {
		case *ast.Text:
			b.Write(x.Segment.Value(p.source))
			if x.SoftLineBreak() || x.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(x.Value)
		case *ast.AutoLink:
			b.Write(x.Label(p.source))
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				b.Write(line.Value(p.source))
			}
		}
		if n.Type() == ast.TypeBlock {
			b.WriteByte(' ') // so that words of two cells or paragraphs stay two
		}
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// link is where a page leads to within the documentation.
type link struct {
	name   string // of a file, from the directory of the documentation; ".." begins what is outside
	anchor string // without "#"; empty: none
}

// resolve says where a destination leads to; false: out of the repository.
func (p *page) resolve(destination string) (link, bool) {
	u, err := url.Parse(destination)
	if err != nil || u.Scheme != "" || u.Host != "" {
		return link{}, false
	}
	l := link{name: p.name, anchor: u.Fragment}
	if u.Path != "" {
		l.name = path.Join(path.Dir(p.name), u.Path)
		if strings.HasSuffix(u.Path, "/") {
			l.name = path.Join(l.name, home)
		}
	}
	return l, true
}

// html renders the page, its links turned to pages of the site.
func (p *page) html(has func(string) bool) ([]byte, error) {
	each(p.doc, func(n ast.Node) {
		l, ok := n.(*ast.Link)
		if !ok {
			return
		}
		to, ours := p.resolve(string(l.Destination))
		switch {
		case !ours:
		case !has(to.name):
			unlink(l)
		default:
			l.Destination = []byte(p.relative(to))
		}
	})
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, p.source, p.doc); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// relative is the way from this page to a file of the site.
func (p *page) relative(to link) string {
	name := to.name
	if path.Ext(name) == ".md" {
		name = target(name)
	}
	href := strings.Repeat("../", strings.Count(p.name, "/")) + name
	if to.anchor != "" {
		href += "#" + to.anchor
	}
	return href
}

// unlink leaves a link's words in its place.
func unlink(l *ast.Link) {
	parent := l.Parent()
	for c := l.FirstChild(); c != nil; {
		next := c.NextSibling()
		parent.InsertBefore(parent, l, c)
		c = next
	}
	parent.RemoveChild(parent, l)
}

// group is a heading of the start page with the pages that are linked below it.
type group struct {
	title string
	names []string
}

// groups are the navigation.
func (p *page) groups(has func(string) bool) (out []group) {
	each(p.doc, func(n ast.Node) {
		switch x := n.(type) {
		case *ast.Heading:
			if x.Level == 2 {
				out = append(out, group{title: p.words(x)})
			}
		case *ast.Link:
			to, ours := p.resolve(string(x.Destination))
			if !ours || len(out) == 0 || path.Ext(to.name) != ".md" || !has(to.name) {
				return
			}
			// Each page stands where it is named first.
			if !slices.ContainsFunc(out, func(g group) bool { return slices.Contains(g.names, to.name) }) {
				last := &out[len(out)-1]
				last.names = append(last.names, to.name)
			}
		}
	})
	return slices.DeleteFunc(out, func(g group) bool { return len(g.names) == 0 })
}

// section is a part of a page that a search finds.
type section struct {
	Href    string `json:"href"`
	Title   string `json:"title"`
	Heading string `json:"heading,omitempty"`
	Text    string `json:"text"`
}

// sections parts a page at its headings.
func (p *page) sections() []section {
	out := []section{{Href: target(p.name), Title: p.title}}
	for n := p.doc.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			i := slices.IndexFunc(p.headings, func(x heading) bool { return x.node == h })
			if at := p.headings[i]; i > 0 {
				out = append(out, section{Href: target(p.name) + "#" + at.id, Title: p.title, Heading: at.text})
			}
			continue
		}
		last := &out[len(out)-1]
		last.Text = strings.TrimSpace(last.Text + " " + p.words(n))
	}
	return out
}
