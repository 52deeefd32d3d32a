// Package docs is the command docs: the documentation within the program, as a site,
// as text, as manual pages, and the reference that is made from the commands.
package docs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/docs"
	"github.com/assay-bench/assay/docs/site"
	"github.com/assay-bench/assay/internal/disk"
)

// The formats of --output.
var formats = map[string]func(root *cobra.Command) (map[string][]byte, error){
	"html":      func(*cobra.Command) (map[string][]byte, error) { return site.Build(docs.Pages) },
	"man":       func(root *cobra.Command) (map[string][]byte, error) { return manual(root), nil },
	"reference": func(root *cobra.Command) (map[string][]byte, error) { return reference(root, docs.Pages) },
}

// New is the command docs.
func New() *cobra.Command {
	var output, format string
	listen := cli.Listener{}
	names := slices.Sorted(maps.Keys(formats))
	cmd := &cobra.Command{
		Use:   "docs [PAGE]",
		Short: "Read the documentation, without a network",
		Long: `Docs serves the documentation as a site on loopback until it is interrupted. With
PAGE it prints that page as text; with --output it writes files instead:

  html                 the site, to be opened from the disk or served by anything
  man                  a manual page for each command
  reference            the pages of docs/reference, made from the commands`,
		Example: `  assay docs
  assay docs hammer
  assay docs --output /usr/local/share/man/man1 --format man`,
		Args: cli.Takes(0, 1, "at most one page"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return pageNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			build, known := formats[format]
			switch {
			case !known:
				return fmt.Errorf("unknown format %q; known are %s", format, strings.Join(names, ", "))
			case cmd.Flags().Changed("format") && output == "":
				return errors.New("--format is for files: give --output DIR")
			case len(args) > 0 && output != "":
				return errors.New("--output writes all pages: leave out the page")
			case len(args) > 0:
				return show(cmd, args[0])
			case output != "":
				files, err := build(cmd.Root())
				if err != nil {
					return err
				}
				return save(output, files)
			}
			return serve(cmd, listen)
		},
	}
	cmd.Flags().StringVar(&listen.Address, "listen", ":0", "serve at `HOST:PORT`, on loopback; port 0: one that is free")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write files into this `directory` instead")
	cmd.Flags().StringVarP(&format, "format", "f", "html", "of those files: "+strings.Join(names, ", "))
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.MarkFlagDirname("output")
	return cmd
}

// serve answers until the command is interrupted.
func serve(cmd *cobra.Command, listen cli.Listener) error {
	files, err := site.Build(docs.Pages)
	if err != nil {
		return err
	}
	listening, err := listen.Open(cmd.Context())
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s has the documentation until Ctrl-C\n", listening.URL)
	return listening.Serve(cmd.Context(), answers(files))
}

// answers serves these files and nothing else.
func answers(files map[string][]byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" || strings.HasSuffix(name, "/") {
			name += "index.html"
		}
		body, ok := files[name]
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "it is only read", http.StatusMethodNotAllowed)
			return
		case !ok:
			http.Error(w, "there is no such page", http.StatusNotFound)
			return
		}
		h := w.Header()
		h.Set("Content-Type", contentTypes[path.Ext(name)])
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		_, _ = w.Write(body) // who has gone needs no answer
	})
}

// contentTypes are those of what a site has; the system's own table may say
// something else.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".png": "image/png", ".json": "application/json", ".yaml": "text/plain; charset=utf-8",
}

// save writes files below a directory.
func save(dir string, files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := cli.SaveFile(to, disk.Bytes(files[name])); err != nil {
			return err
		}
	}
	return nil
}

// show prints a page as it was written.
func show(cmd *cobra.Command, name string) error {
	file := strings.TrimSuffix(name, ".md") + ".md"
	b, err := fs.ReadFile(docs.Pages, file)
	if err != nil {
		return fmt.Errorf("there is no page %q: %s", name, like(name))
	}
	_, err = cmd.OutOrStdout().Write(b)
	return err
}

// pageNames are the names that show takes.
func pageNames() (names []string) {
	// What is embedded can be walked.
	_ = fs.WalkDir(docs.Pages, ".", func(file string, _ fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(file, ".md"); ok {
			names = append(names, name)
		}
		return err
	})
	return names
}

// like says which pages may have been meant.
func like(word string) string {
	word = strings.ToLower(strings.TrimSuffix(word, ".md"))
	found := slices.DeleteFunc(pageNames(), func(name string) bool {
		last := path.Base(name)
		return word == "" || !strings.Contains(last, word) && !strings.Contains(word, last)
	})
	if len(found) == 0 {
		return "assay docs README lists them"
	}
	const most = 5
	return "did you mean " + strings.Join(found[:min(most, len(found))], " or ") + "?"
}
