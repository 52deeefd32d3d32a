package assay_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

// docs/metrics.md is made from the table in metric.go.
func TestMetricsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Metrics\n\nMade from the table in `metric.go` (`go test -run TestMetricsPage -update .`); do not edit.\n\n" +
		"Latencies and token counts of a stage are distributions: `n`, `n_effective`, `mean`, `stddev`, `min`, `max`, percentiles (`p50`, `p90`, `p95`, `p99`, and those asked for) by nearest rank, and their 95 % intervals under `ci95`. " +
		"Only judged requests that succeeded are in them.\n\n" +
		"What `summary.json` does not have stands in the document that its row names.\n\n" +
		"| metric | unit | better | meaning |\n| --- | --- | --- | --- |\n")
	for _, m := range assay.Metrics() {
		help := m.Help
		if m.In != "" {
			help += " In `" + m.In + "`."
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Unit, m.Better, help)
	}
	golden(t, "docs/metrics.md", b.String())
}

// golden holds a page that is made from a table against the committed one.
func golden(t *testing.T, page, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the table says; run go test -run %s -update .", page, t.Name())
	}
}
