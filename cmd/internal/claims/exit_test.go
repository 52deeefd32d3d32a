package claims

import (
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
)

// Every verdict of a suite of promises, and how it leaves the program.
func TestUnknownIsNeverAPass(t *testing.T) {
	const beyond = assay.Verdict(9) // of a version that is not ours
	for v, want := range map[assay.Verdict]int{
		assay.Unknown: cli.ExitUnknown, assay.Pass: cli.ExitOK, assay.Degraded: cli.ExitUnknown,
		assay.Fail: cli.ExitFailed, beyond: cli.ExitUnknown,
	} {
		if got := cli.ExitCode(promised(v)); got != want {
			t.Errorf("%s: exit %d, want %d", v, got, want)
		}
	}
}
