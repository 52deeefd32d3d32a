package compare

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// analysisRow is a member of the analysis as docs/compare-engines.md has it.
func analysisRow(k AnalysisKey) string {
	row := "| `analysis." + k.Key + "` | " + k.Help
	if len(k.Values) > 0 {
		row += "; `" + strings.Join(k.Values, "` or `") + "`"
	}
	if k.Default != "" {
		row += "; `" + k.Default + "` unless said"
	}
	return row + " |"
}

// The page has the table's rows and no other, in its order.
func TestTheDocumentedAnalysisIsTheTable(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "docs", "compare-engines.md"))
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "| `analysis.") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	for _, k := range AnalysisKeys() {
		want = append(want, analysisRow(k))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/compare-engines.md (-table +page):\n%s", diff)
	}
}

// What the report says is missing can be found under that name.
func TestWhatIsMissingIsCalledByItsKey(t *testing.T) {
	e := made(2, 1, 1)
	for _, u := range Analyze(e).Unanswered {
		_, key, ok := strings.Cut(u.Why, "(analysis.")
		key, _, _ = strings.Cut(key, ")")
		if !ok || AnalysisKeyOf(key).Key == "" {
			t.Errorf("%s: %q names no member of the analysis", u.Question, u.Why)
		}
	}
}
