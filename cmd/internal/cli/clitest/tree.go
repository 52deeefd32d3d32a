// Package clitest holds every program's command tree to the same rules.
package clitest

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/assay-bench/assay/cmd/internal/cli"
)

// Tree walks the commands of a program: each group refuses what it does not know,
// each help is there, and each command says how many words it takes. The root is
// made anew for each command line, for a command keeps its flags.
func Tree(t *testing.T, root func() *cobra.Command) {
	t.Helper()
	groups := 0
	walk(root(), nil, func(cmd *cobra.Command, path []string) {
		if !cmd.HasSubCommands() {
			if cmd.Args == nil {
				t.Errorf("%s does not say how many words it takes", cmd.CommandPath())
			}
			helped(t, root, path)
			return
		}
		groups++
		refused(t, root, path, "nosuch", "")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() { // hidden ones and help are not suggested
				refused(t, root, path, misspelt(c.Name(), cmd), c.Name())
			}
		}
		if len(path) > 0 {
			if code, out, errs := run(t, root, path...); code != cli.ExitUsage || out != "" || errs == "" {
				t.Errorf("%q without a command: exit %d, printed %q and %q", path, code, out, errs)
			}
		}
		helped(t, root, path)
	})
	if groups < 3 {
		t.Errorf("only %d groups of commands were found", groups)
	}
}

func walk(cmd *cobra.Command, path []string, visit func(*cobra.Command, []string)) {
	visit(cmd, path)
	for _, c := range cmd.Commands() {
		walk(c, append(slices.Clone(path), c.Name()), visit)
	}
}

// refused has a word that is not there refused, with a suggestion where one is
// meant: as a command and as a topic of help, and wherever help is asked for.
func refused(t *testing.T, root func() *cobra.Command, path []string, word, meant string) {
	t.Helper()
	for _, args := range [][]string{
		append(slices.Clone(path), word),
		append(slices.Clone(path), word, "DIR"),
		append(slices.Clone(path), word, "--help"),
		append(slices.Clone(path), word, "-h"),
		append(slices.Clone(path), "--help", word),
		append(append([]string{"--help"}, path...), word),
		append(append([]string{"help"}, path...), word),
		append(append([]string{"help"}, path...), word, "--help"),
		append(append([]string{"help", "-h"}, path...), word),
	} {
		code, out, errs := run(t, root, args...)
		if code != cli.ExitUsage {
			t.Errorf("%q: exit %d, want %d", args, code, cli.ExitUsage)
		}
		if out != "" || !strings.Contains(errs, word) || !strings.Contains(errs, meant) {
			t.Errorf("%q printed %q and %q, want the word and the suggestion %q in the latter", args, out, errs, meant)
		}
	}
}

// helped has the help of a command that is there.
func helped(t *testing.T, root func() *cobra.Command, path []string) {
	t.Helper()
	for _, args := range [][]string{append([]string{"help"}, path...), append(slices.Clone(path), "--help"), append([]string{"-h"}, path...)} {
		if code, out, errs := run(t, root, args...); code != cli.ExitOK || out == "" || errs != "" {
			t.Errorf("%q: exit %d, printed %q and %q", args, code, out, errs)
		}
	}
}

func run(t *testing.T, root func() *cobra.Command, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	r := root()
	r.SetOut(&out)
	r.SetErr(&errs)
	code = cli.Run(t.Context(), r, args)
	return code, out.String(), errs.String()
}

// misspelt leaves a letter of a command's name out, so that it is none of its
// siblings'.
func misspelt(name string, parent *cobra.Command) string {
	for i := len(name) - 2; i >= 0; i-- {
		wrong := name[:i] + name[i+1:]
		if !slices.ContainsFunc(parent.Commands(), func(c *cobra.Command) bool { return c.Name() == wrong }) {
			return wrong
		}
	}
	return name + "x"
}
