package summary

import (
	"math"
	"testing"

	"github.com/assay-bench/assay"
)

// The one rule of what transport explains.
func TestWhatTransportExplains(t *testing.T) {
	five := 5.0
	for name, tt := range map[string]struct {
		what         string
		ours, theirs float64
		path         path
		want         assay.Verdict
	}{
		"requests are equal":                  {"requests", 400, 400, path{}, assay.Pass},
		"one request less":                    {"requests", 399, 400, path{}, assay.Fail},
		"one token more":                      {"output_tokens", 25601, 25600, path{}, assay.Fail},
		"first token later by HTTP":           {"ttft", 52, 42.8, path{inFlight: 8}, assay.Pass},
		"first token later than HTTP":         {"ttft", 66.8, 42.8, path{inFlight: 8}, assay.Fail},
		"first token before the engine's":     {"ttft", 41.7, 42.8, path{inFlight: 8}, assay.Fail},
		"first token before, within clocks":   {"ttft", 42, 42.8, path{inFlight: 8}, assay.Pass},
		"a crowd waits for the front end":     {"ttft", 39, 20, path{inFlight: 32}, assay.Pass},
		"a quarter of a long prompt":          {"ttft", 1240, 1000, path{inFlight: 1}, assay.Pass},
		"across an ocean":                     {"ttft", 150, 20, path{inFlight: 1, handshake: 120}, assay.Pass},
		"as late at the end as at the start":  {"e2e", 598, 593, path{first: &five, afterFirst: 550}, assay.Pass},
		"the end is lost":                     {"e2e", 560, 593, path{first: &five, afterFirst: 550}, assay.Fail},
		"later at the end than at the start":  {"e2e", 610, 593, path{first: &five, afterFirst: 550}, assay.Fail},
		"the end, without a first token":      {"e2e", 602, 593, path{afterFirst: 550}, assay.Pass},
		"before the end, without a first":     {"e2e", 591, 593, path{afterFirst: 550}, assay.Fail},
		"decoding within 2 %":                 {"after_first", 561, 551, path{}, assay.Pass},
		"decoding off by 2.1 %":               {"after_first", 539, 551, path{}, assay.Fail},
		"short decoding within half a ms":     {"after_first", 5.4, 5, path{}, assay.Pass},
		"a token's time within 2 %":           {"tpot", 8.6, 8.74, path{later: 63}, assay.Pass},
		"a token's time 10 % low":             {"tpot", 7.83, 8.74, path{later: 63}, assay.Fail},
		"two tokens have half a ms":           {"tpot", 5.4, 5, path{later: 1}, assay.Pass},
		"gaps 16 % high":                      {"gap", 10.2, 8.74, path{later: 63}, assay.Fail},
		"gaps equal":                          {"gap", 8.75, 8.74, path{later: 63}, assay.Pass},
		"with the queue in our time":          {"token_time", 12, 10, path{later: 64, queue: 150}, assay.Pass},
		"less than the engine took":           {"token_time", 9.7, 10, path{later: 64}, assay.Fail},
		"a prompt that waited in a queue":     {"prompt", 800, 46, path{inFlight: 8}, assay.Pass},
		"a prompt before it was read":         {"prompt", 40, 46, path{inFlight: 8}, assay.Fail},
		"a figure that is none is no pass":    {"tpot", math.NaN(), 8.74, path{later: 63}, assay.Unknown},
		"an infinite figure is no pass":       {"ttft", 5, math.Inf(1), path{}, assay.Unknown},
		"what nobody wrote a rule for is off": {"something", 5, 6, path{}, assay.Fail},
	} {
		t.Run(name, func(t *testing.T) {
			if got := compare(tt.what, "metrics", tt.ours, tt.theirs, tt.path); got.Verdict != tt.want {
				t.Errorf("%+v is %s, want %s", got, got.Verdict, tt.want)
			}
		})
	}
}
