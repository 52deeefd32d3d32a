package score

import (
	"fmt"
	"math"

	"github.com/assay-bench/assay"
)

// Thresholds of the rules; each is explained in docs/health.md.
const (
	// swThermalShare is the share of loaded time that the driver may lower
	// clocks because of heat.
	swThermalShare = 0.01
	// retiredPages is NVIDIA's own limit for replacing a card.
	retiredPages = 60
	// bitErrorRate is what PCIe allows: one error in 10¹² bits.
	bitErrorRate = 1e-12
)

// rule is one row of the table of health rules.
type rule struct {
	Name    string // as in a finding
	Sign    string // what is looked at
	Verdict string // what follows, in words
	judge   func(gpu) []assay.Finding
}

// gpu is what the rules see of one GPU.
type gpu struct {
	assay.GPUSummary
	trends []assay.Trend // those that are about it
}

// rules is the table for a GPU, in the order of the documentation.
var rules = []rule{
	{"hw_thermal_slowdown", "hardware thermal slowdown while loaded", "fail, hard", reason("hw_thermal", 0, assay.Fail, true, "check fans, air flow and the cooler's seat")},
	{"hw_slowdown", "hardware slowdown while loaded", "fail", reason("hw_slowdown", 0, assay.Fail, false, "check cooling and power supply")},
	{"power_brake", "power brake while loaded", "fail", reason("power_brake", 0, assay.Fail, false, "the power supply cannot carry the load: check it and its cables")},
	{"sw_thermal", "software thermal slowdown for over 1 % of loaded time", "degraded", reason("sw_thermal", swThermalShare, assay.Degraded, false, "improve cooling, or lower the power limit")},
	{"sw_power_cap", "software power cap; idle", "normal; ignored", func(gpu) []assay.Finding { return nil }},
	{"ecc_uncorrected", "uncorrectable ECC errors during the run", "fail, hard", judgeECC},
	{"retired_pages", "60 retired pages or more", "fail", atLeast(assay.GPURetiredPages, retiredPages, assay.Fail, "%s pages of memory are retired", actReplace)},
	{"row_remap_failed", "a row of memory could not be remapped", "fail", atLeast(assay.GPURowRemapFailed, 1, assay.Fail, "a row of memory could not be replaced", actReplace)},
	{"row_remap_pending", "a row remap is pending", "degraded", atLeast(assay.GPURowRemapPending, 1, assay.Degraded, "a row of memory waits to be replaced", "reset the GPU at the next chance")},
	{"xid", "XID 48 64 74 79 92 95 119 120 140; 63 94; 154", "fail (48 79 95 140 hard); degraded; as its recovery action says. Others: recorded, not judged", judgeXIDs},
	{"lost", "the driver says that the GPU is lost", "fail, hard", judgeLost},
	{"pcie_replays", "PCIe replays a minute above ceil(1e-12 × line rate × 60 × lanes)", "degraded", judgeReplays},
	{"pcie_link", "PCIe link below its maximum width or generation, by the highest reading under load", "degraded", judgeLink},
	{"nvlink_errors", "NVLink errors rising", "degraded", rising(assay.GPUNVLinkErrors, assay.Degraded, false, "%s errors on NVLink during the run", actLinks)},
	{"nvlink_down", "an NVLink is down", "degraded", atLeast(assay.GPUNVLinksDown, 1, assay.Degraded, "%s NVLinks are down", actLinks)},
	{"fabric", "fabric state not ready", "degraded", judgeFabric},
	{"peer_unreachable", "a peer is out of reach over NVLink", "fail", atLeast(assay.GPUPeersUnreachable, 1, assay.Fail, "%s other GPUs are out of reach over NVLink", actLinks)},
	{"recovery_action", "the driver asks for a recovery action", "as it says: reset or restart fail, drain degrades", judgeRecovery},
	{"leak", "memory of the GPU rising after warm-up", "degraded", judgeLeaks},
	{"throttling", "clocks of the GPU fell while tokens a second fell", "degraded; throttling named as the cause", judgeDrifts},
}

// judge runs every rule on one GPU.
func (g gpu) judge() []assay.Finding {
	var out []assay.Finding
	for _, r := range rules {
		for _, f := range r.judge(g) {
			f.Rule, f.Device = r.Name, g.UUID
			f.Text = clip(f.Text)
			f.Values = finiteValues(f.Values)
			out = append(out, f)
		}
	}
	return out
}

func one(v assay.Verdict, hard bool, text, action string, values map[string]float64) []assay.Finding {
	return []assay.Finding{{Verdict: v, Hard: hard, Text: text, Action: action, Values: values}}
}

// reason judges a cause of low clocks by its share of loaded time.
func reason(key string, above float64, v assay.Verdict, hard bool, action string) func(gpu) []assay.Finding {
	words := key
	for _, r := range badReasons {
		if r.key == key {
			words = r.words
		}
	}
	return func(g gpu) []assay.Finding {
		s, ok := g.Throttled[key]
		if !ok || !(s > above) {
			return nil
		}
		s = min(s, 1)
		return one(v, hard, fmt.Sprintf("%s for %s of %s s under load", words, share(s), num(g.LoadedSeconds)), action,
			map[string]float64{"share": s, "loaded_seconds": g.LoadedSeconds})
	}
}

// atLeast judges the highest reading of a name.
func atLeast(name string, least float64, v assay.Verdict, text, action string) func(gpu) []assay.Finding {
	return func(g gpu) []assay.Finding {
		n, ok := maxOf(g.GPUSummary, name)
		if !ok || n < least {
			return nil
		}
		return one(v, false, fill(text, n), action, map[string]float64{name: n})
	}
}

// rising judges what a counter grew by during the run.
func rising(name string, v assay.Verdict, hard bool, text, action string) func(gpu) []assay.Finding {
	return func(g gpu) []assay.Finding {
		n, ok := growth(g.GPUSummary, name)
		if !ok || !(n > 0) {
			return nil
		}
		return one(v, hard, fill(text, n), action, map[string]float64{"during_run": n})
	}
}

func fill(text string, n float64) string {
	if len(text) > 1 && text[:2] == "%s" {
		return num(n) + text[2:]
	}
	return text
}

// growth is what a counter rose by. One that ended below its start began anew
// in between: then at least what it ended with was added.
func growth(g assay.GPUSummary, name string) (float64, bool) {
	s, ok := g.Stats[name]
	if !ok || s.N == 0 || math.IsNaN(s.First) || math.IsNaN(s.Last) || math.IsInf(s.Max, 0) {
		return 0, false
	}
	up := max(s.Max-s.First, 0)
	if s.Last < s.First {
		up = max(up, s.Last)
	}
	return up, true
}

var judgeECC = rising(assay.GPUECCUncorrected, assay.Fail, true, "%s uncorrectable memory errors during the run", actReset)

func judgeLost(g gpu) []assay.Finding {
	if v, ok := maxOf(g.GPUSummary, assay.GPULost); !g.Lost && !(ok && v >= 1) {
		return nil
	}
	return one(assay.Fail, true, "the driver lost the GPU: it fell off the bus", actPower, nil)
}

// lineRates in bits a second of a lane, by PCIe generation.
var lineRates = map[int]float64{1: 2.5e9, 2: 5e9, 3: 8e9, 4: 16e9, 5: 32e9, 6: 64e9}

// replaysAllowed is how many replays a minute a link of this generation and
// width has when every bit error that PCIe allows costs one.
func replaysAllowed(generation, lanes float64) (float64, bool) {
	rate, ok := lineRates[int(generation)]
	if !ok || !(lanes >= 1) || lanes > 64 {
		return 0, false
	}
	// Rounded first: 1e-12 × 2.5e9 is not exact in binary, and 1 must not become 2.
	return math.Ceil(math.Round(bitErrorRate*rate*60*lanes*1e6) / 1e6), true
}

func judgeReplays(g gpu) []assay.Finding {
	if g.ReplaysPerMinute == nil || !(*g.ReplaysPerMinute > 0) || math.IsInf(*g.ReplaysPerMinute, 0) {
		return nil
	}
	rate := *g.ReplaysPerMinute
	allowed, ok := replaysAllowed(g.first(assay.GPUPCIeLinkGeneration, assay.GPUPCIeLinkGenMax), g.first(assay.GPUPCIeLinkWidth, assay.GPUPCIeLinkWidthMax))
	values := map[string]float64{"per_minute": rate}
	if !ok {
		return one(assay.Unknown, false, num(rate)+" PCIe replays a minute; width or generation of the link was not read, so they are recorded and not judged", "", values)
	}
	if rate <= allowed {
		return nil
	}
	values["allowed_per_minute"] = allowed
	return one(assay.Degraded, false, fmt.Sprintf("%s PCIe replays a minute, where %s are allowed", num(rate), num(allowed)), "check the card's seat, riser and slot", values)
}

// first is the highest reading of the first name that was read.
func (g gpu) first(names ...string) float64 {
	for _, n := range names {
		if v, ok := maxOf(g.GPUSummary, n); ok && v > 0 {
			return v
		}
	}
	return 0
}

// judgeLink takes the highest reading under load, since cards lower their link
// while idle.
func judgeLink(g gpu) []assay.Finding {
	var out []assay.Finding
	for _, l := range []struct{ now, most, words string }{
		{assay.GPUPCIeLinkWidth, assay.GPUPCIeLinkWidthMax, "PCIe link with %s lanes under load, %s are possible"},
		{assay.GPUPCIeLinkGeneration, assay.GPUPCIeLinkGenMax, "PCIe link of generation %s under load, generation %s is possible"},
	} {
		now, ok := maxOf(g.GPUSummary, l.now)
		most, okMost := maxOf(g.GPUSummary, l.most)
		if ok && okMost && now < most {
			out = append(out, one(assay.Degraded, false, fmt.Sprintf(l.words, num(now), num(most)),
				"check the card's seat, riser, slot and the firmware's settings", map[string]float64{l.now: now, l.most: most})...)
		}
	}
	return out
}

func judgeFabric(g gpu) []assay.Finding {
	s, ok := g.Stats[assay.GPUFabricReady]
	if !ok || s.N == 0 || !(s.Min < 1) {
		return nil
	}
	return one(assay.Degraded, false, "the NVLink fabric was not ready", "check the fabric manager's service and log", nil)
}

func judgeRecovery(g gpu) []assay.Finding {
	a, ok := g.recovery()
	if !ok {
		return nil
	}
	return one(a.verdict, false, "the driver asks: "+a.words, a.words, nil)
}

func finiteValues(in map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for k, v := range in {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			out[clip(k)] = v
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
