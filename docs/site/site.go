// Package site makes the documentation into a site that needs no network: pages of
// HTML with navigation, a search that runs in the reader's browser, and nothing that
// asks anybody for anything. All of it is made at once and held by name, so whoever
// serves it looks a name up and can open no other file.
//
// Links between pages lead to pages of the site, by GitHub's anchors, since the same
// files are read there. What lies outside of the documentation is named and not
// linked.
package site

import (
	"bytes"
	"cmp"
	_ "embed" // the pages' own script and style
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"slices"
	"strings"
)

var (
	//go:embed asset/page.html.tmpl
	pageTemplate string
	//go:embed asset/site.css
	style []byte
	//go:embed asset/site.js
	script []byte
)

// home is the page on which a reader starts. Its headings and the links below them
// are the navigation of all others.
const home = "README.md"

// Build makes the files of a site, by their names: each page of Markdown as HTML, a
// list for each directory of pages without a README.md, and everything else as it is.
func Build(files fs.FS) (map[string][]byte, error) {
	out := map[string][]byte{"site.css": style, "site.js": script}
	pages := map[string]*page{}
	var names []string
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if path.Ext(name) != ".md" {
			out[name] = text
			return nil
		}
		names = append(names, name)
		pages[name] = parse(name, text)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the pages: %w", err)
	}
	start := pages[home]
	if start == nil {
		return nil, errors.New("there is no " + home + " to start from")
	}
	for _, list := range lists(names, pages) {
		names, pages[list.name] = append(names, list.name), list
	}
	t, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return nil, fmt.Errorf("parse the page's template: %w", err)
	}
	has := func(name string) bool { return pages[name] != nil || out[name] != nil }
	groups := start.groups(has)
	var found []section
	for _, name := range names {
		p := pages[name]
		body, err := p.html(has)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", name, err)
		}
		var b bytes.Buffer
		if err := t.Execute(&b, p.view(body, groups, pages)); err != nil {
			return nil, fmt.Errorf("render %s: %w", name, err)
		}
		out[target(name)] = b.Bytes()
		found = append(found, p.sections()...)
	}
	index, err := json.Marshal(found)
	if err != nil {
		return nil, err
	}
	// A script and not a document, so that it can be read from the disk as well.
	out["search-index.js"] = slices.Concat([]byte("const assayPages = "), index, []byte(";\n"))
	return out, nil
}

// lists makes a page for each directory of pages that has none of its own.
func lists(names []string, pages map[string]*page) (out []*page) {
	below := map[string][]string{}
	for _, name := range names {
		if dir := path.Dir(name); dir != "." {
			below[dir] = append(below[dir], name)
		}
	}
	for dir, members := range below {
		if pages[path.Join(dir, home)] != nil {
			continue
		}
		var b strings.Builder
		fmt.Fprintf(&b, "# %s\n\n", cmp.Or(listTitles[dir], dir))
		for _, name := range members {
			fmt.Fprintf(&b, "- [%s](%s)\n", strings.NewReplacer("[", `\[`, "]", `\]`, "<", `\<`).Replace(pages[name].title), path.Base(name))
		}
		out = append(out, parse(path.Join(dir, home), []byte(b.String())))
	}
	slices.SortFunc(out, func(a, b *page) int { return strings.Compare(a.name, b.name) })
	return out
}

// listTitles are the titles of directories without a page of their own.
var listTitles = map[string]string{"adr": "Decisions", "formats": "Formats", "tutorials": "Tutorials"}

// target is the file that a page becomes.
func target(name string) string {
	if path.Base(name) == home {
		return path.Join(path.Dir(name), "index.html")
	}
	return strings.TrimSuffix(name, ".md") + ".html"
}

// view is what the template shows of a page.
type view struct {
	Title, Root string
	Body        template.HTML
	Groups      []viewGroup
	Contents    []viewLink
}

type viewGroup struct {
	Title string
	Links []viewLink
}

type viewLink struct {
	Href, Text string
	Here       bool
	Below      []viewLink // of the directory that the page is in
}

func (p *page) view(body []byte, groups []group, pages map[string]*page) view {
	root := strings.Repeat("../", strings.Count(p.name, "/"))
	v := view{Title: p.title, Root: root, Body: template.HTML(body)} // made of our own pages, by a renderer that lets no HTML through
	for _, g := range groups {
		vg := viewGroup{Title: g.title}
		for _, name := range g.names {
			l := viewLink{Href: root + target(name), Text: pages[name].title, Here: name == p.name}
			if dir := path.Dir(name); dir != "." && path.Base(name) == home && dir == path.Dir(p.name) {
				for _, other := range sortedPages(pages, dir) {
					l.Below = append(l.Below, viewLink{Href: root + target(other.name), Text: other.title, Here: other == p})
				}
			}
			vg.Links = append(vg.Links, l)
		}
		v.Groups = append(v.Groups, vg)
	}
	for _, h := range p.headings {
		if h.level == 2 {
			v.Contents = append(v.Contents, viewLink{Href: "#" + h.id, Text: h.text})
		}
	}
	return v
}

// sortedPages are the pages of a directory but its README.md.
func sortedPages(pages map[string]*page, dir string) (out []*page) {
	for name, p := range pages {
		if path.Dir(name) == dir && path.Base(name) != home {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *page) int { return strings.Compare(a.name, b.name) })
	return out
}
