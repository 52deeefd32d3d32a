package summary_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/summary"
)

// steady is a part whose tokens come evenly for ten seconds from a time on.
func steady(node string, from int64, tokensPerSecond float64) summary.Part {
	s := summary.StageShare{Name: "c4", Streams: 4, Started: from, From: from, To: from + 10*second, Requests: 10, Origin: from - second, Width: second / 10}
	for range 120 {
		s.Cells = append(s.Cells, [2]float64{tokensPerSecond / 10, 0.2})
	}
	return summary.Part{Node: node, Share: summary.Share{Stages: []summary.StageShare{s}}}
}

// What is summed is what happened at the same time, by the common clock, as far as
// clocks can tell.
func TestJoinSumsTheOverlap(t *testing.T) {
	a, b := steady("a", start, 100), steady("b", start-60*second+3*second, 50)
	b.Offset, b.Slack, a.Slack = 60*second, second/2, second/4
	all := summary.Join([]summary.Part{a, b})
	if len(all) != 1 {
		t.Fatalf("%d stages", len(all))
	}
	got := all[0]
	near(t, "tokens", got.Tokens.Est, 150, 1e-6)
	near(t, "requests", got.Finished.Est, 4, 1e-6)
	near(t, "overlap", float64(got.Overlap), 6.25e9, 1e-6) // b begins 3.5 s after a at the latest, and a ends a quarter early
	if got.Nodes != 2 || got.Streams != 8 || got.Requests != 20 || got.Tokens.N < 5 || !(got.Tokens.Lo <= 150 && got.Tokens.Hi >= 150) {
		t.Errorf("%+v", got)
	}
	one := summary.Join([]summary.Part{b})[0]
	near(t, "one alone", one.Tokens.Est, 50, 1e-6)
	near(t, "its window", float64(one.Overlap), 10e9, 1e-6)
}

// What did not happen at the same time is not summed, and the reason names whom.
func TestJoinRefusesSums(t *testing.T) {
	unknown := steady("b", start, 50)
	unknown.Why = "its clock was not compared"
	none := steady("b", start, 50)
	none.Stages[0].To, none.Stages[0].Why = 0, "too short"
	for want, b := range map[string]summary.Part{
		"the window of node a ends before that of node b begins": steady("b", start+20*second, 50),
		"node b cannot be compared: its clock":                   unknown,
		"node b has no steady window: too short":                 none,
		"needs one second":                                       steady("b", start+9500*ms, 50),
	} {
		got := summary.Join([]summary.Part{steady("a", start, 100), b})[0]
		if got.Tokens.Known() || got.Finished.Known() || got.Overlap != 0 || !strings.Contains(got.Tokens.Why, want) {
			t.Errorf("%s: %+v", want, got.Tokens)
		}
	}
	if got := summary.Join(nil); len(got) != 0 {
		t.Errorf("nobody gives %+v", got)
	}
}

// Percentiles are those of all requests together.
func TestJoinMergesDistributions(t *testing.T) {
	fast, slow := steady("a", start, 1), steady("b", start, 1)
	fast.Stages[0].TTFT = summary.Counted{Effective: 900, Counts: [][2]int64{{1000, 900}}}
	slow.Stages[0].TTFT = summary.Counted{Effective: 100, Counts: [][2]int64{{50_000, 100}}}
	got := summary.Join([]summary.Part{fast, slow})[0].TTFT
	p50, _ := got.P(50)
	p90, _ := got.P(90)
	p99, _ := got.P(99)
	if got.N != 1000 || p50.Value != 1 || p90.Value != 1 || p99.Value != 50 || !p99.Held() {
		t.Errorf("p50 %g p90 %g p99 %g of %d", p50.Value, p90.Value, p99.Value, got.N)
	}
}

// A run's share has its rate and its percentiles, also after it was stored.
func TestShareIsTheRun(t *testing.T) {
	m := newMade()
	rng := rand.New(rand.NewPCG(1, 2))
	m.span(assay.Stage{Name: "c2", Kind: assay.LoadClosed, Concurrency: 2, DurationNS: 20 * second}, start, start, start+20*second, start+21*second)
	for stream := 1; stream <= 2; stream++ {
		for at := start; at < start+20*second; {
			r := m.request("c2", at, (20+rng.Int64N(30))*ms, (5+rng.Int64N(5))*ms, 20)
			r.Stream = stream
			at = r.End + ms
		}
	}
	sum, share, err := summary.WithShare(m)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(share)
	if err != nil {
		t.Fatal(err)
	}
	p := summary.Part{Node: "a"}
	if err := json.Unmarshal(b, &p.Share); err != nil {
		t.Fatal(err)
	}
	got, want := summary.Join([]summary.Part{p})[0], sum.Stages[0]
	if !want.Windowed() {
		t.Fatal(want.WindowWhy)
	}
	if off := got.Tokens.Est/want.OutputTokensPerSecond - 1; !(math.Abs(off) <= 0.005) {
		t.Errorf("%g tokens a second, and %g", got.Tokens.Est, want.OutputTokensPerSecond)
	}
	for name, d := range map[string][2]assay.Dist{"ttft": {got.TTFT, want.TTFT}, "tpot": {got.TPOT, want.TPOT}, "e2e": {got.E2E, want.E2E}} {
		for _, level := range []float64{50, 99} {
			a, _ := d[0].P(level)
			b, _ := d[1].P(level)
			if off := a.Value/b.Value - 1; !(math.Abs(off) <= 0.004) || d[0].N != d[1].N {
				t.Errorf("%s p%g: %g of %d, and %g of %d", name, level, a.Value, d[0].N, b.Value, d[1].N)
			}
		}
	}
	if len(b) > 64<<10 {
		t.Errorf("the share of %d requests has %d bytes", len(m.requests), len(b))
	}
}
