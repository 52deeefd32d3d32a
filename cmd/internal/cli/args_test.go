package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestTakes(t *testing.T) {
	for _, tt := range []struct {
		least, most int
		args, want  string
	}{
		{1, 1, "", "it needs a run directory: report DIR"},
		{1, 1, "a", ""},
		{1, 1, "a b", `"b" is more`},
		{0, 1, "", ""},
		{0, 1, "a b", `it takes a run directory, and "b"`},
		{1, Any, "", "it needs"},
		{1, Any, "a b c", ""},
	} {
		err := Takes(tt.least, tt.most, "a run directory")(&cobra.Command{Use: "report DIR"}, strings.Fields(tt.args))
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%d to %d words, %q: %v, want %q", tt.least, tt.most, tt.args, err, tt.want)
		}
	}
}
