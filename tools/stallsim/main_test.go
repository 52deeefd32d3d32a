package main

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/load"
)

var (
	stalling = engine{
		ttft: 50 * time.Millisecond, itl: 10 * time.Millisecond, tokens: 16,
		stallAt: 8 * time.Second, stallFor: 2 * time.Second,
	}
	honest = assay.Stage{
		Name: "stall", Kind: assay.LoadOpen, Rate: 200, Burstiness: 1, Concurrency: 64,
		DurationNS: int64(20 * time.Second), GraceNS: int64(10 * time.Second),
	}
)

// The generator in virtual time gives what the event simulation gives, request
// by request and to the nanosecond.
func TestGeneratorAgrees(t *testing.T) {
	late := stalling
	late.stallAt = 19 * time.Second
	uncapped := honest
	uncapped.Concurrency = 0
	counted := honest
	counted.DurationNS, counted.Requests = 0, 4000
	for _, tc := range []struct {
		name   string
		stage  assay.Stage
		engine engine
		o      load.Options
	}{
		{"capped", honest, stalling, load.Options{Seed: 1}},
		{"another seed", honest, stalling, load.Options{Seed: 2}},
		{"uncapped", uncapped, stalling, load.Options{Seed: 1}},
		{"a number of requests", counted, stalling, load.Options{Seed: 1, VLLM: true}},
		{"stall over the end", honest, late, load.Options{Seed: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want, err := simulate(tc.stage, tc.o, tc.engine)
			if err != nil {
				t.Fatal(err)
			}
			got := generate(t, tc.stage, tc.o, tc.engine)
			if len(got) != len(want) {
				t.Fatalf("%d requests, want %d", len(got), len(want))
			}
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("request %d: %+v, want %+v", i, got[i], want[i])
				}
			}
			t.Logf("%+v", reduce(want))
		})
	}
}

// generate runs the real generator against the law in virtual time.
func generate(t *testing.T, stage assay.Stage, o load.Options, e engine) []call {
	var requests []*assay.Request
	var begin int64
	synctest.Test(t, func(t *testing.T) {
		s, err := load.Of(stage, o)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		begin = time.Now().UnixNano()
		g := &load.Generator{
			Do: func(ctx context.Context, r *assay.Request) {
				r.Sent = time.Now().UnixNano()
				sent := time.Duration(r.Sent - begin)
				first, last := e.token(sent, 0), e.token(sent, e.tokens-1)
				time.Sleep(last - sent)
				r.First, r.Last = begin+int64(first), begin+int64(last)
			},
			Record: func(r *assay.Request) {
				mu.Lock()
				defer mu.Unlock()
				requests = append(requests, r)
			},
		}
		res := g.Run(t.Context(), stage, s)
		if res.Interrupted || res.Censored != 0 || res.Issued != len(requests) {
			t.Errorf("result %+v for %d requests", res, len(requests))
		}
	})
	slices.SortFunc(requests, func(a, b *assay.Request) int { return a.Prompt - b.Prompt })
	var calls []call
	for _, r := range requests {
		if r.Error == assay.FailNeverSent {
			calls = append(calls, call{scheduled: time.Duration(r.Scheduled - begin), neverSent: true})
			continue
		}
		if lag := r.SendLag(); lag != 0 {
			t.Errorf("request %s: a send lag of %d ns; waiting for the cap is none", r.ID, lag)
		}
		calls = append(calls, call{
			scheduled: time.Duration(r.Scheduled - begin), sent: time.Duration(r.Sent - begin),
			first: time.Duration(r.First - begin), last: time.Duration(r.Last - begin),
		})
	}
	return calls
}

// By send time the stall is nearly invisible at p90; by intended time it is not.
func TestStallIsHiddenFromSendTime(t *testing.T) {
	calls, err := simulate(honest, load.Options{Seed: 1}, stalling)
	if err != nil {
		t.Fatal(err)
	}
	r := reduce(calls)
	if !(r.TTFT["p90"] > 0 && r.TTFT["p90"] <= 55 && r.TTFTIntended["p90"] >= 900) {
		t.Errorf("p90 of ttft %v, of ttft_intended %v; want about 50 and above 900", r.TTFT["p90"], r.TTFTIntended["p90"])
	}
	if r.LateSent < 400 || r.NeverSent != 0 || !(r.TTFTIntended["p50"] > 0 && r.TTFTIntended["p50"] <= 55) {
		t.Errorf("%+v", r)
	}
}

func TestPercentiles(t *testing.T) {
	v := make([]float64, 200)
	for i := range v {
		v[i] = float64(200 - i)
	}
	got := percentiles(v)
	if got["p50"] != 100 || got["p90"] != 180 || got["p95"] != 190 || got["p99"] != 198 {
		t.Errorf("%v", got)
	}
	if got := percentiles([]float64{7}); got["p50"] != 7 || got["p99"] != 7 {
		t.Errorf("%v", got)
	}
}
