package assay_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

// docs/telemetry.md is made from the table in reading_names.go.
func TestTelemetryPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Readings\n\nMade from the table in `reading_names.go` (`go test -run TestTelemetryPage -update .`); do not edit. [sources.md](sources.md) says where they come from.\n\n" +
		"Units are base units. A flag is 0 or 1. A reading that was not obtained is absent: it is not zero, and not healthy. " +
		"`assay hammer --metrics` exports each as `assay_` and its name; with `--dcgm-names` also under DCGM's name, in DCGM's unit.\n\n" +
		"| name | unit | kind | DCGM's name | meaning |\n| --- | --- | --- | --- | --- |\n")
	seen := map[string]bool{}
	for _, n := range assay.ReadingNames() {
		kind, dcgm := "gauge", ""
		if n.Counter {
			kind = "counter"
		}
		if n.DCGM != "" {
			dcgm = "`" + n.DCGM + "`"
		}
		if seen[n.Name] || n.DCGM != "" && (seen[n.DCGM] || n.DCGMFactor == 0) {
			t.Errorf("%s is in the table twice, or its alias has no factor", n.Name)
		}
		seen[n.Name], seen[n.DCGM] = true, n.DCGM != ""
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", n.Name, n.Unit, kind, dcgm, n.Help)
	}
	golden(t, "docs/telemetry.md", b.String())
}
