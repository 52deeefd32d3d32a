package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// service is what matters here of a service in deploy/compose.yaml.
type service struct {
	Build *struct {
		Target string `yaml:"target"` // empty: the program
	} `yaml:"build"`
	Command     []string `yaml:"command"`
	Healthcheck *struct {
		Test []string `yaml:"test"`
	} `yaml:"healthcheck"`
}

// ours reports whether it runs our program.
func (s service) ours() bool { return s.Build != nil && s.Build.Target == "" }

func services(t *testing.T) map[string]service {
	t.Helper()
	b, err := os.ReadFile("../../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var project struct {
		Services map[string]service `yaml:"services"`
	}
	if err := yaml.Unmarshal(b, &project); err != nil {
		t.Fatal(err)
	}
	if len(project.Services) < 6 {
		t.Fatalf("%d services were read", len(project.Services))
	}
	return project.Services
}

// parse reads a command line of ours as far as it goes without doing anything.
func parse(args []string) error {
	all := root()
	cmd, rest, err := all.Find(args)
	if err != nil {
		return err
	}
	if cmd.HasSubCommands() {
		return fmt.Errorf("%q is not a command that runs", cmd.CommandPath())
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

func TestCommandLines(t *testing.T) {
	for _, bad := range []string{"ledger witness --dri x", "ledger nothing", "ledger verify", "hammer --sign-key", "ledger"} {
		if parse(strings.Fields(bad)) == nil {
			t.Errorf("%q passes", bad)
		}
	}
	for name, s := range services(t) {
		if !s.ours() {
			continue
		}
		if err := parse(s.Command); err != nil {
			t.Errorf("%s: %q: %v", name, s.Command, err)
		}
		if s.Healthcheck != nil {
			test := s.Healthcheck.Test
			if len(test) < 3 || test[0] != "CMD" || test[1] != "/usr/local/bin/assay" {
				t.Errorf("%s: health check %q: the image has no other program", name, test)
			} else if err := parse(test[2:]); err != nil {
				t.Errorf("%s: %q: %v", name, test, err)
			}
		}
	}
}

// Every command of ours in the documents is one that the program takes.
func TestDocumentedCommands(t *testing.T) {
	for _, doc := range []string{"../../deploy/README.md", "../../docs/ledger.md"} {
		b, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, line := range blocks(string(b)) {
			args := words(t, line)
			switch {
			case len(args) > 0 && args[0] == "assay":
				args = args[1:]
			case len(args) > 2 && args[0] == "docker" && args[1] == "compose":
				args = composed(t, args)
			default:
				continue
			}
			if args == nil {
				continue
			}
			n++
			if err := parse(args); err != nil {
				t.Errorf("%s: %q: %v", doc, line, err)
			}
		}
		if n < 5 {
			t.Errorf("%s: only %d commands were found", doc, n)
		}
	}
}

// composed gives our own part of "docker compose run SERVICE …", and holds the
// service to those that there are.
func composed(t *testing.T, args []string) []string {
	t.Helper()
	all := services(t)
	i := slices.IndexFunc(args, func(a string) bool { return a == "run" || a == "exec" })
	if i < 0 {
		return nil
	}
	for i++; i < len(args) && strings.HasPrefix(args[i], "-"); i++ {
		if args[i] == "-v" || args[i] == "--volume" {
			i++
		}
	}
	if i >= len(args) {
		return nil
	}
	s, ok := all[args[i]]
	if !ok {
		t.Errorf("%q: there is no service %q; there are %q", args, args[i], slices.Sorted(maps.Keys(all)))
	}
	if !ok || !s.ours() || i+1 == len(args) {
		return nil
	}
	return args[i+1:]
}

// blocks gives the lines of the document's sh blocks, continued ones joined.
func blocks(doc string) []string {
	var out []string
	in := false
	for line := range strings.Lines(strings.ReplaceAll(doc, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			in = !in && line == "```sh"
		case in && line != "" && line[0] != '#':
			out = append(out, line)
		}
	}
	return out
}

// words parts a line as a shell does, as far as the documents need it: double
// quotes, a comment at the end.
func words(t *testing.T, line string) []string {
	t.Helper()
	var out []string
	var word strings.Builder
	quoted, some := false, false
	for _, r := range line + " " {
		switch {
		case r == '"':
			quoted, some = !quoted, true
		case r == '#' && !quoted && !some, strings.ContainsRune("|>;&", r) && !quoted:
			return out
		case r == ' ' && !quoted:
			if some {
				out = append(out, word.String())
			}
			word.Reset()
			some = false
		default:
			word.WriteRune(r)
			some = true
		}
	}
	if quoted {
		t.Errorf("a quote is open in %q", line)
	}
	return out
}
