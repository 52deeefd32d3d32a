package summary

import "github.com/assay-bench/assay"

// Hold judges an objective by a stage's figures, for whoever asks after the run: those
// that a run was started with are judged from its requests, which know more. A
// percentile that was not computed is unknown.
func Hold(s *assay.StageSummary, o assay.Objective) assay.Held {
	q := measured(s, o)
	return assay.Held{Objective: o, Measured: q, Verdict: verdict(q, o)}
}
