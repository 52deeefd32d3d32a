package node

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the list of commands into its page")

// Every word that a line takes is one that is checked, and the other way round.
func TestWordsOfCommandsAreChecked(t *testing.T) {
	used := map[string]bool{}
	for _, c := range commands {
		for _, p := range placeholder.FindAllString(c.Line, -1) {
			word := strings.Trim(p, "{}")
			used[word] = true
			if checks[word] == nil {
				t.Errorf("%s takes a %s, which nothing checks", c.Name, word)
			}
		}
		if c.Why == "" {
			t.Errorf("%s has no reason", c.Name)
		}
	}
	for word := range checks {
		if !used[word] {
			t.Errorf("no command takes a %s", word)
		}
	}
}

func TestHostileWordsAreRefused(t *testing.T) {
	good := words{"model": "hf.co/org/Qwen2-7B.Instruct:q4_K_M", "seconds": "300", "streams": "8", "port": "11434", "backend": "ollama", "run": "run-a1-2", "file": "run.json"}
	for word, value := range good {
		if err := checkWord(word, value); err != nil {
			t.Error(err)
		}
		for _, bad := range []string{
			"", "-rf", "--help", value + ";id", value + " id", value + "\nid", value + "$(id)", value + "`id`", value + "'", value + `"`,
			value + "|id", value + "&", value + ">x", "../" + value, value + "/../x", value + "\\", value + "{}", value + "*", value + "\x00", value + "é",
		} {
			if err := checkWord(word, bad); err == nil {
				t.Errorf("%q passes as a %s", bad, word)
			}
		}
	}
}

func TestOnlyListedCommandsRun(t *testing.T) {
	if line, err := commandLine("reboot", nil); err == nil {
		t.Errorf("%q would run", line)
	}
	if line, err := commandLine("ollama-pull", words{"model": "a; reboot"}); err == nil {
		t.Errorf("%q would run", line)
	}
	line, err := commandLine("ollama-warm", words{"model": "qwen2:7b", "seconds": "9"})
	if err != nil || !strings.Contains(line, `{"model":"qwen2:7b","prompt"`) || !strings.Contains(line, "--max-time 9 ") {
		t.Errorf("%q, %v", line, err)
	}
}

// The page that people read before they rent lists what the code does.
func TestPageListsTheCommands(t *testing.T) {
	const page, begin, end = "../../docs/campaign-machines.md", "<!-- commands -->\n", "<!-- end of commands -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(text), begin)
	list, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no marks for the list", page)
	}
	var b strings.Builder
	for _, c := range commands {
		fmt.Fprintf(&b, "\n**%s**: %s\n\n```sh\n%s\n```\n", c.Name, c.Why, c.Line)
	}
	b.WriteString("\n")
	if *update {
		if err := os.WriteFile(page, []byte(head+begin+b.String()+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if list != b.String() {
		t.Errorf("%s lists other commands than run: go test ./campaign/node -run TestPageListsTheCommands -update", page)
	}
}
