package score

import (
	"fmt"
	"math"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
)

// restartFactor is what one restart of the engine leaves of stability: a node
// that lost every stream once in a run is half as steady as one that did not.
const restartFactor = 0.5

// badReasons are the causes of low clocks that are a fault, and what they are
// called. The software power limit is normal under load, and idle is idle.
var badReasons = []struct{ key, words string }{
	{"hw_thermal", "hardware thermal slowdown"},
	{"hw_slowdown", "hardware slowdown"},
	{"power_brake", "power brake"},
	{"sw_thermal", "software thermal slowdown"},
}

// steadiness gives the factors of stability that belong to the run as a whole,
// and for those that are not available, why.
func steadiness(in Input) (factors []loss, unknown map[string]string) {
	unknown = map[string]string{}
	if l, ok := throttled(in.Summary.GPUs); ok {
		factors = append(factors, l)
	} else {
		unknown["stability.throttled_share"] = "no reasons for low clocks were read; taken as not known, nothing is deducted"
	}
	drift, tested := worstDrift(in.Summary)
	if drift.factor < 1 {
		factors = append(factors, drift)
	} else if !tested {
		unknown["stability.drift"] = "no steady window is long enough to see a drift; nothing is deducted"
	}
	leak, tested, why := worstLeak(in)
	if leak.factor < 1 {
		factors = append(factors, leak)
	}
	if why != "" {
		unknown["stability.leak"] = why
	} else if !tested {
		unknown["stability.leak"] = "no memory was read for long enough to see a leak; nothing is deducted"
	}
	if n := in.Summary.Restarts; n > 0 {
		factors = append(factors, loss{"engine_restarts", float64(n), 0, math.Pow(restartFactor, float64(n)), fmt.Sprintf("the engine was restarted %d times", n)})
	}
	return factors, unknown
}

// throttled is the share of all GPUs' time under load in which they were held
// back: one bad GPU of eight costs an eighth, as its replicas alone are taken
// out. Of a GPU's reasons the longest counts, since they overlap.
func throttled(gpus []assay.GPUSummary) (loss, bool) {
	sum, n, most, words := 0.0, 0, 0.0, ""
	for _, g := range gpus {
		worst, read := 0.0, false
		for _, r := range badReasons {
			v, ok := g.Throttled[r.key]
			if !ok || math.IsNaN(v) {
				continue
			}
			read = true
			if v = clamp(v); v > worst {
				worst = v
			}
			if v > most {
				most, words = v, r.words+" for "+share(v)+" of the time under load"
			}
		}
		if read {
			sum, n = sum+worst, n+1
		}
	}
	if n == 0 {
		return loss{}, false
	}
	mean := sum / float64(n)
	if n > 1 && words != "" {
		words = fmt.Sprintf("of the time of %d GPUs under load %s was throttled; the worst had %s", n, share(mean), words)
	}
	return loss{"throttled_share", mean, 0, 1 - mean, words}, true
}

// worstDrift is the largest drift that was found, as the change over the stage
// that it was found in. Falling tokens and rising times are one thing seen
// twice, so only the largest counts.
func worstDrift(sum assay.Summary) (worst loss, tested bool) {
	worst.factor = 1
	for _, t := range sum.Trends {
		if t.Kind != "drift" || t.Found == assay.Unknown {
			continue
		}
		tested = true
		slope := math.Abs(t.Slope.Est)
		if t.Found != assay.Fail || !t.Slope.Known() || math.IsInf(slope, 0) {
			continue
		}
		change := min(slope*minutesOf(sum, t.Stage), math.MaxFloat64)
		if f := 1 / (1 + change); f < worst.factor {
			worst = loss{"drift", change, 0, f, fmt.Sprintf("%s drifted by %s over the stage", clip(t.Of), share(change))}
		}
	}
	return worst, tested
}

func minutesOf(sum assay.Summary, stage string) float64 {
	for _, s := range sum.Stages {
		if s.Name == stage {
			return steadySeconds(s) / 60
		}
	}
	return max(0, float64(sum.Ended-sum.Started)/60e9)
}

// worstLeak is the leak that would fill its memory first: what a day of it
// takes, as a share of the memory that there is.
func worstLeak(in Input) (worst loss, tested bool, why string) {
	worst.factor = 1
	for _, t := range in.Summary.Trends {
		if t.Kind != "leak" || t.Found == assay.Unknown {
			continue
		}
		tested = true
		if t.Found != assay.Fail || !t.Slope.Known() || !(t.Slope.Est > 0) || math.IsInf(t.Slope.Est, 0) {
			continue
		}
		room := roomFor(in, t)
		if !(room > 0) {
			why = "how much memory there is for " + clip(t.Of) + " is not known; the leak is a finding, nothing is deducted"
			continue
		}
		day := min(t.Slope.Est*24*60/room, math.MaxFloat64)
		if f := 1 / (1 + day); f < worst.factor {
			worst = loss{"leak", day, 0, f, fmt.Sprintf("%s rises by %s of what there is in a day", clip(t.Of), share(day))}
		}
	}
	return worst, tested, why
}

// roomFor is the size of the memory that a trend is about; 0: not known.
func roomFor(in Input, t assay.Trend) float64 {
	switch t.Of {
	case assay.EngineKVCache:
		return 1
	case assay.EngineResidentMemory, assay.HostMemoryUsed:
		return float64(in.Manifest.Node.MemoryBytes)
	case assay.GPUMemoryUsed:
		for _, g := range in.Summary.GPUs {
			if v, ok := maxOf(g, assay.GPUMemoryTotal); ok && g.UUID == t.Device {
				return v
			}
		}
		for _, g := range in.Manifest.Node.GPUs {
			if g.UUID == t.Device {
				return float64(g.MemoryBytes)
			}
		}
	}
	return 0
}

// maxOf is the highest reading of a name; ok is false where it was not read.
func maxOf(g assay.GPUSummary, name string) (float64, bool) {
	s, ok := g.Stats[name]
	return s.Max, ok && s.N > 0 && !math.IsNaN(s.Max) && !math.IsInf(s.Max, 0)
}

// maxText bounds words that came from outside, in bytes.
const maxText = 600

// clip makes words that came from outside fit to be printed.
func clip(s string) string { return foreign.Line(s, maxText) }
