package compare

import (
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

func TestGates(t *testing.T) {
	withErrors := made(20, 1, 1)
	for i := range withErrors.Samples {
		if withErrors.Samples[i].Engine == "b" {
			withErrors.Samples[i].Metrics["error_rate"] = 0.03
		}
	}
	different := made(20, 1, 1)
	for i := range different.Samples {
		if different.Samples[i].Engine == "b" {
			different.Samples[i].OutputTokens = 99
		}
	}
	invalid := made(20, 1, 1)
	invalid.Samples[0].Client = assay.Invalid
	for _, test := range []struct {
		name, gate string
		e          Experiment
		want       assay.Verdict
	}{
		{"equals keep 5 %", "ttft_p50<=+5%", made(20, 1, 1), assay.Pass},
		{"a faster one keeps 0 %", "e2e_mean<=+0%", made(20, 1, 0.9), assay.Pass},
		{"20 % break 5 %", "ttft_ms_p50 <= +5%", made(20, 1, 1.2), assay.Fail},
		{"throughput breaks", "tokens/s>=-5%", made(20, 1, 1.2), assay.Fail},
		{"throughput keeps", "tokens/s>=-25%", made(20, 1, 1.1), assay.Pass},
		{"exactly the limit is undecided", "e2e_mean<=+5%", made(20, 1, 1.05), assay.Unknown},
		{"single runs decide nothing", "e2e_mean<=+50%", made(1, 1, 1), assay.Unknown},
		{"five rounds have no interval", "e2e_mean<=+50%", made(5, 1, 1), assay.Unknown},
		{"different work", "e2e_mean<=+50%", different, assay.Unknown},
		{"the client was the bottleneck", "e2e_mean<=+50%", invalid, assay.Unknown},
		{"not measured", "tokens_per_joule>=-5%", made(20, 1, 1), assay.Unknown},
		{"no errors", "error_rate<=+1%", made(20, 1, 1), assay.Pass},
		{"three in a hundred more", "error_rate<=+1%", withErrors, assay.Fail},
		{"one of two is broken", "ttft_p50<=+50%,tokens/s>=-5%", made(20, 1, 1.2), assay.Fail},
		{"one of two is undecided", "ttft_p50<=+50%,tokens_per_joule>=-5%", made(20, 1, 1.2), assay.Unknown},
		{"one of three engines breaks it", "e2e_mean<=+5%", made(20, 1, 1, 1.2), assay.Fail},
		{"one engine", "e2e_mean<=+5%", made(20, 1), assay.Unknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			gates, err := ParseGates(test.gate)
			if err != nil {
				t.Fatal(err)
			}
			held, got := CheckGates(test.e, Analyze(test.e), gates)
			if got != test.want {
				t.Errorf("%s, want %s: %+v", got, test.want, held)
			}
			for _, h := range held {
				if h.Verdict == "undecided" && h.Why == "" {
					t.Errorf("undecided without a reason: %+v", h)
				}
			}
		})
	}
	if _, got := CheckGates(made(20, 1, 1), Analyze(made(20, 1, 1)), nil); got != assay.Unknown {
		t.Errorf("no gates at all: %s", got)
	}
}

// A percentile that rests on too few requests is no ground for a pass or a fail,
// however many runs agree on it.
func TestAThinPercentileDecidesNoGate(t *testing.T) {
	requests := func(e Experiment, n, needed int) Experiment {
		for i := range e.Samples {
			e.Samples[i].Requests, e.Samples[i].OK = n, n
		}
		if needed > 0 {
			e.Samples[3].Needed = map[string]int{"ttft_ms_p99": needed}
		}
		return e
	}
	for _, test := range []struct {
		name, gate string
		e          Experiment
		want       assay.Verdict
		why        string
	}{
		{"kept by 60 requests", "ttft_p99<=+50%", made(20, 1, 1), assay.Unknown, "40 of its 40 runs have too few requests for a percentile that can be told: a run needs about 368"},
		{"broken by 60 requests", "ttft_p99<=+5%", made(20, 1, 2), assay.Unknown, "a run needs about 368"},
		{"of whole answers", "e2e_p99<=+5%", made(20, 1, 2), assay.Unknown, "a run needs about 368"},
		{"60 are enough for a median", "ttft_p50<=+5%", made(20, 1, 2), assay.Fail, ""},
		{"5 are not", "ttft_p50<=+5%", requests(made(20, 1, 2), 5, 0), assay.Unknown, "a run needs about 6"},
		{"kept by 400", "ttft_p99<=+50%", requests(made(20, 1, 1), 400, 0), assay.Pass, ""},
		{"broken by 400", "ttft_p99<=+5%", requests(made(20, 1, 2), 400, 0), assay.Fail, ""},
		{"400 that depend on each other, in one run", "ttft_p99<=+5%", requests(made(20, 1, 2), 400, 1200), assay.Unknown, "1 of its 40 runs have too few requests for a percentile that can be told: a run needs about 1200"},
		{"a mean needs none", "e2e_mean<=+5%", requests(made(20, 1, 2), 3, 0), assay.Fail, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			gates, err := ParseGates(test.gate)
			if err != nil {
				t.Fatal(err)
			}
			held, got := CheckGates(test.e, Analyze(test.e), gates)
			if got != test.want || len(held) != 1 || !strings.Contains(held[0].Why, test.why) {
				t.Errorf("%s, want %s because %q: %+v", got, test.want, test.why, held)
			}
		})
	}
}

func TestGatesThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "not a gate",
		"ttft_p99":                   "not a gate",
		"ttft_p99<=5%":               "not a gate", // of what? a sign says that it is a change
		"ttft_p99<=+5":               "not a gate",
		"ttft_p99<=+5ms":             "not a gate",
		"ttft_p98<=+5%":              "no metric",
		"ttft_p99>=-5%":              "better when lower",
		"tokens/s<=+5%":              "better when higher",
		"gpu_utilization_mean>=-5%":  "neither",
		"tokens/s>=-100%":            "nothing falls",
		"ttft_p99<=+5%,":             "not a gate",
		"ttft_p99<=+99999999999999%": "not a gate",
	} {
		if _, err := ParseGates(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
