package command

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/hammer"
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

// Every way in which a run ends, and what its objectives say of it.
func TestHammerExitCodes(t *testing.T) {
	held := func(v assay.Verdict) []assay.Held {
		return []assay.Held{{Objective: assay.Objective{Metric: "ttft", Stat: "p99", Max: 5000}, Verdict: v,
			Measured: assay.Quantity{N: 25, Est: 60, Lo: math.NaN(), Hi: math.NaN(), Why: "25 requests are worth 25 independent ones"}}}
	}
	stage := func(v assay.Verdict) assay.StageSummary {
		return assay.StageSummary{Name: "c8", OK: 25, Objectives: held(v), Kept: v}
	}
	probe := func(v assay.Verdict) assay.StageSummary {
		st := stage(v)
		st.Plan.Probe = true
		return st
	}
	run := func(stages ...assay.StageSummary) assay.Summary {
		return assay.Summary{Format: assay.SummaryFormat, Status: assay.StatusComplete, Stages: stages, Client: assay.ClientSummary{Certificate: assay.Certified}}
	}
	found := func(q assay.Quantity) assay.Summary {
		s := run(probe(assay.Pass), probe(assay.Fail))
		s.FindMax = &assay.FindMax{Of: "concurrency", Load: q}
		return s
	}
	invalid := run(stage(assay.Pass))
	invalid.Client.Certificate = assay.Invalid
	scored := &assay.Health{Verdict: assay.Pass}
	scored.Score.Baseline = "b"
	pass, fail, unknown := assay.Pass, assay.Fail, assay.Unknown
	for _, c := range []struct {
		name  string
		sum   assay.Summary
		h     *assay.Health
		err   error
		allow bool
		want  int
		says  string
	}{
		{"no objective", run(assay.StageSummary{Name: "c1", OK: 1}), nil, nil, false, ExitOK, ""},
		{"kept", run(stage(pass)), nil, nil, false, ExitOK, ""},
		{"not kept", run(stage(pass), stage(fail)), nil, nil, false, ExitFailed, "ttft_p99<5000ms at c8"},
		{"not decided", run(stage(pass), stage(unknown)), nil, nil, false, ExitUnknown, "worth 25 independent"},
		{"a verdict that nobody knows", run(stage(assay.Verdict(9))), nil, nil, false, ExitUnknown, ""},
		{"degraded is no pass of an objective", run(stage(assay.Degraded)), nil, nil, false, ExitUnknown, ""},
		{"not kept and not decided", run(stage(unknown), stage(fail)), nil, nil, false, ExitFailed, ""},
		{"a held stage counts, the steps that led to it do not", run(probe(fail), stage(pass)), nil, nil, false, ExitOK, ""},
		{"nor do they save it", run(probe(pass), stage(unknown)), nil, nil, false, ExitUnknown, ""},
		{"steps alone count", run(probe(unknown)), nil, nil, false, ExitUnknown, ""},
		{"find-max with an answer", found(assay.Quantity{N: 8, Est: 16, Lo: 16, Hi: 17}), nil, nil, false, ExitOK, ""},
		{"find-max without one", found(assay.UnknownQuantity("too few")), nil, nil, false, ExitUnknown, "too few"},
		{"an unhealthy node", run(stage(pass)), &assay.Health{Verdict: fail, Because: "hot"}, nil, false, ExitFailed, "hot"},
		{"unhealthy, and not decided", run(stage(unknown)), &assay.Health{Verdict: fail}, nil, false, ExitFailed, ""},
		{"not scored against a baseline", run(stage(pass)), scored, nil, false, ExitUnknown, ""},
		{"the client was the bottleneck", invalid, nil, nil, false, ExitUnknown, ""},
		{"and that is accepted", invalid, nil, nil, true, ExitOK, ""},
		{"interrupted", run(stage(pass)), nil, hammer.ErrInterrupted, false, ExitUnknown, "--resume"},
		{"the engine went down", run(stage(pass)), nil, hammer.ErrEngineDown, false, ExitUnknown, ""},
		{"nothing measured", run(), nil, hammer.ErrNothingMeasured, false, ExitUnknown, ""},
		{"only warm-ups", run(), nil, fmt.Errorf("%w: longer", hammer.ErrTooShort), false, ExitUnknown, "warm-ups"},
		{"broken off", run(stage(pass)), nil, errors.New("disk full"), false, ExitUnknown, ""},
		{"never begun", assay.Summary{}, nil, errors.New("no such flag"), false, ExitUsage, ""},
	} {
		err := outcome(c.sum, c.h, c.err, "dir", c.allow)
		if got := ExitCode(err); got != c.want {
			t.Errorf("%s: exit %d, want %d: %v", c.name, got, c.want, err)
		}
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want it to say %q", c.name, err, c.says)
		}
	}
}
