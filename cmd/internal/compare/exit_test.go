package compare

import (
	"errors"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/compare"
	"github.com/assay-bench/assay/compare/experiment"
)

// Every verdict of a comparison's gates, and how it leaves the program.
func TestUnknownIsNeverAPass(t *testing.T) {
	const beyond = assay.Verdict(9) // of a version that is not ours
	want := map[assay.Verdict]int{
		assay.Unknown: cli.ExitUnknown, assay.Pass: cli.ExitOK, assay.Degraded: cli.ExitUnknown,
		assay.Fail: cli.ExitFailed, beyond: cli.ExitUnknown,
	}
	some := compare.Experiment{Samples: []compare.Sample{{}}}
	for v, code := range want {
		if got := cli.ExitCode(outcome(nil, some, nil, v, "dir")); got != code {
			t.Errorf("compare, %s: exit %d, want %d", v, got, code)
		}
	}
	for _, c := range []struct {
		err  error
		e    compare.Experiment
		want int
	}{
		{experiment.ErrInterrupted, some, cli.ExitUnknown},
		{experiment.ErrAllFailed, compare.Experiment{}, cli.ExitUnknown},
		{experiment.ErrLocked, compare.Experiment{}, cli.ExitUnknown},
		{experiment.ErrBusy, compare.Experiment{}, cli.ExitUnknown},
		{errors.New("halfway"), some, cli.ExitUnknown},
		{errors.New("no such file"), compare.Experiment{}, cli.ExitUsage},
	} {
		// A pass of the gates does not save a comparison that went wrong.
		if got := cli.ExitCode(outcome(c.err, c.e, nil, assay.Pass, "dir")); got != c.want {
			t.Errorf("compare, %v: exit %d, want %d", c.err, got, c.want)
		}
	}
}
