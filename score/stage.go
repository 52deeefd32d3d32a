package score

import (
	"cmp"
	"math"
	"slices"

	"github.com/assay-bench/assay"
)

// loadTolerance is how far a stage's load may be from the baseline's and still
// be the same load: a rate that a user typed with three digits is.
const loadTolerance = 0.01

// maxReplicates bounds what is read of a list of replicates.
const maxReplicates = 10_000

// figure is one number of a stage, or why there is none.
type figure struct {
	v    float64
	ok   bool
	why  string
	reps []float64 // bootstrap replicates, of the same resamples in every figure of a stage
}

func known(v float64, why string) figure {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return figure{why: why}
	}
	return figure{v: v, ok: true}
}

// at is the figure in the nth replicate; where there is none, the figure itself.
func (f figure) at(n int) float64 {
	if n >= 0 && n < len(f.reps) {
		return f.reps[n]
	}
	return f.v
}

// figures are what the score reads of a stage.
type figures struct {
	stage                             string
	ttft, tpot, rate, perJoule, fails figure
	cv                                figure
	steady                            figure // known: there is a steady window
}

// figuresOf reads a stage. limited says that the run had limits for goodput:
// then only the share of the tokens that kept them counts.
func figuresOf(s assay.StageSummary, limited bool) figures {
	share := 1.0
	if limited {
		share = clamp(s.GoodShare)
	}
	f := figures{
		stage: s.Name,
		ttft:  percentile(s.TTFT, 99, "TTFT"),
		tpot:  percentile(s.TPOT, 50, "TPOT"),
		rate:  known(s.OutputTokensPerSecond*share, "the summary has no token rate"),
		fails: known(s.ErrorRate, "the summary has no error rate"),
		cv:    figure{why: "too few windows to see a variation"},

		steady: figure{ok: true},
	}
	if why := noWindow(s); why != "" {
		// The whole stage's rate has filling and draining in it, and is too low by
		// nobody knows how much.
		f.steady, f.rate, f.cv = figure{why: why}, figure{why: why}, figure{why: why}
	}
	if s.WindowCV != nil {
		f.cv = known(*s.WindowCV, "the variation is not a number")
	}
	f.perJoule = tokensPerJoule(s)
	if r := s.Replicates; r != nil {
		n := min(maxReplicates, max(len(r.TTFTp99MS), len(r.TPOTp50MS), len(r.OutputTokensPerSecond), len(r.ErrorRate), len(r.TokensPerJoule)))
		f.ttft.replicate(r.TTFTp99MS, n, 1)
		f.tpot.replicate(r.TPOTp50MS, n, 1)
		f.rate.replicate(r.OutputTokensPerSecond, n, share)
		f.fails.replicate(r.ErrorRate, n, 1)
		f.perJoule.replicate(r.TokensPerJoule, n, 1)
	}
	return f
}

// noWindow says why a stage has no steady window; empty: it has one.
func noWindow(s assay.StageSummary) string {
	if s.Windowed() {
		return ""
	}
	return "stage " + clip(s.Name) + " has no steady window: " + clip(s.WindowWhy)
}

// replicate keeps n replicates; one that is missing or no number is the figure
// itself, so that the nth of every figure stays of the same resample.
func (f *figure) replicate(list []float64, n int, scale float64) {
	if !f.ok {
		return
	}
	f.reps = make([]float64, n)
	for i := range f.reps {
		f.reps[i] = f.v
		if i < len(list) && known(list[i]*scale, "").ok {
			f.reps[i] = list[i] * scale
		}
	}
}

func percentile(d assay.Dist, level float64, name string) figure {
	p, ok := d.P(level)
	what := assay.PercentileName(level) + " of " + name
	switch {
	case d.N == 0:
		return figure{why: "no request has a " + name}
	case !ok:
		return figure{why: what + " was not computed"}
	case !p.Held():
		return figure{why: what + " needs " + num(float64(p.Need)) + " effective samples and has " + num(math.Floor(d.Effective)) + ": run longer"}
	case !(p.Value > 0):
		return figure{why: what + " is not a time"}
	}
	return known(p.Value, what+" is not a time")
}

// tokensPerJoule is output tokens of the steady window over its joules.
func tokensPerJoule(s assay.StageSummary) figure {
	if why := noWindow(s); why != "" {
		return figure{why: why}
	}
	if s.Joules == nil {
		return figure{why: "no energy was read"}
	}
	if !(*s.Joules > 0) {
		return figure{why: "the energy read is not above zero"}
	}
	return known(steadyTokens(s) / *s.Joules, "the steady window has no tokens")
}

func steadySeconds(s assay.StageSummary) float64 {
	return max(0, float64(s.SteadyTo-s.SteadyFrom)/1e9)
}

// steadyTokens are the output tokens that arrived in the steady window.
func steadyTokens(s assay.StageSummary) float64 { return s.OutputTokensPerSecond * steadySeconds(s) }

// loadOf is the load of a stage as one number; ok is false for shapes that have
// none (a ramp, a trace, everything at once).
func loadOf(p assay.Stage) (v float64, ok bool) {
	switch p.Kind {
	case assay.LoadClosed:
		v = float64(p.Concurrency)
	case assay.LoadOpen:
		v = p.Rate
	case assay.LoadBatch:
		v = float64(p.Batch)
	}
	return v, v > 0
}

// atLoad picks the stages that ran at the baseline's load: several with
// repeated runs.
func atLoad(stages []assay.StageSummary, b *assay.Baseline) []assay.StageSummary {
	if b == nil || !(b.At > 0) {
		return nil
	}
	var out []assay.StageSummary
	for _, s := range stages {
		if v, ok := loadOf(s.Plan); ok && s.Plan.Kind == b.Load && math.Abs(v/b.At-1) <= loadTolerance {
			out = append(out, s)
		}
	}
	return out
}

// candidates are the stages that may be judged: those that came to their end,
// where there are any, and steps of a search only where there is nothing else.
func candidates(stages []assay.StageSummary) []assay.StageSummary {
	out := filter(stages, func(s assay.StageSummary) bool { return s.OK+s.Failed > 0 })
	if c := filter(out, func(s assay.StageSummary) bool { return s.Complete }); len(c) > 0 {
		out = c
	}
	if c := filter(out, func(s assay.StageSummary) bool { return !s.Plan.Probe }); len(c) > 0 {
		out = c
	}
	slices.SortFunc(out, func(a, b assay.StageSummary) int {
		return cmp.Or(cmp.Compare(a.Started, b.Started), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// windowed are the stages with a steady window, where there are any: the rates
// of a whole stage, with its fill-up and its end, are lower and not comparable.
func windowed(stages []assay.StageSummary) []assay.StageSummary {
	if w := filter(stages, func(s assay.StageSummary) bool { return s.Windowed() }); len(w) > 0 {
		return w
	}
	return stages
}

// best is the stage that shows what the node can do: the one with the highest
// goodput, among those that kept the objectives where some did, and among those
// with a steady window.
func best(stages []assay.StageSummary) (assay.StageSummary, bool) {
	c := candidates(stages)
	if kept := filter(c, func(s assay.StageSummary) bool { return s.Kept == assay.Pass && len(s.Objectives) > 0 }); len(kept) > 0 {
		c = kept
	}
	if len(c) == 0 {
		return assay.StageSummary{}, false
	}
	return slices.MaxFunc(windowed(c), func(a, b assay.StageSummary) int {
		return cmp.Or(cmp.Compare(a.GoodputPerSecond, b.GoodputPerSecond), cmp.Compare(a.OutputTokensPerSecond, b.OutputTokensPerSecond))
	}), true
}

func filter[T any](in []T, keep func(T) bool) []T {
	var out []T
	for _, v := range in {
		if keep(v) {
			out = append(out, v)
		}
	}
	return out
}

// middle joins repeated runs of one load: the median of each figure, and the
// replicates of all. A figure that one of them lacks is lacking.
func middle(all []figures) figures {
	if len(all) == 1 {
		return all[0]
	}
	join := func(get func(figures) figure) figure {
		var out figure
		var vs []float64
		for _, f := range all {
			g := get(f)
			if !g.ok {
				return figure{why: g.why}
			}
			vs = append(vs, g.v)
			out.reps = append(out.reps, g.reps...)
		}
		slices.Sort(vs)
		out.v, out.ok = vs[(len(vs)-1)/2]/2+vs[len(vs)/2]/2, true
		return out
	}
	return figures{
		stage:    all[0].stage,
		ttft:     join(func(f figures) figure { return f.ttft }),
		tpot:     join(func(f figures) figure { return f.tpot }),
		rate:     join(func(f figures) figure { return f.rate }),
		perJoule: join(func(f figures) figure { return f.perJoule }),
		fails:    join(func(f figures) figure { return f.fails }),
		cv:       join(func(f figures) figure { return f.cv }),
		steady:   join(func(f figures) figure { return f.steady }),
	}
}

// extreme is the figure that is highest of several stages; what is not known is
// passed over.
func extreme(all []figures, get func(figures) figure) figure {
	out := figure{why: "no stage was measured"}
	for _, f := range all {
		g := get(f)
		if g.ok && (!out.ok || g.v > out.v) || !g.ok && !out.ok {
			out = g
		}
	}
	return out
}

// lowest is the figure that is lowest of several stages; what is not known is
// passed over.
func lowest(all []figures, get func(figures) figure) figure {
	out := figure{why: "no stage was measured"}
	for _, f := range all {
		g := get(f)
		if g.ok && (!out.ok || g.v < out.v) || !g.ok && !out.ok {
			out = g
		}
	}
	return out
}
