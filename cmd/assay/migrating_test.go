package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var flagWord = regexp.MustCompile(`--[a-z][a-z-]*`)

// Each flag of ours that the page on migrating names is one: in the second column of
// its tables hammer's, and in a command line of ours the command's.
func TestMigratingNamesOurFlags(t *testing.T) {
	text, err := os.ReadFile("../../docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	all := root()
	hammer, _, err := all.Find([]string{"hammer"})
	if err != nil {
		t.Fatal(err)
	}
	named, ours := 0, false
	check := func(cmd *cobra.Command, words string) {
		for _, flag := range flagWord.FindAllString(words, -1) {
			named++
			if cmd.Flags().Lookup(strings.TrimPrefix(flag, "--")) == nil {
				t.Errorf("%s has no flag %s", cmd.CommandPath(), flag)
			}
		}
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		switch {
		case len(cells) < 4:
			ours = false
		case strings.TrimSpace(cells[2]) == "`assay hammer`":
			ours = true
		case ours:
			check(hammer, cells[2])
		}
		for code := range strings.SplitSeq(line, "`") {
			if words := strings.Fields(code); len(words) > 1 && words[0] == "assay" && strings.Contains(code, "--") {
				cmd, _, err := all.Find(words[1:])
				if err != nil {
					t.Errorf("%s: %v", code, err)
					continue
				}
				check(cmd, code)
			}
		}
	}
	if named < 40 {
		t.Errorf("%d flags were found", named)
	}
}
