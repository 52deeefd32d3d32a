package compare

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
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

// There is one table of metrics, and it is the root's.
func TestMetricsAreTheRoots(t *testing.T) {
	for _, m := range Metrics() {
		if of, ok := assay.MetricOf(m.Name); !ok || m.Unit == "" || m.Unit != of.Unit || m.Better != of.Better {
			t.Errorf("%+v, and the root has %+v, %v", m, of, ok)
		}
	}
}
