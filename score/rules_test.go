package score

import (
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

// Every row of the table flips the verdict of a healthy GPU by one change of
// what was read, and the change just short of it does not.
func TestEveryRuleFlipsItsVerdict(t *testing.T) {
	set := func(name string, v float64) func(*Input) {
		return func(in *Input) { in.Summary.GPUs[0].Stats[name] = constant(v) }
	}
	grow := func(name string, by float64) func(*Input) {
		return func(in *Input) {
			s := in.Summary.GPUs[0].Stats[name]
			s.Last, s.Max = s.First+by, s.First+by
			in.Summary.GPUs[0].Stats[name] = s
		}
	}
	held := func(reason string, v float64) func(*Input) {
		return func(in *Input) { in.Summary.GPUs[0].Throttled[reason] = v }
	}
	xid := func(n string) func(*Input) {
		return func(in *Input) { in.Summary.GPUs[0].XIDs[n] = 2 }
	}
	replays := func(v float64) func(*Input) {
		return func(in *Input) { in.Summary.GPUs[0].ReplaysPerMinute = &v }
	}
	trend := func(tr assay.Trend) func(*Input) {
		return func(in *Input) { in.Summary.Trends = append(in.Summary.Trends, tr) }
	}
	q := func(v float64) assay.Quantity { return assay.Quantity{N: 100, Est: v, Lo: v * 0.9, Hi: v * 1.1} }
	both := func(fs ...func(*Input)) func(*Input) {
		return func(in *Input) {
			for _, f := range fs {
				f(in)
			}
		}
	}
	leak := assay.Trend{Of: assay.GPUMemoryUsed, Device: "GPU-a", Kind: "leak", Found: assay.Fail, Slope: q(1e6)}
	noLeak := leak
	noLeak.Found = assay.Pass
	drift := assay.Trend{Of: "output_tokens_per_second", Device: "GPU-a", Kind: "drift", Found: assay.Fail, Slope: q(-0.05), Cause: "gpu_clocks", Why: "clocks fell from 2.5 to 1.2 GHz"}
	const fail, degraded, pass = assay.Fail, assay.Degraded, assay.Pass
	cases := []struct {
		rule   string
		change func(*Input)
		want   assay.Verdict
		hard   bool
		words  string // in the finding
	}{
		{"hw_thermal_slowdown", held("hw_thermal", 0.001), fail, true, "0.1 % of 300 s"},
		{"hw_slowdown", held("hw_slowdown", 0.2), fail, false, "20 %"},
		{"power_brake", held("power_brake", 0.01), fail, false, "power brake"},
		{"sw_thermal", held("sw_thermal", 0.01), pass, false, ""},
		{"sw_thermal", held("sw_thermal", 0.011), degraded, false, "1.1 %"},
		{"sw_power_cap", held("sw_power_cap", 1), pass, false, ""},
		{"sw_power_cap", held("idle", 1), pass, false, ""},
		{"ecc_uncorrected", set(assay.GPUECCUncorrected, 900), pass, false, ""}, // of before the run
		{"ecc_uncorrected", grow(assay.GPUECCUncorrected, 1), fail, true, "1 uncorrectable"},
		{"retired_pages", set(assay.GPURetiredPages, 59), pass, false, ""},
		{"retired_pages", set(assay.GPURetiredPages, 60), fail, false, "60 pages"},
		{"row_remap_failed", set(assay.GPURowRemapFailed, 1), fail, false, "could not be replaced"},
		{"row_remap_pending", set(assay.GPURowRemapPending, 1), degraded, false, "waits"},
		{"xid", xid("48"), fail, true, "double bit"},
		{"xid", xid("64"), fail, false, "retirement"},
		{"xid", xid("74"), fail, false, "NVLink"},
		{"xid", xid("79"), fail, true, "fallen off the bus"},
		{"xid", xid("92"), fail, false, "single bit"},
		{"xid", xid("95"), fail, true, "contained"},
		{"xid", xid("119"), fail, false, "did not answer"},
		{"xid", xid("120"), fail, false, "system processor"},
		{"xid", xid("140"), fail, true, "not recovered"},
		{"xid", xid("63"), degraded, false, "recorded for retirement"},
		{"xid", xid("94"), degraded, false, "contained to one program"},
		{"xid", xid("154"), degraded, false, "could not be read"},
		{"xid", both(xid("154"), set(assay.GPURecoveryAction, 1)), fail, false, "reset the GPU"},
		{"xid", both(xid("154"), set(assay.GPURecoveryAction, 3)), degraded, false, "drain"},
		{"lost", func(in *Input) { in.Summary.GPUs[0].Lost = true }, fail, true, "off the bus"},
		{"lost", set(assay.GPULost, 1), fail, true, "off the bus"},
		{"pcie_replays", replays(16), pass, false, ""}, // ceil(15.36) at generation 4, 16 lanes
		{"pcie_replays", replays(16.1), degraded, false, "16 are allowed"},
		{"pcie_link", set(assay.GPUPCIeLinkWidth, 8), degraded, false, "8 lanes"},
		{"pcie_link", set(assay.GPUPCIeLinkGeneration, 3), degraded, false, "generation 3"},
		{"nvlink_errors", set(assay.GPUNVLinkErrors, 99), pass, false, ""},
		{"nvlink_errors", grow(assay.GPUNVLinkErrors, 1), degraded, false, "1 errors on NVLink"},
		{"nvlink_down", set(assay.GPUNVLinksDown, 2), degraded, false, "2 NVLinks"},
		{"fabric", set(assay.GPUFabricReady, 0), degraded, false, "not ready"},
		{"peer_unreachable", set(assay.GPUPeersUnreachable, 1), fail, false, "out of reach"},
		{"recovery_action", set(assay.GPURecoveryAction, 2), fail, false, "restart the node"},
		{"recovery_action", set(assay.GPURecoveryAction, 4), degraded, false, "drain the GPU and reset it"},
		{"recovery_action", set(assay.GPURecoveryAction, 99), degraded, false, "newer driver"},
		{"leak", trend(noLeak), pass, false, ""},
		{"leak", trend(leak), degraded, false, "1 MB a minute"},
		{"throttling", trend(drift), degraded, false, "the cause is throttling"},
	}
	tested := map[string]bool{}
	for _, c := range cases {
		tested[c.rule] = true
		in := healthy(1)
		if h := Health(in); h.GPUs[0].Verdict != pass {
			t.Fatalf("a healthy GPU is %s: %s", h.GPUs[0].Verdict, h.GPUs[0].Because)
		}
		c.change(&in)
		h := Health(in)
		if got := h.GPUs[0].Verdict; got != c.want {
			t.Errorf("%s: GPU is %s, want %s (%s)", c.rule, got, c.want, h.GPUs[0].Because)
		}
		if c.want == pass {
			if h.Verdict != pass {
				t.Errorf("%s: node is %s, want pass (%s)", c.rule, h.Verdict, h.Because)
			}
			continue
		}
		if want := c.want; h.Verdict != want {
			t.Errorf("%s: node of one GPU is %s, want %s", c.rule, h.Verdict, want)
		}
		fs := findings(h, c.rule)
		if len(fs) != 1 || fs[0].Hard != c.hard || fs[0].Verdict != c.want || fs[0].Device != "GPU-a" || !strings.Contains(fs[0].Text, c.words) {
			t.Errorf("%s: findings %+v, want one, %s, hard %t, of GPU-a, with %q", c.rule, fs, c.want, c.hard, c.words)
		}
	}
	for _, r := range rules {
		if !tested[r.Name] {
			t.Errorf("rule %s has no test", r.Name)
		}
	}
}

func TestErrorsOfTheProgramAreRecordedAndNotJudged(t *testing.T) {
	for _, n := range []string{"13", "31", "43", "45", "999"} {
		in := healthy(1)
		in.Summary.GPUs[0].XIDs[n] = 1
		h := Health(in)
		if fs := findings(h, "xid"); h.Verdict != assay.Pass || len(fs) != 1 || fs[0].Verdict != assay.Unknown || !strings.Contains(fs[0].Text, "not judged") {
			t.Errorf("XID %s: node %s, findings %+v", n, h.Verdict, fs)
		}
	}
}

func TestReplaysAllowedByGenerationAndWidth(t *testing.T) {
	for _, c := range []struct{ generation, lanes, want float64 }{
		{1, 1, 1}, {1, 16, 3}, {2, 16, 5}, {3, 16, 8}, {4, 16, 16}, {5, 16, 31}, {6, 16, 62}, {4, 8, 8},
	} {
		if got, ok := replaysAllowed(c.generation, c.lanes); !ok || got != c.want {
			t.Errorf("generation %v, %v lanes: %v, %v; want %v", c.generation, c.lanes, got, ok, c.want)
		}
	}
	if _, ok := replaysAllowed(9, 16); ok {
		t.Error("a generation that is not in the table was judged")
	}
}

// A card lowers its link while idle: the highest reading under load counts.
func TestAnIdleLinkIsNoFault(t *testing.T) {
	in := healthy(1)
	in.Summary.GPUs[0].Stats[assay.GPUPCIeLinkGeneration] = assay.ReadingStats{N: 100, First: 1, Last: 1, Min: 1, Max: 4, Mean: 1.5}
	if h := Health(in); h.Verdict != assay.Pass {
		t.Errorf("%s: %s", h.Verdict, h.Because)
	}
}

// Reset (1) is worse than drain (3) although its code is lower.
func TestTheWorstRecoveryActionCounts(t *testing.T) {
	in := healthy(1)
	in.Summary.GPUs[0].Stats[assay.GPURecoveryAction] = assay.ReadingStats{N: 9, First: 1, Last: 3, Min: 1, Max: 3}
	if h := Health(in); h.Verdict != assay.Fail {
		t.Errorf("%s: %s", h.Verdict, h.Because)
	}
}
