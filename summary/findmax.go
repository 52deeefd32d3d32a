package summary

import (
	"fmt"
	"math"
	"slices"

	"github.com/assay-bench/assay"
)

// findMaxOf is the answer of a search for the highest load that keeps the
// objectives; nil when the run was no such search. The estimate is a load that
// was measured and kept them, not a point between.
//
// Stages near the limit can contradict each other. The answer is the boundary
// that contradicts the fewest of them, and of several the lowest.
func findMaxOf(search assay.Search, stages []assay.StageSummary) *assay.FindMax {
	var of string
	var kind assay.LoadKind
	load := func(p assay.Stage) float64 { return p.Rate }
	switch search {
	case assay.SearchMaxRate:
		of, kind = "rate", assay.LoadOpen
	case assay.SearchMaxConcurrency:
		of, kind = "concurrency", assay.LoadClosed
		load = func(p assay.Stage) float64 { return float64(p.Concurrency) }
	default:
		return nil
	}
	type probe struct {
		load float64
		pass bool
	}
	var probes []probe
	for i := range stages {
		s := &stages[i]
		if s.Plan.Kind != kind || !s.Complete || s.Kept == assay.Unknown || load(s.Plan) <= 0 {
			continue
		}
		probes = append(probes, probe{load(s.Plan), s.Kept == assay.Pass})
	}
	out := &assay.FindMax{Of: of}
	if len(probes) == 0 {
		out.Load = assay.UnknownQuantity("no stage could be decided")
		return out
	}
	slices.SortStableFunc(probes, func(a, b probe) int {
		switch {
		case a.load < b.load:
			return -1
		case a.load > b.load:
			return 1
		}
		return 0
	})
	// A boundary k says that probes[:k] keep and probes[k:] break. Stages of one
	// load lie on one side.
	best, fewest := 0, math.MaxInt
	for k := 0; k <= len(probes); k++ {
		if k > 0 && k < len(probes) && probes[k].load == probes[k-1].load {
			continue
		}
		against := 0
		for i, p := range probes {
			if p.pass != (i < k) {
				against++
			}
		}
		if against < fewest {
			best, fewest = k, against
		}
	}
	switch {
	case best == 0:
		out.Load = assay.UnknownQuantity(fmt.Sprintf("already the lowest load, %g, broke the objectives", probes[0].load))
	case best == len(probes):
		top := probes[best-1].load
		out.Load = assay.Quantity{N: len(probes), Est: top, Lo: top, Hi: math.NaN(),
			Why: "no load broke the objectives: the maximum lies higher"}
	default:
		lo, hi := probes[best-1].load, probes[best].load
		out.Load = assay.Quantity{N: len(probes), Est: lo, Lo: lo, Hi: hi}
	}
	if fewest > 0 && out.Load.Why == "" {
		out.Load.Why = fmt.Sprintf("%d of %d stages contradict this boundary", fewest, len(probes))
	}
	return out
}
