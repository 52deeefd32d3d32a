package compare

// AnalysisKey is one member of the analysis in a configuration.
type AnalysisKey struct {
	Key     string
	Default string   // as a file would have it; empty: there is none
	Values  []string // all that it may be; nil: what Help says
	Help    string
}

// Members that advice needs and may find missing.
const (
	keyPrice = "price_per_hour"
	keySLO   = "slo"
)

// AnalysisKeys is the one table of them, in the order of docs/compare-engines.md.
// Package experiment checks configurations by it and takes its defaults, and what
// is missing for an answer is called by these names.
func AnalysisKeys() []AnalysisKey {
	yesNo := []string{"true", "false"}
	return []AnalysisKey{
		{"confidence_level", "0.95", nil, "of the intervals; the level of all tests together is 1 − it, unless `experiment.level` says another"},
		{"significance_test", testSignedRank, []string{testSignedRank, testMannWhitney}, "the test: by rounds as blocks, or without them"},
		{"adjust", adjustHolm, []string{adjustHolm, adjustBonf}, "how p is adjusted for the number of tests"},
		{keyPrice, "", nil, "what an hour of the machine costs, a decimal number with at most nine decimals, by engine; `default` is for all others: `{default: 0.35, vllm: 2.50}`. Without it cost is not answered"},
		{"currency", "USD", nil, "of those prices, up to 8 letters; nothing is converted"},
		{keySLO, "", nil, "objectives that runs are compared with: `[ttft_p99<200ms, error_rate<1%]`. Cost is given only where every run kept them. Without them performance tiers are not answered"},
		{"remove_outliers", "false", yesNo, "adds a trimmed mean to the tables; nothing is removed ([ADR 10](adr/010-outliers-are-marked.md))"},
		{"outlier_threshold", "", nil, "read, and answered with a note: runs are marked by Tukey's fences, and no number of standard deviations removes any"},
		{"generate_plots", "true", yesNo, "the PNG files"},
		{"export_raw_data", "true", yesNo, "read; `raw_data` is written in any case, since the analysis is made from it"},
	}
}

// AnalysisKeyOf is the row of a key; the zero row when there is none.
func AnalysisKeyOf(key string) AnalysisKey {
	for _, k := range AnalysisKeys() {
		if k.Key == key {
			return k
		}
	}
	return AnalysisKey{}
}
