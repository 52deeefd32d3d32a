package foreign

import (
	"strings"
	"testing"
)

func TestShell(t *testing.T) {
	for _, tt := range []struct{ word, want string }{
		{"bench.yaml", "bench.yaml"},
		{"", "''"},
		{"my bench", "'my bench'"},
		{"ttft_p99<=+5%", "'ttft_p99<=+5%'"},
		{"$(id)`id`\\", "'$(id)`id`\\'"},
		{"it's", `'it'"'"'s'`},
		{"~", "'~'"},
	} {
		if got := Shell("assay", tt.word); got != "assay "+tt.want {
			t.Errorf("%q: %s, want %s", tt.word, got, tt.want)
		}
	}
	// Markdown puts a backslash before one: no quote may depend on it.
	if got := Shell("'; rm -rf ~; '"); strings.Contains(got, `\`) {
		t.Errorf("%s has a backslash", got)
	}
}
