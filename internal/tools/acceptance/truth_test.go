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
	MergedShare  float64   `json:"merged_read_share"`
	MeanTTFT     float64   `json:"mean_ttft_ms"`
	TrueMeanTTFT float64   `json:"true_mean_ttft_ms"`
	TTFTOff      float64   `json:"ttft_off"`
}

// Must show 1: what hammer says is what the simulator did.
func TestTruth(t *testing.T) {
	compare := tool(t, "truth")
	for _, c := range []struct {
		streams, rate, seconds int
		must, aim               func(truth) error
	}{
		{100, 100, 6, p99Within(1), p99Within(0.2)},
		{500, 100, 6, p99Within(1), p99Within(0.2)},
		{1000, 100, 8, both(medianAndMean(0.5, 3), ttftWithin(0.05)), p99Within(1)},
		{5000, 20, 20, medianAndMean(0.5, 3), p99Within(1)},
	} {
		name := fmt.Sprintf("%dx%d", c.streams, c.rate)
		t.Run(name, func(t *testing.T) {
			best(t, name, func() error {
				s := startSimulator(t, "--ttft", "50ms", "--itl", (time.Second / time.Duration(c.rate)).String())
				r, dir, sum := hammer(t, s, "--backend", "openai-chat", "--sweep", strconv.Itoa(c.streams),
					"--duration", fmt.Sprintf("%ds", c.seconds), "--input-len", "16", "--output-len", "128", "--allow-invalid")
				late := lateness(s.metrics(t))
				s.stop()
				if r.exit != 0 {
					return fmt.Errorf("hammer exits %d: %s", r.exit, r.stderr)
				}
				out := run(t, compare, "-run", dir, "-truth", s.truth)
				var tr truth
				if err := json.Unmarshal([]byte(out.stdout), &tr); err != nil {
					return fmt.Errorf("truth: %v %s", err, out.stderr)
				}
				st := sum.Stages[0]
				secs := float64(st.Ended-st.Started) / 1e9
				say(t, "%s: first token error p50 %.3f mean %.3f p99 %.3f ms (user time would say p50 %.3f mean %.3f p99 %.3f); later tokens p50 %.3f mean %.3f p99 %.3f ms; merged reads %.2f %%; mean TTFT %.2f against %.2f ms (%+.1f %%); %s; simulator late p99 <= %s, %.2f cores at %.0f tokens/s; client %.2f cores, CPU s per million tokens %.2f",
					name, tr.First.P50, tr.First.Mean, tr.First.P99, tr.ByUser.P50, tr.ByUser.Mean, tr.ByUser.P99,
					tr.Later.P50, tr.Later.Mean, tr.Later.P99, tr.MergedShare*100, tr.MeanTTFT, tr.TrueMeanTTFT, tr.TTFTOff*100,
					sum.Client.Certificate, late, s.cpu().Seconds()/secs, float64(tr.Tokens)/secs, r.cpu.Seconds()/secs, r.cpu.Seconds()/float64(tr.Tokens)*1e6)
				if tr.Failed > 0 || tr.Unmatched > 0 || tr.Requests < 2*c.streams {
					return fmt.Errorf("%d requests compared, %d failed, %d without a match; want at least two a stream, 0, 0", tr.Requests, tr.Failed, tr.Unmatched)
				}
				if cores := s.cpu().Seconds() / secs; cores > 1 {
					return fmt.Errorf("the simulator took %.2f cores", cores)
				}
				if err := c.aim(tr); err != nil {
					say(t, "%s: aim not reached: %v", name, err)
				} else {
					say(t, "%s: aim reached", name)
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

var bucket = regexp.MustCompile(`(?m)^assay_simulate_lateness_seconds_bucket\{[^}]*le="([^"]+)"\} (\d+)$`)

// lateness is the upper bound of the bucket that holds the 99th percentile of
// the simulator's own lateness.
func lateness(metrics string) string {
	m := bucket.FindAllStringSubmatch(metrics, -1)
	if len(m) == 0 {
		return "unknown"
	}
	total, _ := strconv.ParseFloat(m[len(m)-1][2], 64)
	for _, b := range m {
		if n, _ := strconv.ParseFloat(b[2], 64); n >= 0.99*total {
			return b[1] + " s"
		}
	}
	return "unknown"
}
