package operate

import (
	"errors"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/compare"
	"github.com/assay-bench/assay/internal/command"
)

// Every verdict of a comparison's gates and of a suite of promises, and how it
// leaves the program.
func TestUnknownIsNeverAPass(t *testing.T) {
	const beyond = assay.Verdict(9) // of a version that is not ours
	want := map[assay.Verdict]int{
		assay.Unknown: command.ExitUnknown, assay.Pass: command.ExitOK, assay.Degraded: command.ExitUnknown,
		assay.Fail: command.ExitFailed, beyond: command.ExitUnknown,
	}
	some := compare.Experiment{Samples: []compare.Sample{{}}}
	for v, code := range want {
		if got := command.ExitCode(promised(v)); got != code {
			t.Errorf("claims, %s: exit %d, want %d", v, got, code)
		}
		if got := command.ExitCode(outcome(nil, some, nil, v, "dir")); got != code {
			t.Errorf("compare, %s: exit %d, want %d", v, got, code)
		}
	}
	for _, c := range []struct {
		err  error
		e    compare.Experiment
		want int
	}{
		{compare.ErrInterrupted, some, command.ExitUnknown},
		{compare.ErrAllFailed, compare.Experiment{}, command.ExitUnknown},
		{compare.ErrLocked, compare.Experiment{}, command.ExitUnknown},
		{compare.ErrBusy, compare.Experiment{}, command.ExitUnknown},
		{errors.New("halfway"), some, command.ExitUnknown},
		{errors.New("no such file"), compare.Experiment{}, command.ExitUsage},
	} {
		// A pass of the gates does not save a comparison that went wrong.
		if got := command.ExitCode(outcome(c.err, c.e, nil, assay.Pass, "dir")); got != c.want {
			t.Errorf("compare, %v: exit %d, want %d", c.err, got, c.want)
		}
	}
}
