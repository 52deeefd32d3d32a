package docs

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	pages "github.com/assay-bench/assay/docs"
	"github.com/assay-bench/assay/docs/site"
)

// typed runs the command as a person types it.
func typed(t *testing.T, words ...string) (stdout, stderr string, code int) {
	t.Helper()
	root := cli.Root("assay", nil, New())
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	code = cli.Run(t.Context(), root, append([]string{"docs"}, words...))
	return out.String(), errs.String(), code
}

func TestPagesArePrinted(t *testing.T) {
	for _, name := range []string{"hammer", "hammer.md", "formats/run"} {
		if out, errs, code := typed(t, name); code != cli.ExitOK || !strings.HasPrefix(out, "# ") {
			t.Errorf("%s: exit %d, %.40q %s", name, code, out, errs)
		}
	}
	for name, want := range map[string]string{
		"run": "formats/run", "hamm": "did you mean hammer", "zzyzx": "assay docs README", "../README": "no page", "/etc/passwd": "no page",
	} {
		if out, errs, code := typed(t, name); code != cli.ExitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %.40q %s", name, code, out, errs)
		}
	}
}

func TestFilesAreWritten(t *testing.T) {
	for format, want := range map[string][]string{
		"html": {"index.html", "formats/run.html", "site.css", "search-index.js", "health-report.png"}, "man": {"assay.1", "assay-docs.1"}, "reference": {"README.md", "docs.md", "api.md"},
	} {
		dir := filepath.Join(t.TempDir(), "new")
		if _, errs, code := typed(t, "--output", dir, "--format", format); code != cli.ExitOK {
			t.Errorf("%s: exit %d, %s", format, code, errs)
		}
		for _, name := range want {
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
				t.Errorf("%s: %s: %v", format, name, err)
			}
		}
	}
	for _, wrong := range [][]string{{"--format", "pdf", "--output", "x"}, {"--format", "man"}, {"hammer", "--output", "x"}, {"one", "two"}} {
		if _, errs, code := typed(t, wrong...); code != cli.ExitUsage || errs == "" {
			t.Errorf("%q: exit %d, %q", wrong, code, errs)
		}
	}
}

// The server has its pages and nothing else.
func TestServerAnswersPagesOnly(t *testing.T) {
	files, err := site.Build(pages.Pages)
	if err != nil {
		t.Fatal(err)
	}
	h := answers(files)
	for _, c := range []struct {
		method, path, kind string
		status             int
	}{
		{"GET", "/", "text/html", 200},
		{"HEAD", "/hammer.html", "text/html", 200},
		{"GET", "/adr/", "text/html", 200},
		{"GET", "/site.css", "text/css", 200},
		{"GET", "/formats/schema/run.schema.json", "application/json", 200},
		{"GET", "/hammer.md", "", 404},
		{"GET", "/nothing", "", 404},
		{"GET", "/../docs.go", "", 404},
		{"GET", "/%2e%2e/%2e%2e/etc/passwd", "", 404},
		{"GET", "//etc/passwd", "", 404},
		{"POST", "/", "", 405},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(c.method, "http://127.0.0.1"+c.path, nil))
		if w.Code != c.status || !strings.HasPrefix(w.Header().Get("Content-Type"), c.kind) {
			t.Errorf("%s %s: %d, %s", c.method, c.path, w.Code, w.Header().Get("Content-Type"))
		}
		if w.Code == http.StatusOK && !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s may load anything", c.path)
		}
	}
	for name := range files {
		if contentTypes[filepath.Ext(name)] == "" {
			t.Errorf("%s has no type", name)
		}
	}
}

// It listens on loopback only.
func TestServesOnLoopback(t *testing.T) {
	if _, errs, code := typed(t, "--listen", "0.0.0.0:0"); code != cli.ExitUsage || !strings.Contains(errs, "can be reached by others") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// tree is a command with all that makes a page difficult.
func tree() *cobra.Command {
	root := cli.Root("assay", nil, New())
	hard := &cobra.Command{
		Use: "hard FILE", Short: "Do | what\\is <hard> & 'so'", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return nil },
		Long:    "Hard… has *stars*, _lines_ and `ticks`.\n.SH is no request, nor is\n'this.\n\nModes:\n  one    | with a bar\n  .two   \\fBnot bold\\fR\n\nThe end.",
		Example: "  assay hard \"x\"",
	}
	hard.Flags().StringP("format", "f", "a|b", "one of `a|b`, or <none>")
	hard.Flags().Bool("secret", false, "not for people")
	_ = hard.Flags().MarkHidden("secret")
	root.AddCommand(hard)
	return root
}

func TestReferenceSaysWhatHelpSays(t *testing.T) {
	files, err := reference(tree(), pages.Pages)
	if err != nil {
		t.Fatal(err)
	}
	got := string(files["hard.md"])
	for _, want := range []string{
		"# `assay hard`\n", `Hard… has \*stars\*, \_lines\_ and ` + "\\`ticks\\`. .SH is no request, nor is 'this.", "Modes:\n\n```text\n  one    | with a bar\n  .two   \\fBnot bold\\fR\n```\n", "\nThe end.\n",
		"| `-f, --format a\\|b` | `a\\|b` | one of a\\|b, or \\<none> |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "secret") || strings.Contains(got, "--help") {
		t.Errorf("a hidden flag is shown:\n%s", got)
	}
	if api := string(files["api.md"]); !strings.Contains(api, "| `GET /api/v1/nodes` | Nodes |") || strings.Count(api, "\n| `") < 50 {
		t.Errorf("the API has too little:\n%s", api)
	}
	if index := string(files["README.md"]); !strings.Contains(index, "2 could not measure") || !strings.Contains(index, "--log-level") {
		t.Errorf("the index lacks exit codes or flags:\n%s", index)
	}
}

// A manual page is one to those who print them.
func TestManualPagesAreRoff(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed")
	}
	for name, page := range manual(tree()) {
		cmd := exec.Command(groff, "-man", "-ww", "-Tutf8", "-rLL=100n", "-P-cbou")
		cmd.Stdin = bytes.NewReader(page)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil || errs.Len() > 0 {
			t.Errorf("%s: %v, %s", name, err, errs.String())
		}
		if name != "assay-hard.1" {
			continue
		}
		for _, want := range []string{"Do | what\\is <hard> & 'so'", "Hard… has", ".SH is no request", ".two   \\fBnot bold\\fR", "-f, --format a|b", "assay hard \"x\"", "EXIT STATUS"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s lacks %q:\n%s", name, want, out)
			}
		}
	}
}
