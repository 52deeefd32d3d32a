package cli

import (
	"errors"
	"fmt"
	"testing"

	"github.com/assay-bench/assay"
)

// Unknown is never a pass: every verdict, every way in which errors meet.
func TestUnknownIsNeverAPass(t *testing.T) {
	broken := errors.New("broken")
	for v, want := range map[assay.Verdict]int{
		assay.Unknown: ExitUnknown, assay.Pass: ExitOK, assay.Degraded: ExitUnknown, assay.Fail: ExitFailed,
		assay.Verdict(9): ExitUnknown, // of a version that is not ours
	} {
		if got := ExitCode(Judged(v, broken)); got != want {
			t.Errorf("verdict %s: exit %d, want %d", v, got, want)
		}
	}
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, ExitOK},
		{"an error of ours", broken, ExitUsage},
		{"unknown", Unknown(broken), ExitUnknown},
		{"wrapped", fmt.Errorf("while: %w", Failed(broken)), ExitFailed},
		{"joined, the worse last", errors.Join(Unknown(broken), Failed(broken)), ExitFailed},
		{"joined, the worse first", errors.Join(Failed(broken), Unknown(broken)), ExitFailed},
		{"joined with an error of ours", errors.Join(broken, Unknown(broken)), ExitUnknown},
		{"a joined one wrapped", fmt.Errorf("while: %w", errors.Join(broken, Failed(broken))), ExitFailed},
		{"joined nils", errors.Join(nil, nil), ExitOK},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("%s: exit %d, want %d", c.name, got, c.want)
		}
	}
}
