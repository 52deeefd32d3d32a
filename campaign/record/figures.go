package record

import "github.com/assay-bench/assay"

// Figures are those of benchmark_manifest.
type Figures struct {
	// TokensPerSecond is nil when nothing was answered.
	TokensPerSecond *float64
	TotalRequests   int64
	ErrorCount      int64
	// Stage is the one that TokensPerSecond is of.
	Stage string
}

// FiguresOf is the one mapping of a summary to the figures of benchmark_manifest
// (docs/campaigns.md). total_requests are the judged requests that the engine ended,
// of all stages; error_count those of them that failed; tokens_per_second are the
// output tokens a second of the stage that has most of them, over its steady window,
// or the whole stage where it has none. Warm-ups, and requests that were cancelled,
// censored or never sent, count nowhere.
func FiguresOf(s assay.Summary) Figures {
	var f Figures
	for i := range s.Stages {
		st := &s.Stages[i]
		f.TotalRequests += int64(st.OK + st.Failed)
		f.ErrorCount += int64(st.Failed)
		if st.OK == 0 || !(st.OutputTokensPerSecond > 0) {
			continue
		}
		if f.TokensPerSecond == nil || st.OutputTokensPerSecond > *f.TokensPerSecond {
			rate := st.OutputTokensPerSecond
			f.TokensPerSecond, f.Stage = &rate, st.Name
		}
	}
	return f
}
