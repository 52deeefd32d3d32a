package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/assay-bench/assay/cmd/internal/cli"
)

const referenceDir = "../../docs/reference"

// docs/reference is what the commands say of themselves.
func TestReferenceIsCurrent(t *testing.T) {
	dir := t.TempDir()
	if code := cli.Run(t.Context(), root(), []string{"docs", "--format", "reference", "--output", dir}); code != cli.ExitOK {
		t.Fatalf("exit %d", code)
	}
	want, got := pagesOf(t, dir), pagesOf(t, referenceDir)
	for name, text := range want {
		if !bytes.Equal(got[name], text) {
			t.Errorf("%s/%s is not what the program says: go generate ./cmd/assay", referenceDir, name)
		}
	}
	for name := range got {
		if want[name] == nil {
			t.Errorf("%s/%s is of nothing any more: remove it", referenceDir, name)
		}
	}
}

func pagesOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	pages := map[string][]byte{}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if pages[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return pages
}

// Each flag that help shows is on the page of its command.
func TestEveryFlagIsInTheReference(t *testing.T) {
	pages, flags := pagesOf(t, referenceDir), 0
	var look func(cmd *cobra.Command, page []byte)
	look = func(cmd *cobra.Command, page []byte) {
		if cmd.Parent() == cmd.Root() {
			page = pages[cmd.Name()+".md"]
		}
		_, section, found := bytes.Cut(append([]byte("\n"), page...), []byte("# `"+cmd.CommandPath()+"`\n"))
		if !found && cmd.HasParent() {
			t.Errorf("%s is not in the reference", cmd.CommandPath())
		}
		if !cmd.HasParent() {
			section = pages["README.md"]
		}
		section, _, _ = bytes.Cut(section, []byte("\n## `"))
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" || cmd.HasParent() && cmd.InheritedFlags().Lookup(f.Name) != nil {
				return
			}
			flags++
			if !strings.Contains(string(section), "--"+f.Name) {
				t.Errorf("the reference of %s lacks --%s", cmd.CommandPath(), f.Name)
			}
		})
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				look(c, page)
			}
		}
	}
	look(root(), nil)
	if flags < 300 {
		t.Errorf("%d flags were looked for", flags)
	}
}
