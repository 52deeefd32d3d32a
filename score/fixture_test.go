package score

import (
	"math"
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// dist is a distribution that holds its percentiles up.
func dist(mean, p50, p99 float64) assay.Dist {
	return assay.Dist{N: 5000, Effective: 4000, Mean: mean, Stddev: mean / 10, Min: mean / 2, Max: p99 * 2, Percentiles: []assay.Percentile{
		{Level: 50, Value: p50, Lo: p50 * 0.99, Hi: p50 * 1.01, Need: 6},
		{Level: 99, Value: p99, Lo: p99 * 0.95, Hi: p99 * 1.05, Need: 368},
	}}
}

func unheld(d assay.Dist) assay.Dist {
	d.N, d.Effective = 100, 80
	d.Percentiles = append([]assay.Percentile(nil), d.Percentiles...)
	for i := range d.Percentiles {
		if d.Percentiles[i].Level == 99 {
			d.Percentiles[i].Lo, d.Percentiles[i].Hi = math.NaN(), math.NaN()
		}
	}
	return d
}

func constant(v float64) assay.ReadingStats {
	return assay.ReadingStats{N: 3000, First: v, Last: v, Min: v, Max: v, Mean: v}
}

// card is a GPU with every reading in order.
func card(uuid string) assay.GPUSummary {
	return assay.GPUSummary{
		UUID: uuid, Source: "nvml", LoadedSeconds: 300,
		Stats: map[string]assay.ReadingStats{
			assay.GPUUtilization: constant(0.94), assay.GPUMemoryUsed: constant(22.1 * (1 << 30)), assay.GPUMemoryTotal: constant(24 << 30),
			assay.GPUTemperature: constant(71), assay.GPUPower: constant(320),
			assay.GPUECCUncorrected: constant(3), assay.GPURetiredPages: constant(0), assay.GPURowRemapFailed: constant(0), assay.GPURowRemapPending: constant(0),
			assay.GPURecoveryAction: constant(0), assay.GPUNVLinkErrors: constant(7), assay.GPUNVLinksDown: constant(0), assay.GPUFabricReady: constant(1), assay.GPUPeersUnreachable: constant(0),
			assay.GPUPCIeLinkWidth: constant(16), assay.GPUPCIeLinkWidthMax: constant(16),
			assay.GPUPCIeLinkGeneration: {N: 3000, First: 1, Last: 4, Min: 1, Max: 4, Mean: 3.9}, assay.GPUPCIeLinkGenMax: constant(4),
		},
		Throttled:        map[string]float64{"hw_thermal": 0, "hw_slowdown": 0, "power_brake": 0, "sw_thermal": 0, "sw_power_cap": 0.97, "idle": 0},
		XIDs:             map[string]int{},
		ReplaysPerMinute: new(0.0),
	}
}

// stage is a measured stage of n streams.
func stage(name string, n int) assay.StageSummary {
	from := time.Date(2024, 8, 30, 11, 55, 0, 0, time.UTC).UnixNano()
	return assay.StageSummary{
		Name: name, Complete: true, Plan: assay.Stage{Name: name, Kind: assay.LoadClosed, Concurrency: n},
		Started: from, SteadyFrom: from, SteadyTo: from + 290e9, Ended: from + 300e9,
		Requests: 13000, OK: 12900, Failed: 100, ErrorRate: 0.005,
		TTFT: dist(27.3, 26, 60), TPOT: dist(8, 8, 11), E2E: dist(67.3, 66, 142.7),
		InputTokens: dist(18, 18, 20), OutputTokens: dist(6, 6, 6),
		RequestsPerSecond: 45.2, GoodputPerSecond: 45.2, OutputTokensPerSecond: 271.2, GoodShare: 0.995,
		Joules: new(320.0 * 290), WindowCV: new(0.02),
	}
}

// healthy is a node with n GPUs and nothing wrong, compared with itself.
func healthy(n int) Input {
	s := stage("c3", 3)
	in := Input{
		Manifest: assay.Manifest{ID: "01J", Node: assay.Node{ID: "node_123", CPU: "AMD Ryzen 9 7950X", MemoryBytes: 64 << 30}, Engine: assay.Engine{Backend: "openai-chat", Model: "m"}},
		Summary: assay.Summary{
			Format: assay.SummaryFormat, RunID: "01J", Status: assay.StatusComplete,
			Started: s.Started, Ended: s.Ended, Client: assay.ClientSummary{Certificate: assay.Certified},
			Stages: []assay.StageSummary{s},
			Trends: []assay.Trend{
				{Of: "output_tokens_per_second", Kind: "drift", Stage: "c3", Found: assay.Pass, Slope: assay.Quantity{N: 290, Est: 0, Lo: -1e-4, Hi: 1e-4}},
				{Of: assay.EngineResidentMemory, Kind: "leak", Stage: "c3", Found: assay.Pass, Slope: assay.Quantity{N: 290, Est: 0, Lo: -1e3, Hi: 1e3}},
			},
			Host:   &assay.HostSummary{Stats: map[string]assay.ReadingStats{assay.HostCPU: constant(0.3)}},
			Energy: &assay.EnergySummary{Joules: new(320.0 * 300), Counter: new(320.0 * 300), Integrated: new(320.0 * 300), Disagreement: new(0.0)},
		},
		Baseline: &assay.Baseline{
			Format: assay.BaselineFormat, Name: "own", Source: "run 01H", GPUModel: "RTX 4090", GPUCount: n, Model: "m", Engine: "openai-chat",
			Load: assay.LoadClosed, At: 3,
			TTFTp99MS: new(60.0), TPOTp50MS: new(8.0), OutputTokensPerSecond: new(271.2), TokensPerJoule: new(271.2 / 320),
		},
	}
	for i := range n {
		uuid := "GPU-" + string(rune('a'+i))
		in.Manifest.Node.GPUs = append(in.Manifest.Node.GPUs, assay.GPU{UUID: uuid, Name: "RTX 4090", Index: i, MemoryBytes: 24 << 30})
		in.Summary.GPUs = append(in.Summary.GPUs, card(uuid))
	}
	return in
}

// finding gives the findings of a rule.
func findings(h assay.Health, rule string) []assay.Finding {
	return filter(h.Findings, func(f assay.Finding) bool { return f.Rule == rule })
}

func near(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil {
		t.Fatalf("%s is null, want %v", what, want)
	}
	if !(math.Abs(*got-want) <= 1e-9*max(1, math.Abs(want))) {
		t.Errorf("%s is %v, want %v", what, *got, want)
	}
}
