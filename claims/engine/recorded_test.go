package engine

import (
	"context"
	"iter"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/hammer"
	"github.com/assay-bench/assay/summary"
)

const (
	ms     = int64(1e6)
	second = int64(1e9)
)

// recording is a run that somebody made before: no clock of this machine is in it.
type recording struct {
	requests []assay.Request
	client   assay.ClientSummary
	err      error
	noWindow string
}

// answers are n requests one after the other, each of 64 tokens: 20 ms to the
// first, and 1 ms or a little more for each other.
func answers(n int) recording {
	var r recording
	for i := range n {
		at := second + int64(i)*100*ms
		q := assay.Request{Stage: "c1", Stream: 1, Scheduled: at, Eligible: at, Sent: at, First: at + 20*ms + int64(i%7)*ms/10, OutputTokens: 64, InputTokens: 256, TokensFrom: "usage"}
		q.Last = q.First
		for k := range 63 {
			gap := int32(1000 + (i+k)%5)
			q.Gaps = append(q.Gaps, gap)
			q.Last += int64(gap) * 1000
		}
		q.End = q.Last
		r.requests = append(r.requests, q)
	}
	r.client.Certificate = assay.Certified
	return r
}

// with changes the first k requests.
func (r recording) with(k int, change func(*assay.Request)) recording {
	for i := range k {
		change(&r.requests[i*len(r.requests)/k])
	}
	return r
}

func fail(q *assay.Request) {
	q.Error, q.First, q.Last, q.Gaps, q.OutputTokens = assay.FailStreamError, 0, 0, nil, 0
}

func hang(q *assay.Request) {
	fail(q)
	q.Error, q.End = assay.FailCensored, q.Sent+30*second
}

func (r recording) stage() assay.StageSummary {
	c := summary.NewCollector(assay.Stage{Name: "c1", Kind: assay.LoadClosed, Concurrency: 1}, assay.Judge{})
	c.Started(second)
	for i := range r.requests {
		c.Add(&r.requests[i])
	}
	s := c.Summary()
	s.Name = "c1"
	if s.RatesOf, s.WindowWhy = assay.RatesOfWindow, r.noWindow; r.noWindow != "" {
		s.RatesOf = assay.RatesOfWhole
	}
	return s
}

// player gives one recording after the other, the last one again and again, and
// keeps what was asked for.
type player struct {
	all   []recording
	asked []hammer.Config
}

func (p *player) runs(t *testing.T) *runs {
	t.Helper()
	return &runs{dir: t.TempDir(), measure: func(_ context.Context, cfg hammer.Config, _ string) (assay.Summary, iter.Seq2[*assay.Request, error], error) {
		r := p.all[min(len(p.asked), len(p.all)-1)]
		p.asked = append(p.asked, cfg)
		return assay.Summary{Client: r.client, Stages: []assay.StageSummary{r.stage()}}, func(yield func(*assay.Request, error) bool) {
			for i := range r.requests {
				if !yield(&r.requests[i], nil) {
					return
				}
			}
		}, r.err
	}}
}

func play(t *testing.T, all ...recording) *runs { return (&player{all: all}).runs(t) }

func latencyNamed(t *testing.T, name string) latency {
	t.Helper()
	for _, l := range latencies() {
		if l.name == name {
			return l
		}
	}
	t.Fatalf("no latency %s", name)
	return latency{}
}

// judged runs one claim on a runner, as assay claims does.
func judged(t *testing.T, probe claims.Probe, runner claims.Runner, claim string) claims.ClaimResult {
	t.Helper()
	probe.Start = func(context.Context, claims.Env) (claims.Runner, error) { return runner, nil }
	file := "claims:\n  - {name: c, probe: " + probe.Name + ", " + claim + "}\n"
	suite, err := claims.Read(strings.NewReader(file), "claims.yaml", claims.Catalog{Probes: []claims.Probe{probe}})
	if err != nil {
		t.Fatal(err)
	}
	var r *claims.Result
	synctest.Test(t, func(t *testing.T) {
		r, err = claims.Run(t.Context(), suite, claims.Options{Samples: 1, MaxSamples: 6000, Env: claims.Env{Dir: t.TempDir()}, Patience: time.Hour})
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.Claims[0]
}

func probeNamed(t *testing.T, name string) claims.Probe {
	t.Helper()
	for _, p := range Probes() {
		if p.Name == "inference/"+name {
			return p
		}
	}
	t.Fatalf("no probe %s", name)
	return claims.Probe{}
}

func same(a, b float64) bool {
	return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-12*math.Abs(b)
}
