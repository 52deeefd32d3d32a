package summary

import (
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

const (
	// replicates is how many resamples are drawn: the ends of a 95 % interval
	// are then the fifth and the fifth to last of them.
	replicates = 200
	// windowsLeast is how many windows say something about variation between
	// them.
	windowsLeast = 10
	// resampledMost bounds the work: more windows are joined with neighbours,
	// and the resample is of the groups.
	resampledMost = 128
)

// group is one or several windows that are drawn together.
type group struct {
	ok, failed     int
	tokens, joules float64
	seconds        float64
	ttft, tpot     []tallied
}

// replicate resamples a stage's windows in blocks; nil when there are too few.
// joules is the energy of each window, or nil.
func replicate(windows []*cell, width int64, joules []float64, seed uint64, stage string) *assay.Replicates {
	if len(windows) < windowsLeast {
		return nil
	}
	groups := grouped(windows, width, joules)
	n := len(groups)
	name := fnv.New64a()
	name.Write([]byte(stage))
	rng := rand.New(rand.NewPCG(seed, name.Sum64()))
	block := blockOf(groups)
	out := &assay.Replicates{Windows: len(windows), Seed: seed}
	var ttft, tpot []float64
	lists := [...]*[]float64{&out.TTFTp99MS, &out.TPOTp50MS, &out.OutputTokensPerSecond, &out.ErrorRate, &out.TokensPerJoule}
	for range replicates {
		draws := stat.BlockIndices(rng, n, block)
		var t group
		for _, i := range draws {
			g := &groups[i]
			t.ok, t.failed = t.ok+g.ok, t.failed+g.failed
			t.tokens, t.joules, t.seconds = t.tokens+g.tokens, t.joules+g.joules, t.seconds+g.seconds
		}
		energy := math.NaN()
		if joules != nil {
			energy = t.tokens / t.joules
		}
		for k, v := range [...]float64{
			drawn(&ttft, groups, draws, 99, func(g *group) []tallied { return g.ttft }) / 1e3,
			drawn(&tpot, groups, draws, 50, func(g *group) []tallied { return g.tpot }) / 1e6,
			t.tokens / t.seconds,
			float64(t.failed) / float64(t.ok+t.failed),
			energy,
		} {
			*lists[k] = append(*lists[k], digits(v, 5))
		}
	}
	for _, list := range lists {
		// The nth of each list is of one resample, so a list with a hole is none.
		for _, v := range *list {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				*list = []float64{}
				break
			}
		}
	}
	return out
}

func grouped(windows []*cell, width int64, joules []float64) []group {
	size := (len(windows) + resampledMost - 1) / resampledMost
	var out []group
	// A last group that would be shorter is left out, so that all weigh alike.
	for from := 0; from+size <= len(windows); from += size {
		g := group{seconds: float64(width) / 1e9 * float64(size)}
		var ttft, tpot buckets
		for i := from; i < from+size; i++ {
			w := windows[i]
			g.ok, g.failed = g.ok+w.ok, g.failed+w.failed
			g.tokens += w.tokens
			if joules != nil {
				g.joules += joules[i]
			}
			ttft.merge(&w.ttftCount)
			tpot.merge(&w.tpotSeen)
		}
		g.ttft, g.tpot = ttft.list(), tpot.list()
		out = append(out, g)
	}
	return out
}

// blockOf is how many neighbours are drawn together: the cube root of their
// number as is usual, and no less than the autocorrelation time of tokens a
// second, up to a quarter of all.
func blockOf(groups []group) int {
	var b stat.Blocking
	for i := range groups {
		b.Add(groups[i].tokens)
	}
	n := float64(len(groups))
	return int(math.Ceil(min(max(math.Cbrt(n), b.Tau()), n/4)))
}

// drawn is a percentile of the groups that were drawn, NaN when they hold
// nothing. counts is used again from call to call.
func drawn(counts *[]float64, groups []group, draws []int, level float64, of func(*group) []tallied) float64 {
	clear(*counts)
	total := 0.0
	for _, i := range draws {
		for _, t := range of(&groups[i]) {
			if int(t.bucket) >= len(*counts) {
				*counts = append(*counts, make([]float64, int(t.bucket)+1-len(*counts))...)
			}
			(*counts)[t.bucket] += float64(t.n)
			total += float64(t.n)
		}
	}
	if total == 0 {
		return math.NaN()
	}
	rank := float64(stat.Rank(int64(total), level))
	for b, n := range *counts {
		if rank -= n; rank <= 0 {
			return bucketMiddle(b)
		}
	}
	return math.NaN()
}

// windowCV is how much tokens a second vary from window to window, less what
// counting alone gives: a window with n tokens is off by about √n, and an open
// stage's arrivals come by chance, whatever the engine does. nil: too few.
func windowCV(windows []*cell, width int64, s *assay.StageSummary) *float64 {
	if len(windows) < windowsLeast {
		return nil
	}
	var m stat.Moments
	for _, w := range windows {
		m.Add(w.tokens)
	}
	mean := m.Mean()
	if !(mean > 0) {
		return nil
	}
	squared := m.Variance()/mean/mean - 1/mean
	if p := s.Plan; p.Kind == assay.LoadOpen && p.Rate > 0 {
		squared -= byChance(p, s, float64(width)/1e9)
	}
	cv := math.Sqrt(max(0, squared))
	return &cv
}

// byChance is the squared variation that the arrivals of an open load and the
// lengths of its answers give, whatever the engine does. Windows that are longer
// than a request sum its tokens, so that both arrivals and lengths count; in
// shorter ones it is the number of requests under way that varies, which for
// arrivals by chance does not depend on the spread of the lengths.
func byChance(p assay.Stage, s *assay.StageSummary, seconds float64) float64 {
	arrivals, lengths := 0.0, 0.0
	if p.Burstiness > 0 {
		arrivals = 1 / p.Burstiness
	}
	if o := s.OutputTokens; o.Mean > 0 {
		lengths = o.Stddev / o.Mean * o.Stddev / o.Mean
	}
	var under float64
	if e2e := s.E2E.Mean / 1e3; e2e > 0 {
		under = 1 / ((1 + lengths) * e2e)
	}
	if under == 0 || under > 1/seconds {
		under = 1 / seconds
	}
	return (arrivals + lengths) / p.Rate * under
}
