package score

import (
	"math"
	"strconv"
	"strings"

	"github.com/assay-bench/assay"
)

// hardware is what the node is made of, as far as it says.
func hardware(in Input) assay.HardwareInfo {
	n := in.Manifest.Node
	out := assay.HardwareInfo{CPUModel: text(n.CPU)}
	if n.MemoryBytes > 0 {
		b := n.MemoryBytes
		out.RAMBytes, out.RAM = &b, gigabytes(float64(b))
	}
	cards := cardsOf(in)
	out.GPUCount = len(cards)
	if len(cards) == 0 {
		return out
	}
	out.GPUModel = text(cards[0].Name)
	b := cards[0].MemoryBytes
	for _, g := range in.Summary.GPUs {
		if v, ok := maxOf(g, assay.GPUMemoryTotal); ok && b <= 0 && g.UUID == cards[0].UUID && v < 1<<62 {
			b = int64(v)
		}
	}
	if b > 0 {
		out.GPUMemoryBytes, out.GPUMemory = &b, gigabytes(float64(b))
	}
	return out
}

// performance are the figures of the judged stage, and the readings beside.
func performance(in Input, s assay.StageSummary, measured bool) assay.PerformanceMetrics {
	var out assay.PerformanceMetrics
	for _, st := range windowed(filter(in.Summary.Stages, func(s assay.StageSummary) bool { return s.OK+s.Failed > 0 })) {
		out.MaxThroughput = higher(out.MaxThroughput, finite(st.GoodputPerSecond))
	}
	if measured {
		out.Stage = clip(s.Name)
		if s.E2E.N > 0 {
			out.AvgLatencyMS = finite(s.E2E.Mean)
		}
		out.P99LatencyMS = percentile(s.E2E, 99, "E2E").pointer()
		out.TTFTp99MS = percentile(s.TTFT, 99, "TTFT").pointer()
		out.TPOTp50MS = percentile(s.TPOT, 50, "TPOT").pointer()
		out.OutputTokensPerSecond = finite(s.OutputTokensPerSecond)
		if !s.Windowed() {
			out.RatesOf = assay.RatesOfWhole
		}
		out.ErrorRate = finite(s.ErrorRate)
		out.TokensPerJoule = tokensPerJoule(s).pointer()
	}
	power, all := 0.0, len(in.Summary.GPUs) > 0
	for _, g := range in.Summary.GPUs {
		read := func(name string) *float64 {
			if v, ok := maxOf(g, name); ok {
				return &v
			}
			return nil
		}
		out.MaxGPUUtilization = higher(out.MaxGPUUtilization, read(assay.GPUUtilization))
		out.PeakMemoryBytes = higher(out.PeakMemoryBytes, read(assay.GPUMemoryUsed))
		out.MaxTemperature = higher(out.MaxTemperature, read(assay.GPUTemperature))
		p, ok := g.Stats[assay.GPUPower]
		all = all && ok && p.N > 0
		power += p.Mean
	}
	if out.PeakMemoryBytes != nil {
		out.PeakMemoryUsage = gigabytes(*out.PeakMemoryBytes)
	}
	if all {
		out.MeanPowerWatts = finite(power)
	}
	if h := in.Summary.Host; h != nil {
		if c, ok := h.Stats[assay.HostCPU]; ok && c.N > 0 {
			out.CPUUtilization = finite(c.Mean)
		}
	}
	return out
}

func (f figure) pointer() *float64 {
	if !f.ok {
		return nil
	}
	return &f.v
}

func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func higher(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

func text(s string) *string {
	if s == "" {
		return nil
	}
	s = clip(s)
	return &s
}

// gigabytes writes a size as card makers do: 24GB is 24 × 2³⁰ bytes.
func gigabytes(b float64) *string {
	s := strings.TrimSuffix(strconv.FormatFloat(b/(1<<30), 'f', 1, 64), ".0") + "GB"
	return &s
}
