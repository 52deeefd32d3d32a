package summary

import (
	"fmt"
	"math"
	"slices"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// findMaxOf is the answer of a search for the highest load that keeps the
// objectives; nil when the run was no such search. The estimate is a load that
// was tested and kept them, or an edge, and no point between; it is judged from
// the stages in the same way as the search itself did (see [stat.Levels]).
func findMaxOf(search assay.Search, stages []assay.StageSummary) *assay.FindMax {
	out := &assay.FindMax{Of: "rate"}
	kind := assay.LoadOpen
	load := func(p assay.Stage) float64 { return p.Rate }
	switch search {
	case assay.SearchMaxRate:
	case assay.SearchMaxConcurrency:
		out.Of, kind = "concurrency", assay.LoadClosed
		load = func(p assay.Stage) float64 { return float64(p.Concurrency) }
	default:
		return nil
	}
	var probes []stat.Probe
	var names []string
	why := "no stage was completed"
	for i := range stages {
		s := &stages[i]
		if s.Plan.Kind != kind || !s.Complete || load(s.Plan) <= 0 {
			continue
		}
		e := EvidenceOf(s)
		if e.Short != "" {
			why = fmt.Sprintf("%s: %s", s.Name, e.Short)
		}
		probes = append(probes, stat.Probe{Load: load(s.Plan), Trials: e.Trials, Behind: e.Behind, Void: e.Short != ""})
		names = append(names, s.Name)
	}
	levels := stat.Levels(probes)
	for _, l := range levels {
		out.Levels = append(out.Levels, levelOf(l, names))
	}
	out.Load, out.Edge = answer(levels, len(probes), why)
	return out
}

func levelOf(l stat.Level, names []string) assay.SearchLevel {
	out := assay.SearchLevel{Load: l.Load, Verdict: l.Verdict.String(), Stages: []string{}, Requests: l.Requests, Violations: l.Violations}
	for _, i := range l.Stages {
		out.Stages = append(out.Stages, names[i])
	}
	if l.SetAside >= 0 {
		out.SetAside = names[l.SetAside]
	}
	return out
}

// answer is where the boundary lies. why is said when no stage counts.
func answer(levels []stat.Level, n int, why string) (load assay.Quantity, edge bool) {
	b := stat.BoundaryOf(levels)
	q := assay.Quantity{N: n, Est: b.Kept.Load, Lo: b.Kept.Load, Hi: b.Broken.Load}
	if math.IsInf(q.Hi, 1) {
		q.Hi = math.NaN()
	}
	i := slices.IndexFunc(levels, func(l stat.Level) bool { return l.Verdict == stat.LevelUndecided })
	switch {
	case b.Edge.Load > 0:
		q.Est = b.Edge.Load
		if q.Lo = below(levels, b.Edge.Load); q.Lo == 0 {
			q.Lo = math.NaN()
		}
		q.Why = fmt.Sprintf("%d stages at this load did not tell it from the limit: %d violations in %d requests",
			len(b.Edge.Stages), b.Edge.Violations, b.Edge.Requests)
		return q, true
	case i >= 0 && b.Kept.Load > 0:
		q.Why = undecided(levels[i], why)
	case i >= 0:
		return assay.UnknownQuantity(undecided(levels[i], why)), false
	case b.Kept.Load > 0 && math.IsNaN(q.Hi) && leaning(levels) > 0:
		q.Why = fmt.Sprintf("the search ended before it was decided whether %g breaks the objectives", leaning(levels))
	case b.Kept.Load > 0 && math.IsNaN(q.Hi):
		q.Why = "no load broke the objectives: the maximum lies higher"
	case b.Kept.Load > 0:
	case len(b.Broken.Stages) > 0 && levels[0].Load == b.Broken.Load:
		return assay.UnknownQuantity(fmt.Sprintf("already the lowest load, %g, broke the objectives", b.Broken.Load)), false
	case slices.ContainsFunc(levels, func(l stat.Level) bool { return len(l.Stages) > 0 }):
		return assay.UnknownQuantity("the search ended before any load was shown to keep the objectives"), false
	default:
		return assay.UnknownQuantity(why), false
	}
	return q, false
}

// leaning is the lowest load that something speaks against and that is not
// decided; 0: there is none.
func leaning(levels []stat.Level) float64 {
	for _, l := range levels {
		if l.Verdict == stat.LevelOpen && (l.Leans || l.SetAside >= 0 && len(l.Stages) == 0) {
			return l.Load
		}
	}
	return 0
}

// below is the highest load under an edge that nothing spoke against.
func below(levels []stat.Level, edge float64) (load float64) {
	for _, l := range levels {
		if l.Load < edge && len(l.Stages) > 0 && (l.Verdict == stat.LevelKept || l.Verdict == stat.LevelOpen && !l.Leans) {
			load = l.Load
		}
	}
	return load
}

func undecided(l stat.Level, why string) string {
	switch {
	case len(l.Stages) == 0:
		return why
	case l.Lacks > 0:
		return fmt.Sprintf("%d stages at load %g had %d requests, too few to decide: steps about %.1f times as long would (--duration)",
			len(l.Stages), l.Load, l.Requests, 1+l.Lacks)
	}
	return fmt.Sprintf("%d stages at load %g did not decide", len(l.Stages), l.Load)
}
