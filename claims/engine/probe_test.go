package engine

import (
	"errors"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/claims/probetest"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/simulate"
	"github.com/assay-bench/assay/simulate/simulatetest"
)

func TestProbesAreDescribed(t *testing.T) {
	probetest.Described(t, Probes())
	want := map[string]string{
		"ttft": "s lower", "ttfo": "s lower", "e2e": "s lower", "tpot": "s lower", "itl": "s lower",
		"output_tokens_per_second_per_user": "1/s higher", "requests_per_second": "1/s higher",
		"output_tokens_per_second": "1/s higher", "total_tokens_per_second": "1/s higher", "error_rate": "ratio lower",
	}
	for _, p := range Probes() {
		name := strings.TrimPrefix(p.Name, "inference/")
		if got := p.Unit + " " + p.Better.String(); got != want[name] {
			t.Errorf("%s: %s, want %s", p.Name, got, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("no probe for %v", want)
	}
}

// Every figure is summary's, over the requests of all runs, in the probe's unit.
func TestFiguresAreThoseOfSummary(t *testing.T) {
	one := answers(500)
	for _, l := range latencies() {
		t.Run(l.name, func(t *testing.T) {
			r := &latencyRunner{runs: play(t, one), latency: l}
			d := l.of(new(one.stage()))
			m, err := r.Sample(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			unit := func(v float64) float64 { return v / 1e3 }
			if l.perSecond {
				unit = func(v float64) float64 { return 1e3 / v }
			}
			if m.Batch != d.N || !same(m.Value, unit(d.Mean)) || m.Extra["run_requests"] != 500 || m.Extra["run_failed"] != 0 {
				t.Errorf("%+v; want the mean %g of %d", m, unit(d.Mean), d.N)
			}
			if got := r.Mean(); !same(got.Est, unit(d.Mean)) || !(got.Lo < got.Est && got.Est < got.Hi) {
				t.Errorf("mean %+v, want %g", got, unit(d.Mean))
			}
			for _, level := range []float64{50, 90, 95, 99} {
				p, _ := d.P(level)
				lo, hi, asked := unit(p.Lo), unit(p.Hi), level
				if l.perSecond {
					lo, hi, asked = hi, lo, 100-level
				}
				if got := r.Percentile(asked); !same(got.Est, unit(p.Value)) || !same(got.Lo, lo) || !same(got.Hi, hi) || got.Why != "" {
					t.Errorf("p%g: %+v, want %g in [%g %g]", asked, got, unit(p.Value), lo, hi)
				}
			}
			if low, high := r.Range(); !(low <= m.Value && m.Value <= high && low > 0) {
				t.Errorf("range %g to %g about %g", low, high, m.Value)
			}
			if _, err := r.Sample(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := r.Percentile(50); got.N != 2*d.N {
				t.Errorf("%d after two runs of %d", got.N, d.N)
			}
		})
	}
}

// The times are what the recording has: a wrong unit or field shows here.
func TestFiguresOfARecording(t *testing.T) {
	for name, want := range map[string]float64{"ttft": 0.0203, "ttfo": 0.0203, "e2e": 0.0834, "tpot": 0.001002, "itl": 0.001002, "output_tokens_per_second_per_user": 998} {
		r := &latencyRunner{runs: play(t, answers(100)), latency: latencyNamed(t, name)}
		if m, err := r.Sample(t.Context()); err != nil || !(math.Abs(m.Value/want-1) < 0.01) {
			t.Errorf("%s: %+v, %v; want %g", name, m, err, want)
		}
	}
}

// A run in which requests failed gives no good latency in silence, and a thin
// percentile keeps nothing.
func TestFailuresKeepNoLatencyPromise(t *testing.T) {
	for _, c := range []struct {
		name, probe string
		run         recording
		claim       string
		want        assay.Verdict
		why         string
	}{
		{"none failed", "ttft", answers(400), "metric: p99, target: <= 1s", assay.Pass, "the whole interval keeps <= 1s"},
		{"a few failed, and it is told", "ttft", answers(400).with(2, fail), "metric: p99, target: <= 1s", assay.Pass, "2 of 400 requests (0.5 %) failed"},
		{"more than one in a hundred failed", "ttft", answers(400).with(8, fail), "metric: p99, target: <= 1s", assay.Unknown, "8 of 400 requests (2 %) failed"},
		{"a median too", "ttft", answers(400).with(8, fail), "metric: p50, target: <= 1s", assay.Unknown, "keeps no promise"},
		{"a mean too", "e2e", answers(400).with(8, fail), "metric: mean, target: <= 1s", assay.Unknown, "keeps no promise"},
		{"and the time of a token", "itl", answers(400).with(8, fail), "metric: p50, target: <= 1s", assay.Unknown, "keeps no promise"},
		{"and a user's rate", "output_tokens_per_second_per_user", answers(400).with(8, fail), "metric: p50, target: '>= 1/s'", assay.Unknown, "keeps no promise"},
		{"and a throughput", "e2e", answers(400).with(8, fail), "metric: throughput, target: '>= 1/s'", assay.Unknown, "keeps no promise"},
		{"a high percentile may leave out less", "ttft", answers(4000).with(8, fail), "metric: p99.9, target: <= 1s", assay.Unknown, "more than 0.1 %"},
		{"what hung has failed as well", "ttft", answers(400).with(8, hang), "metric: p99, target: <= 1s", assay.Unknown, "did not end"},
		{"no answer is no good answer", "ttfo", answers(400).with(40, func(q *assay.Request) { q.NoAnswer = true }), "metric: p50, target: <= 1s", assay.Unknown, "had no such figure"},
		{"what the others break is broken", "ttft", answers(400).with(8, fail), "metric: p50, target: <= 1ms", assay.Fail, "the whole interval breaks"},
		{"thin", "ttft", answers(30), "metric: p99, target: <= 1s", assay.Unknown, "p99 needs 368"},
		{"thin, and far off", "ttft", answers(30), "metric: p99, target: <= 1ms", assay.Fail, "p99 needs 368"},
		{"a mean of a handful", "ttft", answers(3), "metric: mean, target: <= 1s", assay.Unknown, "too few"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := judged(t, probeNamed(t, c.probe), &latencyRunner{runs: play(t, c.run), latency: latencyNamed(t, c.probe)}, c.claim)
			if got.Verdict != c.want || !strings.Contains(got.Why, c.why) {
				t.Errorf("%v: %s\nwant %v and %q; %+v", got.Verdict, got.Why, c.want, c.why, got.Measured)
			}
		})
	}
}

// Failures are counted over requests: few requests without one show little.
func TestErrorRate(t *testing.T) {
	everything := answers(50).with(50, fail)
	everything.err = hammer.ErrNothingMeasured
	for _, c := range []struct {
		name string
		run  recording
		want assay.Verdict
		est  float64
	}{
		{"none of a thousand", answers(1000), assay.Pass, 0},
		{"none of forty", answers(40), assay.Unknown, 0},
		{"half", answers(1000).with(500, fail), assay.Fail, 0.5},
		{"all", everything, assay.Fail, 1},
		{"what we ended ourselves is not the engine's", answers(1000).with(20, hang), assay.Pass, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := judged(t, probeNamed(t, "error_rate"), &errorRunner{play(t, c.run)}, "metric: mean, target: <= 1%")
			if got.Verdict != c.want || !same(got.Measured.Est, c.est) {
				t.Errorf("%v of %+v, want %v of %g: %s", got.Verdict, got.Measured, c.want, c.est, got.Why)
			}
		})
	}
	if got := judged(t, probeNamed(t, "error_rate"), &errorRunner{play(t, answers(1000))}, "metric: p50, target: <= 1%"); got.Verdict != assay.Unknown || !strings.Contains(got.Why, "promise the mean") {
		t.Errorf("a percentile of failures: %v, %s", got.Verdict, got.Why)
	}
	// That nothing succeeded is no latency and no rate.
	for name, r := range map[string]claims.Runner{"ttft": &latencyRunner{play(t, everything), latencyNamed(t, "ttft")}, "requests_per_second": &rateRunner{play(t, everything), rates()[0]}} {
		if m, err := r.Sample(t.Context()); !errors.Is(err, claims.ErrUnavailable) || !errors.Is(err, hammer.ErrNothingMeasured) {
			t.Errorf("%s of nothing: %+v, %v", name, m, err)
		}
	}
}

// A run in which the client was the bottleneck says so, and none of it is kept.
func TestBottleneckedClientIsUnavailable(t *testing.T) {
	late := answers(100)
	late.client = assay.ClientSummary{Certificate: assay.Invalid, Cause: "cpu"}
	for _, p := range Probes() {
		r := play(t, late, answers(50))
		var runner claims.Runner = &errorRunner{r}
		name := strings.TrimPrefix(p.Name, "inference/")
		if i := slices.IndexFunc(rates(), func(m rate) bool { return m.name == name }); i >= 0 {
			runner = &rateRunner{r, rates()[i]}
		} else if name != "error_rate" {
			runner = &latencyRunner{r, latencyNamed(t, name)}
		}
		if m, err := runner.Sample(t.Context()); !errors.Is(err, claims.ErrUnavailable) || !strings.Contains(err.Error(), "the client was the bottleneck (cpu)") {
			t.Errorf("%s: %+v, %v", p.Name, m, err)
		}
		if _, err := runner.Sample(t.Context()); err != nil {
			t.Errorf("%s: the next run: %v", p.Name, err)
		}
		if r.all != nil {
			if s := r.all.Summary(); s.Requests != 50 {
				t.Errorf("%s: %d requests were kept", p.Name, s.Requests)
			}
		}
	}
}

// A run without a steady window is made again for twice as long, up to a bound,
// with other prompts each time.
func TestRatesNeedASteadyWindow(t *testing.T) {
	short := answers(50)
	short.noWindow = "it was too short"
	p := &player{all: []recording{short, short, answers(50)}}
	r := &rateRunner{p.runs(t).manyStreams(), rates()[0]}
	m, err := r.Sample(t.Context())
	if err != nil || m.Batch > 1 || !(m.Value > 0) {
		t.Fatalf("%+v, %v", m, err)
	}
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		if got := p.asked[i]; got.Load.Duration != assay.Duration(want) || got.Load.Concurrency != rateStreams || got.Seed != uint64(i)+1 {
			t.Errorf("run %d: %v at %d streams, seed %d", i, got.Load.Duration, got.Load.Concurrency, got.Seed)
		}
	}
	never := &rateRunner{play(t, short).manyStreams(), rates()[0]}
	if _, err := never.Sample(t.Context()); !errors.Is(err, claims.ErrUnavailable) || !strings.Contains(err.Error(), "it was too short") {
		t.Errorf("%v", err)
	}
}

func TestWithoutAnEngine(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + ln.Addr().String()
	_ = ln.Close()
	for _, p := range Probes() {
		if _, err := p.Start(t.Context(), claims.Env{Dir: t.TempDir(), EngineURL: url}); !errors.Is(err, claims.ErrUnavailable) {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

// An engine that is there gives samples whose counts are right and which are no
// faster than the engine is, or the reason why this machine could not measure it.
// It fails nothing: a run whose very first request fails is none.
func TestLiveEngine(t *testing.T) {
	url := simulatetest.Start(t, simulate.Config{TTFT: 20 * time.Millisecond, ITL: time.Millisecond}).URL
	for _, c := range []struct {
		probe     string
		low, high float64
	}{{"ttft", 0.019, 60}, {"requests_per_second", 1e-3, 200}, {"error_rate", 0, 0}} {
		t.Run(c.probe, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			r, err := probeNamed(t, c.probe).Start(t.Context(), claims.Env{Dir: dir, EngineURL: url, Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			m, err := r.Sample(t.Context())
			if cerr := r.Close(); cerr != nil {
				t.Error(cerr)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("the directory still holds %v", left)
			}
			if err != nil {
				if !errors.Is(err, claims.ErrUnavailable) || !strings.Contains(err.Error(), "bottleneck") {
					t.Fatal(err)
				}
				t.Log(err)
				return
			}
			if !(m.Value >= c.low && m.Value <= c.high) {
				t.Errorf("%g is not between %g and %g", m.Value, c.low, c.high)
			}
			if failed, all := m.Extra["run_failed"], m.Extra["run_requests"]; !(all > 0 && failed == 0) {
				t.Errorf("%g of %g requests failed, and none should", failed, all)
			}
			if d, ok := r.(claims.Distribution); ok && d.Mean().N == 0 {
				t.Error("nothing is known of it after Close")
			}
		})
	}
}
