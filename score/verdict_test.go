package score

import (
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

func TestOneBadGPUOfEightDegradesTheNodeAndIsNamed(t *testing.T) {
	in := healthy(8)
	in.Summary.GPUs[3].Throttled["hw_thermal"] = 0.12
	h := Health(in)
	if h.Verdict != assay.Degraded || !strings.Contains(h.Because, "GPU 3 (GPU-d)") || !strings.Contains(h.Because, "1 of 8") {
		t.Errorf("%s: %s", h.Verdict, h.Because)
	}
	for i, g := range h.GPUs {
		if want := map[bool]assay.Verdict{true: assay.Fail, false: assay.Pass}[i == 3]; g.Verdict != want {
			t.Errorf("GPU %d is %s, want %s", i, g.Verdict, want)
		}
	}
}

func TestTheNodesVerdict(t *testing.T) {
	check := func(name, device string, v assay.Verdict) func(*Input) {
		return func(in *Input) {
			in.Checks = append(in.Checks, assay.Check{Name: name, Device: device, Verdict: v, Evidence: "seen"})
		}
	}
	errors := func(rate float64) func(*Input) {
		return func(in *Input) { in.Summary.Stages[0].ErrorRate = rate }
	}
	blind := func(in *Input) { in.Summary.GPUs, in.Manifest.Node.GPUs = nil, nil }
	invalid := func(in *Input) { in.Summary.Client.Certificate = assay.Invalid }
	hot := func(in *Input) { in.Summary.GPUs[0].Throttled["hw_thermal"] = 0.5 }
	warm := func(in *Input) { in.Summary.GPUs[0].Throttled["sw_thermal"] = 0.5 }
	slow := func(factor float64) func(*Input) {
		return func(in *Input) { in.Summary.Stages[0].OutputTokensPerSecond *= factor }
	}
	leak := func(in *Input) {
		in.Summary.Trends = append(in.Summary.Trends, assay.Trend{Of: assay.EngineResidentMemory, Kind: "leak", Found: assay.Fail, Slope: assay.Quantity{N: 9, Est: 1e6, Lo: 9e5, Hi: 2e6}})
	}
	drift := func(in *Input) {
		in.Summary.Trends = append(in.Summary.Trends, assay.Trend{Of: "ttft_ms", Kind: "drift", Found: assay.Fail, Slope: assay.Quantity{N: 9, Est: 0.01, Lo: 0.009, Hi: 0.02}})
	}
	const unknown, pass, degraded, fail = assay.Unknown, assay.Pass, assay.Degraded, assay.Fail
	for _, c := range []struct {
		name   string
		gpus   int
		change []func(*Input)
		want   assay.Verdict
		words  string
	}{
		{"healthy", 8, nil, pass, "8 GPUs"},
		{"a GPU alone that fails", 1, []func(*Input){hot}, fail, "thermal"},
		{"all GPUs fail", 2, []func(*Input){hot, func(in *Input) { in.Summary.GPUs[1].Lost = true }}, fail, "all 2"},
		{"a GPU without readings", 2, []func(*Input){func(in *Input) { in.Summary.GPUs = in.Summary.GPUs[:1] }}, unknown, "GPU 1 (GPU-b): not read"},
		{"no reasons for low clocks", 1, []func(*Input){func(in *Input) { in.Summary.GPUs[0].Throttled = nil }}, unknown, "reasons for low clocks"},
		{"no temperature", 1, []func(*Input){func(in *Input) { delete(in.Summary.GPUs[0].Stats, assay.GPUTemperature) }}, unknown, "temperature"},
		{"no memory", 1, []func(*Input){func(in *Input) { delete(in.Summary.GPUs[0].Stats, assay.GPUMemoryUsed) }}, unknown, "memory"},
		{"no GPU read at all", 1, []func(*Input){blind}, unknown, "no GPU was read"},
		{"no GPU read, leaking", 1, []func(*Input){blind, leak}, unknown, "no GPU was read"},
		{"no GPU read, failing requests", 1, []func(*Input){blind, errors(0.5)}, fail, "50 % of the requests"},
		{"no GPU read, wrong product", 1, []func(*Input){blind, check("compute.product", "", fail)}, fail, "compute.product"},
		{"wrong product of the node", 2, []func(*Input){check("compute.product", "", fail)}, fail, "compute.product"},
		{"another card than it says, one of two", 2, []func(*Input){check("identity.catalogue", "GPU-b", fail)}, degraded, "GPU-b"},
		{"bad memory", 1, []func(*Input){check("memory.pattern", "GPU-a", fail)}, fail, "memory.pattern"},
		{"a degraded check", 1, []func(*Input){check("memory.bandwidth", "GPU-a", degraded)}, degraded, "memory.bandwidth"},
		{"a check that could not be made", 1, []func(*Input){check("execution.tokens", "GPU-a", unknown)}, pass, ""},
		{"errors at the limit", 1, []func(*Input){errors(0.01)}, pass, ""},
		{"errors above it", 1, []func(*Input){errors(0.011)}, degraded, "1.1 %"},
		{"many errors", 1, []func(*Input){errors(0.11)}, fail, "11 %"},
		{"a leak of the engine", 1, []func(*Input){leak}, degraded, "leak"},
		{"a drift", 1, []func(*Input){drift}, degraded, "ttft_ms grows worse"},
		{"a restart", 1, []func(*Input){func(in *Input) { in.Summary.Restarts = 1 }}, degraded, "restarted once"},
		{"a little slow", 1, []func(*Input){slow(0.9)}, pass, ""},
		{"a low score", 1, []func(*Input){slow(0.5)}, degraded, "overall score"},
		{"a very low score", 1, []func(*Input){slow(0.1)}, fail, "overall score"},
		{"the client was the bottleneck", 1, []func(*Input){invalid}, unknown, "client"},
		{"the client was, and the GPU degraded", 1, []func(*Input){invalid, warm}, unknown, "client"},
		{"the client was, and requests failed", 1, []func(*Input){invalid, errors(0.5)}, unknown, "client"},
		{"the client was, and the GPU fails", 1, []func(*Input){invalid, hot}, fail, "thermal"},
		{"nothing was sent", 1, []func(*Input){func(in *Input) { in.Summary.Stages = nil }}, unknown, "no stage"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := healthy(c.gpus)
			for _, f := range c.change {
				f(&in)
			}
			h := Health(in)
			if h.Verdict != c.want || !strings.Contains(h.Because, c.words) {
				t.Errorf("%s (%s), want %s with %q", h.Verdict, h.Because, c.want, c.words)
			}
		})
	}
}

func TestWrongResultsAndWrongCardsAreHard(t *testing.T) {
	for name, want := range map[string]bool{"compute.product": true, "identity.catalogue": true, "memory.pattern": false, "computer.says": false} {
		in := healthy(1)
		in.Checks = []assay.Check{{Name: name, Device: "GPU-a", Verdict: assay.Fail}}
		if fs := findings(Health(in), "check."+name); len(fs) != 1 || fs[0].Hard != want {
			t.Errorf("%s: %+v, want hard %t", name, fs, want)
		}
	}
}

func TestThrottlingIsNamedAsTheCauseOfFallingTokens(t *testing.T) {
	in := healthy(1)
	in.Summary.GPUs[0].Throttled["hw_thermal"] = 0.4
	in.Summary.Trends = []assay.Trend{{Of: "output_tokens_per_second", Kind: "drift", Stage: "c3", Found: assay.Fail, Cause: "gpu_clocks", Why: "clocks fell from 2.5 to 1.2 GHz while hw_thermal was active", Slope: assay.Quantity{N: 9, Est: -0.1, Lo: -0.2, Hi: -0.05}}}
	h := Health(in)
	fs := findings(h, "throttling")
	if len(fs) != 1 || !strings.Contains(fs[0].Text, "the cause is throttling") || !strings.Contains(fs[0].Text, "1.2 GHz") || len(findings(h, "drift")) != 0 {
		t.Errorf("%+v", fs)
	}
	if fs := findings(h, "hw_thermal_slowdown"); len(fs) != 1 || !strings.Contains(fs[0].Text, "40 %") || h.Verdict != assay.Fail {
		t.Errorf("%s: %+v", h.Verdict, fs)
	}
}

func TestABaselineOfSomethingElseIsNoted(t *testing.T) {
	in := healthy(1)
	in.Baseline.GPUModel, in.Baseline.Model = "H100", "another"
	h := Health(in)
	fs := findings(h, "baseline_differs")
	if len(fs) != 1 || fs[0].Verdict != assay.Unknown || !strings.Contains(fs[0].Text, "H100") || !strings.Contains(fs[0].Text, "another") {
		t.Errorf("%+v", fs)
	}
	if h.Verdict != assay.Pass || h.Score.Overall == nil {
		t.Errorf("the note changed the verdict to %s (%s)", h.Verdict, h.Because)
	}
}
