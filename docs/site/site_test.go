package site

import (
	"encoding/json"
	"html"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/assay-bench/assay/docs"
	"github.com/assay-bench/assay/internal/parttest"
)

func build(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := Build(docs.Pages)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var (
	attribute = regexp.MustCompile(`\b(href|src|data-root)="([^"]*)"`)
	anchorID  = regexp.MustCompile(`\bid="([^"]*)"`)
)

// Each page of the site leads to files and anchors that the site has, and loads
// nothing from elsewhere.
func TestSiteIsWhole(t *testing.T) {
	files := build(t)
	ids := map[string]map[string]bool{}
	for name, body := range files {
		ids[name] = map[string]bool{}
		for _, m := range anchorID.FindAllSubmatch(body, -1) {
			ids[name][string(m[1])] = true
		}
	}
	pages := 0
	for name, body := range files {
		if path.Ext(name) != ".html" {
			continue
		}
		pages++
		if strings.Count(string(body), "<script") != 1 || strings.Contains(string(body), " style=") {
			t.Errorf("%s has a script or a style of its own", name)
		}
		for _, m := range attribute.FindAllSubmatch(body, -1) {
			kind, to := string(m[1]), html.UnescapeString(string(m[2]))
			if strings.HasPrefix(to, "https://") || strings.HasPrefix(to, "http://") || to == "data:," {
				if kind == "src" {
					t.Errorf("%s loads %s", name, to)
				}
				continue
			}
			file, anchor, _ := strings.Cut(to, "#")
			target := path.Join(path.Dir(name), file)
			if kind == "data-root" {
				target = path.Join(target, "index.html")
			} else if file == "" {
				target = name
			}
			switch {
			case files[target] == nil:
				t.Errorf("%s leads to %s, which the site does not have", name, to)
			case anchor != "" && !ids[target][anchor]:
				t.Errorf("%s leads to %s, which has no such anchor", name, to)
			}
		}
	}
	if pages < 100 {
		t.Errorf("%d pages were made", pages)
	}
}

// A page that the start page does not lead to, itself or by its directory, is found
// by nobody.
func TestEveryPageIsInTheNavigation(t *testing.T) {
	index := string(build(t)["index.html"])
	names, err := docs.Pages.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		name := n.Name()
		switch {
		case n.IsDir() && name != "api" && name != "tutorials":
			name += "/index.html"
		case path.Ext(name) == ".md":
			name = target(name)
		default:
			continue
		}
		if !strings.Contains(index, `href="`+name+`"`) {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
	}
	tutorials, err := docs.Pages.ReadDir("tutorials")
	if err != nil || len(tutorials) == 0 {
		t.Fatal(err)
	}
	for _, n := range tutorials {
		if !strings.Contains(index, `href="`+path.Join("tutorials", target(n.Name()))+`"`) {
			t.Errorf("docs/README.md does not lead to the tutorial %s", n.Name())
		}
	}
}

// What a page contains besides text steers no browser.
func TestPagesAreText(t *testing.T) {
	files, err := Build(fstest.MapFS{"README.md": {Data: []byte("# <b>Title</b> & more\n\n<script>alert(1)</script>\n\n[run](javascript:alert(1)) [out](../secret.md) <img src=x onerror=alert(1)>\n\n## Group\n\n- [a](a.md)\n")},
		"a.md": {Data: []byte("# \"A\" <script>\n\ntext")}})
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range files {
		if strings.HasSuffix(name, ".html") && (strings.Contains(string(body), "alert(1)</script>") || strings.Contains(string(body), "onerror") || strings.Contains(string(body), "javascript:") || strings.Contains(string(body), "secret.md") || strings.Count(string(body), "<script") != 1) {
			t.Errorf("%s:\n%s", name, body)
		}
	}
	if _, err := Build(fstest.MapFS{"a.md": {Data: []byte("# A")}}); err == nil {
		t.Error("a site without a start is made")
	}
}

func TestAnchorsAreGitHubs(t *testing.T) {
	for heading, want := range map[string]string{
		"`assay compare`: which, and – is it?": "assay-compare-which-and--is-it",
		"A  b_c-D 9":                           "a--b_c-d-9",
		"Größe":                                "größe",
	} {
		if got := anchor(strings.ReplaceAll(heading, "`", "")); got != want {
			t.Errorf("%q: %q, want %q", heading, got, want)
		}
	}
}

// The index has each section with its words.
func TestSearchIndex(t *testing.T) {
	text, ok := strings.CutPrefix(string(build(t)["search-index.js"]), "const assayPages = ")
	if !ok {
		t.Fatal("the index is no script")
	}
	var sections []section
	if err := json.Unmarshal([]byte(strings.TrimSuffix(text, ";\n")), &sections); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, s := range sections {
		found = found || s.Href == "hammer.html#objectives" && s.Heading == "Objectives" && strings.Contains(s.Text, "--slo")
	}
	if !found || len(sections) < 500 {
		t.Errorf("%d sections, the objectives of hammer among them: %v", len(sections), found)
	}
}

// The search answers in a real browser, from the disk, without a server.
func TestSearchInABrowser(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		parttest.Need(t, "chromium is not installed: .ci/parts/native installs it")
	}
	dir := t.TempDir()
	for name, body := range build(t) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--user-data-dir="+t.TempDir(), "--virtual-time-budget=5000", "--dump-dom", "file://"+dir+"/formats/run.html?q=knee+cliff").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(out), `<ol id="found"`)
	list, _, _ = strings.Cut(list, "</ol>")
	if !strings.Contains(list, `href="../glossary.html`) || strings.Contains(list, `href="../webhooks.html`) {
		t.Errorf("knee and cliff are found in %s", list)
	}
}
