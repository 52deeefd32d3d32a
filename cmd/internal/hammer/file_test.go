package hammer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay/internal/yamltext"
)

// The scenarios of docs/hammer.md are ones that the program takes.
func TestDocumentedScenarios(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "hammer.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, ok := strings.Cut(string(page), "```yaml\n")
	if example, _, _ = strings.Cut(example, "```"); !ok {
		t.Fatal("docs/hammer.md has no example of scenarios")
	}
	file, err := parseHammerFile("docs/hammer.md", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	patterns := map[string]bool{}
	for _, s := range file.Scenarios {
		patterns[s.Pattern] = true
		if !strings.Contains(string(page), "| `"+s.Pattern+"` |") {
			t.Errorf("docs/hammer.md has no row for the pattern %s", s.Pattern)
		}
	}
	if len(patterns) != 5 || len(file.Profiles) != 1 {
		t.Errorf("%d patterns, %d profiles", len(patterns), len(file.Profiles))
	}
}

func TestConfigFileRefusesWhatExplodes(t *testing.T) {
	if _, err := parseHammerFile("f.yaml", []byte("test_scenarios: "+strings.Repeat("[", 100_000))); !errors.Is(err, yamltext.ErrBounds) {
		t.Error(err)
	}
}
