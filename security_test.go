package assay_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// threats reads the lines of the table of docs/security.md that have an attack.
func threats(page string) (out []requirement) {
	in, n := false, 0
	for line := range strings.Lines(page) {
		n++
		line = strings.TrimSpace(line)
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			in = heading == "Threats"
		}
		cells := strings.Split(line, "|")
		if !in || len(cells) != 5 || strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| attack") || strings.HasPrefix(line, "| *") {
			continue
		}
		out = append(out, requirement{asked: strings.TrimSpace(cells[1]), where: cells[3], line: n})
	}
	return out
}

// untried are the faults of a threat: no test, or one that is not there.
func untried(r requirement) (wrong []string) {
	tests := originTest.FindAllStringSubmatch(r.where, -1)
	if len(tests) == 0 {
		return []string{"no test tries it"}
	}
	for _, m := range tests {
		if !hasTest(filepath.FromSlash(m[1]), m[2]) {
			wrong = append(wrong, m[1]+" has no test "+m[2])
		}
	}
	return wrong
}

// Each threat of docs/security.md has a test that tries it.
func TestSecurityNamesTestsThatAreThere(t *testing.T) {
	page, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	all := threats(string(page))
	if len(all) < 40 {
		t.Errorf("docs/security.md has %d threats: was its table changed?", len(all))
	}
	for _, r := range all {
		for _, wrong := range untried(r) {
			t.Errorf("docs/security.md:%d: %s: %s", r.line, r.asked, wrong)
		}
	}
}

func TestSecurityFindsWhatNothingTries(t *testing.T) {
	all := threats("## Threats\n| attack | against | by |\n| --- | --- | --- |\n| *as x* | | |\n| a | b | `score.TestNothingOfThisName` |\n| c | d | e |\n## More\n| f | g | h |\n")
	if len(all) != 2 || all[0].line != 5 || len(untried(all[0])) != 1 || len(untried(all[1])) != 1 {
		t.Errorf("%+v", all)
	}
}
