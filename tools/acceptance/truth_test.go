package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"
)

type errorDist struct {
	N                   int
	Mean, P50, P99, Max float64
}

type truth struct {
	Requests     int       `json:"requests"`
	Unmatched    int       `json:"unmatched"`
	Failed       int       `json:"failed"`
	Tokens       int       `json:"tokens"`
	First        errorDist `json:"first_token_error_ms"`
	ByUser       errorDist `json:"first_token_error_by_user_time_ms"`
	Later        errorDist `json:"later_token_error_ms"`
	All          errorDist `json:"token_error_ms"`
	OnTime       errorDist `json:"on_time_token_error_ms"`
	OnTimeFirst  errorDist `json:"on_time_first_token_error_ms"`
	OnTimeShare  float64   `json:"on_time_share"`
	OnTimeTTFT   float64   `json:"on_time_mean_ttft_ms"`
	OnTimeTrue   float64   `json:"on_time_true_mean_ttft_ms"`
	MergedShare  float64   `json:"merged_read_share"`
	MeanTTFT     float64   `json:"mean_ttft_ms"`
	TrueMeanTTFT float64   `json:"true_mean_ttft_ms"`
	TTFTOff      float64   `json:"ttft_off"`
}

// calm is the same without the moments at which the machine itself stood still,
// seen by the simulator's own writes being late: the form that a shared machine
// can be held to. The long run holds everything to its limits.
func (t truth) calm() truth {
	t.First, t.All = t.OnTimeFirst, t.OnTime
	t.MeanTTFT, t.TrueMeanTTFT = t.OnTimeTTFT, t.OnTimeTrue
	return t
}

// Must show 1: what hammer says is what the simulator did.
func TestTruth(t *testing.T) {
	compare := tool(t, "truth")
	for _, c := range []struct {
		streams, rate, seconds int
		must, aim              func(truth) error
	}{
		{100, 100, 6, p99Within(1), p99Within(0.2)},
		{500, 100, 6, p99Within(1), p99Within(0.2)},
		{1000, 100, 8, both(medianAndMean(0.5, 3), ttftWithin(0.05)), p99Within(1)},
		{5000, 20, 15, medianAndMean(0.5, 3), p99Within(1)}, // two answers of 6.4 s for each stream
	} {
		name := fmt.Sprintf("%dx%d", c.streams, c.rate)
		t.Run(name, func(t *testing.T) {
			best(t, name, func() error {
				itl := (time.Second / time.Duration(c.rate)).String()
				s := startSimulator(t, "--ttft", "50ms", "--itl", itl)
				r, dir, sum := hammer(t, s, "--backend", "openai-chat", "--sweep", strconv.Itoa(c.streams),
					"--duration", fmt.Sprintf("%ds", c.seconds), "--input-len", "16", "--output-len", "128", "--allow-invalid")
				late := lateness(s.metrics(t))
				s.stop()
				if r.exit != 0 {
					return fmt.Errorf("hammer exits %d: %s", r.exit, r.stderr)
				}
				out := run(t, compare, "-run", dir, "-truth", s.truth, "-itl", itl)
				var tr truth
				if err := json.Unmarshal([]byte(out.stdout), &tr); err != nil {
					return fmt.Errorf("truth: %v %s", err, out.stderr)
				}
				st := sum.Stages[0]
				secs := float64(st.Ended-st.Started) / 1e9
				say(t, "first token error p50 %.3f mean %.3f p99 %.3f ms; user time would say p50 %.3f mean %.3f p99 %.3f", tr.First.P50, tr.First.Mean, tr.First.P99, tr.ByUser.P50, tr.ByUser.Mean, tr.ByUser.P99)
				say(t, "all tokens error p50 %.3f mean %.3f p99 %.3f ms; merged reads %.2f %%; mean TTFT %.2f against %.2f ms (%+.1f %%), %s",
					tr.All.P50, tr.All.Mean, tr.All.P99, tr.MergedShare*100, tr.MeanTTFT, tr.TrueMeanTTFT, tr.TTFTOff*100, sum.Client.Certificate)
				say(t, "the %.1f %% of tokens that were written on time: error p50 %.3f mean %.3f p99 %.3f ms, first tokens p99 %.3f, mean TTFT %.2f against %.2f ms",
					tr.OnTimeShare*100, tr.OnTime.P50, tr.OnTime.Mean, tr.OnTime.P99, tr.OnTimeFirst.P99, tr.OnTimeTTFT, tr.OnTimeTrue)
				say(t, "simulator late p99 %s, %.2f cores at %.0f tokens/s; client %.2f cores", late, s.cpu().Seconds()/secs, st.OutputTokensPerSecond, r.cpu.Seconds()/secs)
				if tr.Failed > 0 || tr.Unmatched > 0 || tr.Requests < 2*c.streams {
					return fmt.Errorf("%d requests compared, %d failed, %d without a match; want at least two a stream, 0, 0", tr.Requests, tr.Failed, tr.Unmatched)
				}
				if cores := s.cpu().Seconds() / secs; !(cores <= 1) {
					return fmt.Errorf("the simulator took %.2f cores", cores)
				}
				if err := c.aim(tr); err != nil {
					say(t, "aim not reached: %v", err)
				} else {
					say(t, "aim reached")
				}
				if !long() {
					if tr.OnTime.N < 10_000 {
						return fmt.Errorf("the simulator was on time for %d tokens only", tr.OnTime.N)
					}
					tr = tr.calm()
				}
				return c.must(tr)
			})
		})
	}
}

func p99Within(ms float64) func(truth) error {
	return func(t truth) error {
		return errors.Join(limit("p99 error of the first token", t.First.P99, ms), limit("p99 error of all tokens", t.All.P99, ms))
	}
}

func medianAndMean(median, mean float64) func(truth) error {
	return func(t truth) error {
		return errors.Join(limit("median error of the first token", t.First.P50, median), limit("mean error of the first token", t.First.Mean, mean),
			limit("median error of all tokens", t.All.P50, median), limit("mean error of all tokens", t.All.Mean, mean))
	}
}

func ttftWithin(share float64) func(truth) error {
	return func(t truth) error { return within("mean TTFT", t.MeanTTFT, t.TrueMeanTTFT, share) }
}

func both(a, b func(truth) error) func(truth) error {
	return func(t truth) error { return errors.Join(a(t), b(t)) }
}

func limit(what string, ms, most float64) error {
	if !(ms <= most) {
		return fmt.Errorf("%s is %.3f ms, at most %g are allowed", what, ms, most)
	}
	return nil
}

var late99 = regexp.MustCompile(`(?m)^assay_simulate_lateness_quantile_seconds\{[^}]*quantile="0\.99"[^}]*\} (\S+)$`)

// lateness is the 99th percentile of the simulator's own lateness.
func lateness(metrics string) string {
	m := late99.FindStringSubmatch(metrics)
	if m == nil {
		return "unknown"
	}
	s, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%.2f ms", s*1000)
}
