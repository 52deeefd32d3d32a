package compare

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// metricRow is a metric as docs/compare.md has it.
func metricRow(m Metric) string {
	same := ""
	if m.SameWork {
		same = "yes"
	}
	return fmt.Sprintf("| `%s` (%s): %s | %s | %s |", m.Name, m.Unit, m.Help, m.Better, same)
}

func TestTheDocumentedMetricsAreTheTable(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "docs", "compare.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range Metrics() {
		if row := metricRow(m); !strings.Contains(string(b), row+"\n") {
			t.Errorf("docs/compare.md lacks\n%s", row)
		}
	}
}
