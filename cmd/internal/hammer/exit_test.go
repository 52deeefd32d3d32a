package hammer

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/cmd/internal/cli"
	"github.com/assay-bench/assay/hammer"
)

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
		{"no objective", run(assay.StageSummary{Name: "c1", OK: 1}), nil, nil, false, cli.ExitOK, ""},
		{"kept", run(stage(pass)), nil, nil, false, cli.ExitOK, ""},
		{"not kept", run(stage(pass), stage(fail)), nil, nil, false, cli.ExitFailed, "ttft_p99<5000ms at c8"},
		{"not decided", run(stage(pass), stage(unknown)), nil, nil, false, cli.ExitUnknown, "worth 25 independent"},
		{"a verdict that nobody knows", run(stage(assay.Verdict(9))), nil, nil, false, cli.ExitUnknown, ""},
		{"degraded is no pass of an objective", run(stage(assay.Degraded)), nil, nil, false, cli.ExitUnknown, ""},
		{"not kept and not decided", run(stage(unknown), stage(fail)), nil, nil, false, cli.ExitFailed, ""},
		{"a held stage counts, the steps that led to it do not", run(probe(fail), stage(pass)), nil, nil, false, cli.ExitOK, ""},
		{"nor do they save it", run(probe(pass), stage(unknown)), nil, nil, false, cli.ExitUnknown, ""},
		{"steps alone count", run(probe(unknown)), nil, nil, false, cli.ExitUnknown, ""},
		{"find-max with an answer", found(assay.Quantity{N: 8, Est: 16, Lo: 16, Hi: 17}), nil, nil, false, cli.ExitOK, ""},
		{"find-max without one", found(assay.UnknownQuantity("too few")), nil, nil, false, cli.ExitUnknown, "too few"},
		{"an unhealthy node", run(stage(pass)), &assay.Health{Verdict: fail, Because: "hot"}, nil, false, cli.ExitFailed, "hot"},
		{"unhealthy, and not decided", run(stage(unknown)), &assay.Health{Verdict: fail}, nil, false, cli.ExitFailed, ""},
		{"not scored against a baseline", run(stage(pass)), scored, nil, false, cli.ExitUnknown, ""},
		{"the client was the bottleneck", invalid, nil, nil, false, cli.ExitUnknown, ""},
		{"and that is accepted", invalid, nil, nil, true, cli.ExitOK, ""},
		{"interrupted", run(stage(pass)), nil, hammer.ErrInterrupted, false, cli.ExitUnknown, "--resume"},
		{"the engine went down", run(stage(pass)), nil, hammer.ErrEngineDown, false, cli.ExitUnknown, ""},
		{"nothing measured", run(), nil, hammer.ErrNothingMeasured, false, cli.ExitUnknown, ""},
		{"only warm-ups", run(), nil, fmt.Errorf("%w: longer", hammer.ErrTooShort), false, cli.ExitUnknown, "warm-ups"},
		{"broken off", run(stage(pass)), nil, errors.New("disk full"), false, cli.ExitUnknown, ""},
		{"never begun", assay.Summary{}, nil, errors.New("no such flag"), false, cli.ExitUsage, ""},
	} {
		err := outcome(c.sum, c.h, c.err, "dir", c.allow)
		if got := cli.ExitCode(err); got != c.want {
			t.Errorf("%s: exit %d, want %d: %v", c.name, got, c.want, err)
		}
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want it to say %q", c.name, err, c.says)
		}
	}
}
