package summary

import (
	"testing"

	"github.com/assay-bench/assay"
)

// What hung, or had no answer, is in no percentile, and must not let an
// objective pass that it would break.
func TestSurvivorsDoNotPassForAll(t *testing.T) {
	objective := func(s string) assay.Judge {
		o, err := assay.ParseObjective(s)
		if err != nil {
			t.Fatal(err)
		}
		return assay.Judge{Objectives: []assay.Objective{o}}
	}
	const sec = int64(1e9)
	run := func(judge assay.Judge, change func(i int, r *assay.Request)) assay.Held {
		c := NewCollector(assay.Stage{Name: "c16", Kind: assay.LoadClosed, Concurrency: 16, DurationNS: 60 * sec}, judge)
		c.Started(sec)
		for i := range 840 {
			at := sec + int64(i)*60*sec/840
			r := &assay.Request{Stream: i%16 + 1, Scheduled: at, Sent: at, First: at + sec/10, Last: at + sec, End: at + sec, OutputTokens: 10,
				Gaps: []int32{100_000, 100_000, 100_000, 100_000, 100_000, 100_000, 100_000, 100_000, 100_000}}
			change(i, r)
			c.Add(r)
		}
		c.LoadEnd(61 * sec)
		c.Ended(62 * sec)
		return c.Summary().Objectives[0]
	}
	hang := func(every int) func(int, *assay.Request) {
		return func(i int, r *assay.Request) {
			if i%every == 0 {
				r.Error, r.First, r.Last, r.Gaps, r.OutputTokens, r.End = assay.FailCensored, 0, 0, nil, 0, r.Sent+30*sec
			}
		}
	}
	for _, tt := range []struct {
		name, objective string
		change          func(int, *assay.Request)
		want            assay.Verdict
	}{
		{"nothing hung", "e2e_p99<2s", func(int, *assay.Request) {}, assay.Pass},
		{"12 of 840 hung", "e2e_p99<2s", hang(70), assay.Unknown},
		{"42 of 840 hung", "e2e_p99<2s", hang(20), assay.Fail},
		{"1 of 840 hung", "e2e_p90<2s", hang(840), assay.Pass},
		{"most never saw an answer", "ttfo_p90<500ms", func(i int, r *assay.Request) { r.NoAnswer = i%10 != 0 }, assay.Fail},
		{"a mean that leaves out what hung", "e2e_mean<2s", hang(20), assay.Fail},
		{"answers that came all at once", "tpot_p90<200ms", func(i int, r *assay.Request) {
			if i%2 == 0 {
				r.First, r.Gaps, r.ChunkTokens = r.Last, nil, []int32{10}
			}
		}, assay.Unknown},
	} {
		if got := run(objective(tt.objective), tt.change); got.Verdict != tt.want {
			t.Errorf("%s: %s is %v, want %v: %+v", tt.name, tt.objective, got.Verdict, tt.want, got.Measured)
		}
	}
}

// The pace of an answer that came all at once is unknown, and so not good.
func TestAnUnknownPaceIsNotGood(t *testing.T) {
	limit, err := assay.ParseLimit("tpot:5")
	if err != nil {
		t.Fatal(err)
	}
	c := NewCollector(assay.Stage{Name: "c1", Kind: assay.LoadClosed, Concurrency: 1}, assay.Judge{Goodput: []assay.Limit{limit}})
	for _, tt := range []struct {
		tokens int
		want   bool
	}{{1, true}, {100, false}} {
		r := &assay.Request{Sent: 1, First: 2e9, Last: 2e9, End: 2e9, OutputTokens: tt.tokens}
		if tt.tokens > 1 {
			r.ChunkTokens = []int32{int32(tt.tokens)}
		}
		if got := c.keepsLimits(r); got != tt.want {
			t.Errorf("%d tokens at once: good %v", tt.tokens, got)
		}
	}
}
