package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// Tied stands where no engine is shown to be ahead.
const Tied = "tied"

// What summary.json calls latency and throughput.
const (
	latencyMetric    = "e2e_ms_mean"
	throughputMetric = "output_tokens_per_second"
)

// Overall is the answer in a few words.
type Overall struct {
	Fastest         string
	Because         string // why the fastest is it, or why none is
	BestThroughput  *float64
	BestLatency     *float64
	MostConsistent  string
	ConsistentWhy   string
	BestGPU         *string
	Recommendation  string
	LatencyOf       string // workload
	ThroughputOf    string
	Matrix          []Row // in the order of engines
	MarkedRuns      int
	InvalidSamples  int
	DegradedSamples int
}

// Row is one engine of the comparison matrix.
type Row struct {
	Engine     string
	Latency    *float64
	Throughput *float64
	Speedup    assay.Quantity
	Verdict    string
	Failed     string
}

func (b *bench) overall(a Analysis) Overall {
	o := Overall{}
	o.LatencyOf = b.workloadOf(latencyMetric, -1)
	o.ThroughputOf = b.workloadOf(throughputMetric, 1)
	best := math.Inf(-1)
	for i, e := range b.Engines {
		r := Row{Engine: e.Name, Failed: e.Failed, Speedup: assay.UnknownQuantity("")}
		if f := a.of(e.Name, o.LatencyOf, latencyMetric); f != nil {
			r.Latency = known(f.Mean.Est)
			o.BestLatency = better(o.BestLatency, r.Latency, -1)
		}
		if f := a.of(e.Name, o.ThroughputOf, throughputMetric); f != nil {
			r.Throughput = known(f.Mean.Est)
			o.BestThroughput = better(o.BestThroughput, r.Throughput, 1)
		}
		if i == 0 && r.Latency != nil {
			r.Speedup, r.Verdict = assay.Quantity{N: len(a.of(e.Name, o.LatencyOf, latencyMetric).Values), Est: 1, Lo: 1, Hi: 1}, "baseline"
		} else if c := a.between(e.Name, b.engines[0], o.LatencyOf, latencyMetric); c != nil {
			r.Verdict = c.Text()
			if c.Invalid > 0 {
				r.Verdict += ", in doubt: the client was the bottleneck in some of its runs"
			}
			if c.Verdict != NotComparable && c.Scale == "ratio" && c.Change.Known() {
				// The inverse of a ratio of times; its interval turns round.
				r.Speedup = assay.Quantity{N: c.Change.N, Est: 1 / c.Change.Est, Lo: 1 / c.Change.Hi, Hi: 1 / c.Change.Lo}
			}
		}
		if u := b.utilization(a, e.Name); u > best {
			name := e.Name
			best, o.BestGPU = u, &name
		}
		o.Matrix = append(o.Matrix, r)
	}
	o.Fastest, o.Because = b.fastest(a)
	o.MostConsistent, o.ConsistentWhy = b.consistent(a)
	for _, f := range a.Figures {
		o.MarkedRuns += len(f.Marked)
	}
	for _, runs := range b.runs {
		for _, s := range runs {
			switch s.Client {
			case assay.Invalid:
				o.InvalidSamples++
			case assay.DegradedBy:
				o.DegradedSamples++
			}
		}
	}
	return o
}

func better(best, v *float64, direction float64) *float64 {
	if v == nil || best != nil && direction*(*v) <= direction*(*best) {
		return best
	}
	return v
}

// workloadOf is where the first engine that has the metric has the lowest
// (−1) or the highest (1) of it; empty: none has.
func (b *bench) workloadOf(metric string, direction float64) string {
	for _, e := range b.engines {
		name, best := "", math.Inf(-1)
		for _, w := range b.Workloads {
			var m stat.Moments
			for _, v := range b.values(e, w, metric) {
				m.Add(v)
			}
			if m.N() > 0 && direction*m.Mean() > best {
				name, best = w, direction*m.Mean()
			}
		}
		if name != "" {
			return name
		}
	}
	return ""
}

func (b *bench) utilization(a Analysis, engine string) float64 {
	best := math.Inf(-1)
	for _, w := range b.Workloads {
		if f := a.of(engine, w, "gpu_utilization_mean"); f != nil {
			best = max(best, f.Mean.Est)
		}
	}
	return best
}

// measured are the engines that have any figure of the primary metric.
func (b *bench) measured(metric string) []string {
	var out []string
	for _, e := range b.engines {
		for _, w := range b.Workloads {
			if len(b.having(e, w, metric)) > 0 {
				out = append(out, e)
				break
			}
		}
	}
	return out
}

// fastest is the engine that is shown ahead of every other in the primary
// metric on some workload, and behind none on any. A comparison that rests on
// runs whose client was the bottleneck does not hold up.
func (b *bench) fastest(a Analysis) (name, because string) {
	primary := a.Family.Primary
	engines := b.measured(primary)
	if len(engines) < 2 {
		return Tied, fmt.Sprintf("%d of %d engines have a figure of %s, so there is nothing to compare", len(engines), len(b.engines), primary)
	}
	behind := map[string]string{}
	ahead := map[string]map[string]map[string]bool{} // engine, workload, whom
	doubtful := false
	for _, c := range a.Comparisons {
		if c.Metric != primary || c.Better == "" {
			continue
		}
		if c.Invalid > 0 {
			doubtful = true
			continue
		}
		loser := c.Engine
		if c.Better == c.Engine {
			loser = c.Against
		}
		behind[loser] = fmt.Sprintf("%s is behind %s on %s", loser, c.Better, c.Workload)
		if ahead[c.Better] == nil {
			ahead[c.Better] = map[string]map[string]bool{}
		}
		if ahead[c.Better][c.Workload] == nil {
			ahead[c.Better][c.Workload] = map[string]bool{}
		}
		ahead[c.Better][c.Workload][loser] = true
	}
	for _, e := range engines {
		if behind[e] != "" {
			continue
		}
		for _, w := range b.Workloads {
			if len(ahead[e][w]) == len(engines)-1 {
				return e, fmt.Sprintf("ahead of every other in %s on %s, and behind none on any workload", primary, w)
			}
		}
	}
	switch {
	case doubtful:
		return Tied, fmt.Sprintf("what differs in %s rests on runs whose client was itself the bottleneck", primary)
	case len(behind) == 0:
		return Tied, b.whyNone(a)
	}
	return Tied, "no engine is ahead of every other: " + strings.Join(sortedValues(behind), "; ")
}

// whyNone says what the comparisons of the primary metric came to, when none
// showed a difference.
func (b *bench) whyNone(a Analysis) string {
	seen := map[string]string{}
	for _, c := range a.Comparisons {
		if c.Metric == a.Family.Primary {
			seen[string(c.Verdict)] = c.Text()
		}
	}
	return fmt.Sprintf("%s: %s", a.Family.Primary, strings.Join(sortedValues(seen), "; "))
}

func sortedValues(m map[string]string) []string {
	var out []string
	for _, v := range m {
		out = append(out, v)
	}
	slices.Sort(out)
	return out
}

// consistent is the engine whose runs are shown to vary less than those of each
// other: Mann–Whitney on how far the logarithm of each run's primary metric lies
// from its engine's median, workloads together (Brown and Forsythe's idea with
// ranks).
func (b *bench) consistent(a Analysis) (name, why string) {
	deviations := map[string][]float64{}
	var engines []string
	for _, e := range b.engines {
		for _, w := range b.Workloads {
			f := a.of(e, w, a.Family.Primary)
			if f == nil || f.Min <= 0 {
				continue
			}
			for _, v := range f.Values {
				deviations[e] = append(deviations[e], math.Abs(math.Log(v/f.Median)))
			}
		}
		if len(deviations[e]) > 0 {
			engines = append(engines, e)
		}
	}
	if len(engines) < 2 {
		return Tied, "fewer than two engines have runs to compare"
	}
	least := slices.MinFunc(engines, func(x, y string) int {
		switch p, q := total(deviations[x]), total(deviations[y]); {
		case p < q:
			return -1
		case p > q:
			return 1
		}
		return 0
	})
	var p []float64
	for _, e := range engines {
		if e != least {
			// Deviations from a median are tied and not quite independent, so an
			// exact distribution would only look exact.
			p = append(p, stat.MannWhitney(deviations[least], deviations[e], stat.TestOptions{Normal: true}).P)
		}
	}
	// The one that is tested was chosen after looking, so every engine counts.
	for _, v := range p {
		if !(v*float64(len(engines)*(len(engines)-1)/2) <= a.Family.LevelNow) {
			return Tied, fmt.Sprintf("runs of %s vary least in %s, and the difference in variation is not shown", least, a.Family.Primary)
		}
	}
	return least, fmt.Sprintf("its runs vary less in %s than those of every other", a.Family.Primary)
}

func total(v []float64) float64 {
	var m stat.Moments
	for _, x := range v {
		m.Add(x)
	}
	return m.Mean()
}
