package score

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/assay-bench/assay"
)

// The parts of the score, in the order of the report.
const (
	Latency = iota
	Throughput
	Stability
	Efficiency
	partCount
)

var partNames = [partCount]string{"latency", "throughput", "stability", "efficiency"}

// weights are equal: nothing that was measured speaks for others, and the
// example of the profiler specification (0.92 0.85 0.89 0.83 give 0.87) agrees.
var weights = [partCount]float64{0.25, 0.25, 0.25, 0.25}

// minCoverage is the least share of the weight that an overall score needs.
const minCoverage = 0.5

// part is one scored part.
type part struct {
	v     float64
	ok    bool
	cover float64 // the share of its weight that is known
	why   string
	lost  []loss
}

// whole is a part of which nothing is lost yet, and all is known.
func whole() part { return part{v: 1, ok: true, cover: 1} }

// loss is one factor of a part: the part is the product of all factors.
type loss struct {
	metric             string
	measured, expected float64
	factor             float64
	because            string
}

// scale is what a run is compared with, reduced to what the parts need.
type scale struct {
	base *assay.Baseline
	// why latency cannot be scored although there is a baseline.
	noLoad string
	steady []loss    // factors of stability that do not come from a stage's figures
	start  *starting // without a baseline
}

func positive(p *float64) (float64, bool) {
	if p == nil || !(*p > 0) || math.IsInf(*p, 0) {
		return 0, false
	}
	return *p, true
}

const noBaseline = "there is no baseline to compare it with; make one: assay hammer --save-baseline FILE"

// parts scores figures; n ≥ 0 scores the nth replicate of them.
func (s scale) parts(f figures, n int) [partCount]part {
	return [partCount]part{s.latency(f, n), s.throughput(f, n), s.stability(f, n), s.efficiency(f, n)}
}

func (s scale) latency(f figures, n int) part {
	if s.base == nil {
		return s.start.latency(f, n)
	}
	if s.noLoad != "" {
		return part{why: s.noLoad}
	}
	type pair struct {
		metric string
		base   *float64
		fig    figure
	}
	var used []pair
	for _, p := range []pair{{"ttft_p99_ms", s.base.TTFTp99MS, f.ttft}, {"tpot_p50_ms", s.base.TPOTp50MS, f.tpot}} {
		if _, ok := positive(p.base); ok {
			used = append(used, p)
		}
	}
	if len(used) == 0 {
		return part{why: "the baseline has no latency"}
	}
	out := whole()
	for _, p := range used {
		if !p.fig.ok {
			return part{why: p.fig.why}
		}
		base, measured := *p.base, p.fig.at(n)
		// A root of the ratio: the product of the factors is the geometric mean.
		factor := math.Pow(clamp(base/measured), 1/float64(len(used)))
		out.take(loss{p.metric, measured, base, factor, fmt.Sprintf("%s is %s ms, the baseline has %s ms", p.metric, num(measured), num(base))})
	}
	return out
}

func (s scale) throughput(f figures, n int) part {
	if s.base == nil {
		return s.start.throughput()
	}
	return s.ratio(f.rate, n, "output_tokens_per_second", "output tokens a second", func(b *assay.Baseline) *float64 { return b.OutputTokensPerSecond })
}

func (s scale) efficiency(f figures, n int) part {
	return s.ratio(f.perJoule, n, "tokens_per_joule", "output tokens a joule", func(b *assay.Baseline) *float64 { return b.TokensPerJoule })
}

// ratio scores a figure of which more is better.
func (s scale) ratio(f figure, n int, metric, words string, of func(*assay.Baseline) *float64) part {
	if s.base == nil {
		return part{why: noBaseline}
	}
	base, ok := positive(of(s.base))
	if !ok {
		return part{why: "the baseline has no " + words}
	}
	if !f.ok {
		return part{why: f.why}
	}
	measured := f.at(n)
	out := whole()
	out.take(loss{metric, measured, base, clamp(measured / base), fmt.Sprintf("%s %s, the baseline has %s", num(measured), words, num(base))})
	return out
}

func (s scale) stability(f figures, n int) part {
	for _, needed := range []figure{f.fails, f.steady} {
		if !needed.ok {
			return part{why: needed.why}
		}
	}
	out := whole()
	e := f.fails.at(n)
	out.take(loss{"error_rate", e, 0, 1 - clamp(e), share(e) + " of the requests failed"})
	if f.cv.ok {
		out.take(loss{"window_cv", f.cv.v, 0, 1 / (1 + f.cv.v), "tokens a second varied by " + share(f.cv.v) + " from window to window"})
	}
	for _, l := range s.steady {
		out.take(l)
	}
	return out
}

func (p *part) take(l loss) {
	p.v = clamp(p.v * l.factor)
	p.lost = append(p.lost, l)
}

// overall is the weighted geometric mean of the known parts, whose weights are
// shared out; coverage is the weight that they had.
func overall(ps [partCount]part) (v, coverage float64) {
	sum := 0.0
	for i, p := range ps {
		if p.ok {
			w := weights[i] * p.cover
			coverage += w
			sum += w * math.Log(p.v) // −∞ for a part of zero, and then overall is zero
		}
	}
	if coverage == 0 {
		return 0, 0
	}
	return clamp(math.Exp(sum / coverage)), coverage
}

// deductions lays what each part lost on its factors by their logarithms, so
// that they add up.
func deductions(ps [partCount]part) []assay.Deduction {
	out := []assay.Deduction{}
	for i, p := range ps {
		if !p.ok || p.v >= 1 {
			continue
		}
		zeros, logs := 0, 0.0
		for _, l := range p.lost {
			if l.factor <= 0 {
				zeros++
			} else {
				logs += math.Log(l.factor)
			}
		}
		for _, l := range p.lost {
			d := assay.Deduction{Part: partNames[i], Metric: l.metric, Measured: l.measured, Expected: l.expected, Because: l.because}
			switch {
			case zeros > 0 && l.factor <= 0:
				d.Lost = (1 - p.v) / float64(zeros)
			case zeros == 0 && logs < 0:
				d.Lost = (1 - p.v) * math.Log(l.factor) / logs
			case zeros == 0:
				d.Lost = (1 - p.v) / float64(len(p.lost))
			}
			if d.Lost > 0 {
				out = append(out, d)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b assay.Deduction) int {
		switch {
		case a.Lost > b.Lost:
			return -1
		case a.Lost < b.Lost:
			return 1
		}
		return 0
	})
	return out
}

// intervals scores every replicate and takes the middle 95 % of each part and
// of the whole.
func (s scale) intervals(f figures, point [partCount]part) map[string]assay.Interval {
	out := map[string]assay.Interval{}
	reps := 0
	for _, g := range []figure{f.ttft, f.tpot, f.rate, f.fails, f.perJoule} {
		reps = max(reps, len(g.reps))
	}
	if reps < 2 {
		return out
	}
	var lists [partCount + 1][]float64
	for n := range reps {
		ps := s.parts(f, n)
		for i, p := range ps {
			if p.ok && point[i].ok {
				lists[i] = append(lists[i], p.v)
			}
		}
		if v, coverage := overall(ps); coverage >= minCoverage {
			lists[partCount] = append(lists[partCount], v)
		}
	}
	for i, l := range lists {
		if len(l) == 0 {
			continue
		}
		slices.Sort(l)
		name := "overall"
		if i < partCount {
			name = partNames[i]
		}
		at := func(level float64) float64 {
			return l[min(len(l)-1, max(0, int(math.Ceil(level*float64(len(l))))-1))]
		}
		out[name] = assay.Interval{Low: at(0.025), High: at(0.975)}
	}
	return out
}

// clamp brings a ratio into [0,1]; what is not a number is the worst.
func clamp(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	return min(v, 1)
}

// num writes a figure with four digits.
func num(v float64) string {
	if a := math.Abs(v); a >= 1000 && a < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// share writes a ratio in hundredths.
func share(v float64) string { return strconv.FormatFloat(v*100, 'g', 3, 64) + " %" }
