package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/internal/parttest"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/network/trust/fingerprint"
	"github.com/assay-bench/assay/simulate"
	"github.com/assay-bench/assay/simulate/simulatetest"
	"github.com/assay-bench/assay/stat"
	"github.com/assay-bench/assay/tools/stillness"
)

// maxDisturbance is by how much a check in the background may change the p99 of the
// time to the first token of customers' requests.
const maxDisturbance = 1.05

// beside is an experiment: customers' requests at a steady rate, and pairs of windows
// of which one has a check beside them.
type beside struct {
	url    string
	rate   float64 // customers' requests a second
	window time.Duration
	pairs  int
	check  func(ctx context.Context, d time.Duration) error
	strict bool // a pair in which the machine stood still is made again
}

// span is a window by the clock, in nanoseconds.
type span struct{ from, to int64 }

// ratios are p99 with a check ÷ p99 without, pair by pair. Which of the two comes
// first alternates, so that what drifts is on both sides.
func (b beside) ratios(t *testing.T) ([]float64, error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	dir := filepath.Join(t.TempDir(), "customers")
	ended := make(chan error, 1)
	go func() { ended <- b.customers(ctx, dir) }()
	rest(ctx, time.Second) // the first requests open connections
	var pairs []pair
	quiet := 0
	for i := 0; quiet < b.pairs && i < maxTurns*b.pairs; i++ {
		p, err := b.turn(ctx, i%2 == 0)
		if err != nil {
			return nil, err
		}
		if pairs = append(pairs, p); b.counts(p) {
			quiet++
		}
	}
	stop()
	<-ended // that it was interrupted is no error; what it lacks is seen below
	requests, err := firstTokens(dir)
	if err != nil {
		return nil, err
	}
	var out []float64
	for i, p := range pairs {
		x, y := p99(requests, p.with), p99(requests, p.without)
		t.Logf("pair %d: p99 of the time to the first token %.2f ms with a check, %.2f ms without; the machine stood still for %s at most", i+1, x, y, p.stall.Round(100*time.Microsecond))
		if !(x > 0 && y > 0) {
			return nil, fmt.Errorf("pair %d has too few requests for a p99", i+1)
		}
		if b.counts(p) {
			out = append(out, x/y)
		}
	}
	if len(out) < b.pairs {
		return nil, fmt.Errorf("the machine stood still for more than %s in %d of %d pairs", maxStall, len(pairs)-len(out), len(pairs))
	}
	return out, nil
}

// Where the machine itself stands still, whoever comes then waits, with a check or
// without: such a pair says nothing, and is made again, by what a thread of realtime
// priority sees, which a check cannot delay.
const (
	maxStall = 10 * time.Millisecond
	maxTurns = 3 // so many times as many pairs at most
)

// pair is two windows, one of which has a check in it.
type pair struct {
	with, without span
	stall         time.Duration // the longest time in which the machine stood still
}

func (b beside) counts(p pair) bool { return !b.strict || p.stall <= maxStall }

// turn plays a pair.
func (b beside) turn(ctx context.Context, checkLast bool) (p pair, err error) {
	seen := stillness.Watch()
	for _, check := range []bool{!checkLast, checkLast} {
		from, to := time.Now(), &p.without
		if check {
			to, err = &p.with, b.check(ctx, b.window)
		} else {
			rest(ctx, b.window)
		}
		*to = span{from.UnixNano(), time.Now().UnixNano()}
		rest(ctx, 500*time.Millisecond) // what is under way ends
	}
	p.stall = seen().Longest
	return p, err
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// customers sends requests at a steady rate until ctx ends.
func (b beside) customers(ctx context.Context, dir string) error {
	c := hammer.DefaultConfig()
	c.URL, c.Scenario = b.url, nil
	c.Load = hammer.Load{Mode: hammer.ModeOpen, Rate: b.rate, Duration: assay.Duration(2 * time.Hour), Grace: assay.Duration(time.Second)}
	c.Data.InputTokens, c.Data.OutputTokens = 64, 16
	if err := hammer.Resolve(ctx, &c); err != nil {
		return err
	}
	_, err := hammer.Run(ctx, c, dir, hammer.Options{Version: assay.Version{Assay: "test"}})
	return err
}

type first struct {
	sent int64
	ms   float64
}

func firstTokens(dir string) (out []first, err error) {
	run, err := journal.Open(dir)
	if err != nil {
		return nil, err
	}
	for r, err := range run.Requests() {
		if err != nil {
			return nil, err
		}
		if r.Sent > 0 && r.First > 0 && !r.Warmup {
			out = append(out, first{r.Sent, float64(r.First-r.Sent) / 1e6})
		}
	}
	return out, nil
}

// p99 is that of the requests that were sent within a window; NaN: they are too few.
func p99(all []first, w span) float64 {
	var in []float64
	for _, r := range all {
		if r.sent >= w.from && r.sent < w.to {
			in = append(in, r.ms)
		}
	}
	if len(in) < 100 {
		return math.NaN()
	}
	slices.Sort(in)
	return in[int(math.Ceil(0.99*float64(len(in))))-1]
}

// disturbs judges ratios by the interval of their median: good, where a check is shown
// to disturb by no more than it may.
func disturbs(t *testing.T, what string, ratios []float64) error {
	t.Helper()
	logs := make([]float64, len(ratios))
	for i, r := range ratios {
		logs[i] = math.Log(r)
	}
	s := stat.HodgesLehmann(logs, 0.95)
	lo, hi := math.Exp(s.Lo), math.Exp(s.Hi)
	gate := stat.NonInferiority(lo, hi, maxDisturbance)
	parttest.Figure(t, "%s: p99 of the time to the first token with a check ÷ without: %.3f (95 %% interval %.3f to %.3f, %d pairs of windows): at most %.2f is %s", what, math.Exp(s.Est), lo, hi, s.N, maxDisturbance, gate)
	if gate != stat.Kept {
		return fmt.Errorf("%s: a check in the background changes p99 by %+.1f %% (%+.1f to %+.1f %%): %s", what, 100*(math.Exp(s.Est)-1), 100*(lo-1), 100*(hi-1), gate)
	}
	return nil
}

// agentCheck is what the agent does where the engine is busy; where it is not, it has
// as many streams as its scenario says.
func agentCheck(t *testing.T, url string, busy bool, streams int) func(context.Context, time.Duration) error {
	t.Helper()
	o, dir, n := checkOptions(t), t.TempDir(), 0
	return func(ctx context.Context, d time.Duration) error {
		n++
		c := CheckConfig{
			Engine: Engine{BaseURL: url}, GPU: GPUNone, Busy: busy, Beside: busy, Streams: 1, Clock: Skew{Known: true},
			Scenario: assay.Scenario{Name: "beside", Pattern: "parallel", Levels: []int{streams}, Duration: assay.Duration(d), Grace: assay.Duration(time.Second)},
		}
		_, err := Check(ctx, c, filepath.Join(dir, fmt.Sprint(n)), o)
		return err
	}
}

// A check on a node that serves traffic steps back: asked for 64 streams on an engine
// with 32 slots, it disturbs customers' requests less than one that does not. In the
// long form it changes the p99 of their time to the first token by at most 5 %, which
// needs more time, and a machine with nothing else to do.
func TestRealNetworkBackground(t *testing.T) {
	const streams = 64
	e := simulate.DefaultConfig()
	e.Law, e.Batching = simulate.LawBatching, simulate.DefaultBatching()
	e.Batching.Slots = streams / 2
	if err := e.Like("vllm"); err != nil {
		t.Fatal(err)
	}
	b := beside{url: simulatetest.Start(t, e).URL, rate: 60, window: 4 * time.Second, pairs: 1}
	load := agentCheck(t, b.url, false, streams)
	b.check = func(ctx context.Context, d time.Duration) error {
		_ = load(ctx, d) // so much load that it may be too little time for a result of its own
		return nil
	}
	heavy, err := b.ratios(t)
	if err != nil {
		t.Fatal(err)
	}
	b.check = agentCheck(t, b.url, true, streams)
	if os.Getenv("ASSAY_LONG") == "1" {
		b.window, b.pairs, b.strict = 12*time.Second, 12, true
		stillness.Timed(t, "a check beside traffic, simulator", func() error {
			ratios, err := b.ratios(t)
			if err != nil {
				return err
			}
			return disturbs(t, "simulator", ratios)
		})
		return
	}
	light, err := b.ratios(t)
	if err != nil {
		t.Fatal(err)
	}
	parttest.Figure(t, "p99 of the time to the first token is %.2f times as long beside a check that steps back, and %.1f times beside one that does not", light[0], heavy[0])
	if light[0] >= heavy[0] {
		t.Errorf("a check that steps back makes p99 %.2f times as long, and one that does not %.2f times", light[0], heavy[0])
	}
}

// The same on the real vLLM, which it starts: the agent's check, and the server's
// comparison with a reference.
func TestRealNetworkBackgroundOfVLLM(t *testing.T) {
	if os.Getenv("ASSAY_LONG") != "1" {
		t.Skip("it takes half an hour: ASSAY_LONG=1")
	}
	dir := t.TempDir()
	serve := filepath.Join(parttest.Scripts(t), "vllm-serve")
	defer parttest.Run(t, nil, serve, "stop", dir)
	url := parttest.Run(t, nil, serve, "start", dir)
	b := beside{url: url, rate: 10, window: 30 * time.Second, pairs: 12, strict: true, check: agentCheck(t, url, true, 8)}
	engine := &fingerprint.Engine{Client: &http.Client{Timeout: time.Minute}, URL: url, Model: "tiny"}
	ref := fingerprint.New("tiny", fingerprint.Prompts([32]byte{4}, 64), time.Now())
	if err := ref.Record(t.Context(), engine, "here", fingerprint.MinRuns, time.Now(), func(int) {}); err != nil {
		t.Fatal(err)
	}
	for what, check := range map[string]func(context.Context, time.Duration) error{
		"vLLM, the agent's check":       b.check,
		"vLLM, the server's comparison": func(ctx context.Context, d time.Duration) error { return compare(ctx, ref, engine, d) },
	} {
		b.check = check
		stillness.Timed(t, what, func() error {
			ratios, err := b.ratios(t)
			if err != nil {
				return err
			}
			return disturbs(t, what, ratios)
		})
	}
}

// compare compares with a reference for as long as a window is: much more often than
// a server does.
func compare(ctx context.Context, ref *fingerprint.Reference, e *fingerprint.Engine, d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end); {
		f, err := fingerprint.Check(ctx, ref, e, fingerprint.DefaultPrompts, 1)
		if err != nil {
			return err
		}
		if f.Verdict != assay.Pass {
			return errors.New(f.Text)
		}
	}
	return nil
}
