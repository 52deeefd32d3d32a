package summary_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/assay-bench/assay"
)

// latencies is a run of requests that are all alike, so that each figure is the
// same as that of one request, which can be worked out by hand. Eight tokens:
// two at first, three after 200 ms and one more at the same moment, and two
// after 300 ms more, in a read that the client merged.
func latencies() *made {
	m := newMade()
	m.span(assay.Stage{Name: "l", Kind: assay.LoadOpen, Rate: 0.5, Concurrency: 4, DurationNS: 20 * second}, start, start, start+20*second, start+21*second)
	for i := range int64(10) {
		at := start + i*2*second
		r := m.request("l", at, 0, 0, 1)
		r.Eligible, r.Sent = at+4*ms, at+10*ms // held by the cap for 4 ms, and late by 6 ms of our own
		r.First, r.Answer = r.Sent+100*ms, r.Sent+300*ms
		r.Gaps, r.ChunkTokens = []int32{200_000, 0, assay.MarkGap(300_000)}, []int32{2, 3, 1, 2}
		r.Last, r.OutputTokens = r.First+500*ms, 8
		r.End = r.Last
		r.InputTokens, r.CachedTokens = 50, 20
		r.Reads, r.MergedReads, r.BurstReads, r.BurstChunks = 8, 2, 1, 3
	}
	m.request("l", start+19*second, 0, 0, 1).Error = assay.FailHTTP5xx
	m.request("l", start+19*second, 0, 0, 1).Error = assay.FailCancelled
	for range 3 {
		*m.request("l", start, 0, 0, 1) = assay.Request{ID: "n", Stage: "l", Scheduled: start + 19*second, Error: assay.FailNeverSent}
	}
	for i := range 5 {
		m.request("l", start+19*second+int64(i), 0, 0, 1).Error = assay.FailCensored
	}
	m.readings = append(m.readings, assay.Reading{At: start + second, Name: "client_lag_us", Counts: []int64{100, 9, 1000, 1}})
	return m
}

// throughput is one stream whose requests take a second, for 20.048 s: the
// window is from its first token at 96 ms on, and has twenty requests of ten
// tokens. One of them failed, and one took a millisecond too long.
func throughput() *made {
	m := newMade()
	m.manifest.Judge.Goodput = []assay.Limit{{Metric: "e2el", MaxMS: 996}}
	m.span(assay.Stage{Name: "t", Kind: assay.LoadClosed, Concurrency: 1, DurationNS: 20048 * ms}, start, start, start+20048*ms, start+21*second)
	for i := range int64(21) {
		r := m.request("t", start+i*second, 96*ms, 100*ms, 10)
		r.Stream, r.InputTokens = 1, 50
		switch i {
		case 5:
			r.Error = assay.FailHTTP5xx
		case 7:
			r.Sent -= ms
		}
	}
	return m
}

// scale is an engine of two slots, which thrashes at eight streams.
func scale() *made {
	m := newMade()
	from := start
	for _, c := range []struct{ n, e2e int64 }{{1, 200}, {2, 200}, {4, 400}, {8, 1600}} {
		m.closed(fmt.Sprint("c", c.n), int(c.n), from, 80*second, 0, c.e2e*ms/4, c.e2e*ms/16, 13)
		from += 120 * second
	}
	return m
}

// Every metric of the table is what its sentence says, worked out by hand.
func TestEveryMetricIsWhatItsSentenceSays(t *testing.T) {
	type value struct{ got, want float64 }
	all := of(t, latencies())
	l := all.Stages[0]
	r := of(t, throughput()).Stages[0]
	sc := of(t, scale()).Scaling
	if !r.Windowed() || r.SteadyFrom != start+96*ms || sc == nil {
		t.Fatalf("steady from %d ms: %s", (r.SteadyFrom-start)/ms, r.WindowWhy)
	}
	const window = 20.048 - 0.096
	mean := func(d assay.Dist, want float64) []value { return []value{{d.Mean, want}, {p(t, d, 50), want}} }
	one := func(got, want float64) []value { return []value{{got, want}} }
	cases := map[string][]value{
		"ttft_ms":          mean(l.TTFT, 100),
		"ttft_intended_ms": mean(l.TTFTIntended, 110),
		"ttfo_ms":          mean(l.TTFO, 300),
		"tpot_ms":          {{l.TPOT.Mean, 500.0 / 6}},
		// Of six tokens after the first arrival one waited 200 ms, one 300 ms,
		// which is a bound only, and the others came with them.
		"itl_ms":           {{l.ITL.Mean, 500.0 / 6}, {p(t, l.ITL, 50), 0}, {p(t, l.ITL, 99), 200}, {l.ITL.Max, 300}, {float64(l.ITL.N), 60}},
		"arrival_gap_ms":   {{l.ArrivalGap.Mean, 250}, {p(t, l.ArrivalGap, 99), 200}, {float64(l.ArrivalGap.N), 20}},
		"e2e_ms":           mean(l.E2E, 600),
		"e2e_intended_ms":  mean(l.E2EIntended, 610),
		"error_rate":       one(l.ErrorRate, 1.0/11), // of those that the engine ended
		"late_sent":        one(float64(l.LateSent), 10),
		"never_sent":       one(float64(l.NeverSent), 3),
		"censored":         one(float64(l.Censored), 5),
		"input_tokens":     mean(l.InputTokens, 50),
		"output_tokens":    mean(l.OutputTokens, 8),
		"cached_tokens":    one(float64(l.CachedTokens), 200),
		"marked_gap_share": one(l.MarkedGapShare, 1.0/3),
		// The seven others that were sent have a read each.
		"burst_share":       one(l.BurstShare, 10.0/(80+7)),
		"burst_chunks_mean": one(l.BurstChunksMean, 3),
		"lag_us":            {{all.Client.LagUS.Mean, 190}, {p(t, all.Client.LagUS, 90), 100}},
		"send_lag_us":       {{all.Client.SendLag.Max, 6000}, {p(t, all.Client.SendLag, 50), 6000}},
		"merged_share":      one(all.Client.MergedShare, 20.0/(80+7)),

		"requests_per_second":               one(r.RequestsPerSecond, 19/window),
		"output_tokens_per_second":          one(r.OutputTokensPerSecond, 200/window),
		"total_tokens_per_second":           one(r.TotalTokensPerSecond, (200+20*50)/window),
		"goodput_requests_per_second":       one(r.GoodputPerSecond, 18/window),
		"good_share":                        one(r.GoodShare, 19.0/21),
		"output_tokens_per_second_per_user": one(r.TokensPerUser, 10),
		"whole_requests_per_second":         one(r.WholeRequestsPerSecond, 20/20.996),
		"whole_output_tokens_per_second":    one(r.WholeOutputTokensPerSecond, 210/20.996),

		// Five requests a second of 0.2 s at one stream, ten at most.
		"knee":        one(sc.Knee.Est, 10*0.2),
		"cliff":       one(sc.Cliff.Est, 4+4*(10-9)/5.0),
		"degradation": one(sc.Points[2].Degradation, 10/(4*5.0)),
	}
	for _, m := range assay.Metrics() {
		if m.In != "" {
			continue // of another document
		}
		values, ok := cases[m.Name]
		if !ok {
			t.Errorf("no run was worked out for %s: %s", m.Name, m.Help)
		}
		delete(cases, m.Name)
		for _, v := range values {
			tol := 1e-6
			if m.Unit == "streams" || m.Name == "degradation" {
				tol = 0.01 // of windows that cut through requests
			}
			if !(math.Abs(v.got-v.want) <= tol*math.Abs(v.want)) {
				t.Errorf("%s is %v and %v by hand: %s", m.Name, v.got, v.want, m.Help)
			}
		}
	}
	for name := range cases {
		t.Errorf("%s is not in the table", name)
	}
}
