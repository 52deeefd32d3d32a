package acceptance

import (
	"errors"
	"fmt"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
)

// A sample of the grid of loads, on the real simulator: answers of 0.68 s (50 ms
// and 63 gaps of 10 ms), and stages of a few seconds.
func TestWindowsOnTheSimulator(t *testing.T) {
	lengths := []string{"--backend", "openai", "--input-len", "32", "--output-len", "64"}
	for _, c := range []struct {
		name   string
		flags  []string
		window bool
	}{
		{"closed", []string{"--sweep", "8", "--duration", "5s"}, true},
		{"closed by count", []string{"--max-concurrency", "8", "--num-prompts", "60"}, true},
		{"poisson", []string{"--request-rate", "40", "--num-prompts", "240"}, true},
		{"constant", []string{"--request-rate", "40", "--burstiness", "inf", "--num-prompts", "200"}, true},
		{"too short", []string{"--request-rate", "40", "--num-prompts", "60"}, false},
		{"all at once", []string{"--num-prompts", "100"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			best(t, c.name, func() error {
				s := startSimulator(t)
				r, dir, sum := hammer(t, s, append(append([]string{}, lengths...), c.flags...)...)
				if r.exit != 0 || len(sum.Stages) != 1 {
					return fmt.Errorf("exit %d: %s", r.exit, r.stderr)
				}
				st := sum.Stages[0]
				offered, err := offered(dir, st)
				if err != nil {
					return err
				}
				say(t, "%s: %.1f tokens/s (%s), offered %.1f: %+.1f %%", c.name, st.OutputTokensPerSecond, st.RatesOf, offered, (st.OutputTokensPerSecond/offered-1)*100)
				switch {
				case st.Windowed() != c.window:
					return fmt.Errorf("rates of the %s: %s", st.RatesOf, st.WindowWhy)
				case c.window:
					return within("tokens a second", st.OutputTokensPerSecond, offered, 0.03)
				case st.WindowWhy == "" || !(st.OutputTokensPerSecond > 0 && st.OutputTokensPerSecond <= offered):
					return errors.New("without a window its rate is the whole run's, which is below what was offered, and it says why")
				}
				return nil
			})
		})
	}
}

// offered are the tokens that were really asked for, a second: of an open load
// by when they were sent, of a closed one by how long the streams had them. What
// was sent at once was offered in no time, and the first answer's rate stands
// for it.
func offered(dir string, st assay.StageSummary) (float64, error) {
	run, err := journal.Open(dir)
	if err != nil {
		return 0, err
	}
	var tokens, spent float64
	var first, last int64
	for r, err := range run.Requests() {
		if err != nil {
			return 0, err
		}
		if r.Stage != st.Name || r.First == 0 || r.Warmup && st.Plan.Kind != assay.LoadClosed {
			continue
		}
		if first == 0 || r.Sent < first {
			first = r.Sent
		}
		tokens, spent, last = tokens+float64(r.OutputTokens), spent+float64(r.End-r.Sent)/1e9, max(last, r.Sent)
	}
	if st.Plan.Kind == assay.LoadClosed {
		return float64(st.Plan.Concurrency) * tokens / spent, nil
	}
	if st.Plan.Rate == 0 {
		return tokens / (st.E2E.Min / 1e3), nil
	}
	n := float64(st.Requests)
	return tokens / (float64(last-first) / 1e9 * n / (n - 1)), nil
}
