package summary_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/summary"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol*math.Abs(want)+1e-12) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// An engine of 50 ms and 10 ms with 8 streams: every figure is known.
func TestClosedLoopTruth(t *testing.T) {
	m := newMade()
	m.closed("c8", 8, start, 60*second, 5*second, 50*ms, 10*ms, 128)
	s := of(t, m)
	st := s.Stages[0]
	e2e := 50 + 10*127.0
	for what, got := range map[string]float64{"p50": p(t, st.TTFT, 50), "p99": p(t, st.TTFT, 99), "mean": st.TTFT.Mean, "intended": st.TTFTIntended.Mean, "ttfo": st.TTFO.Mean} {
		near(t, "ttft "+what, got, 50, 1e-9)
	}
	near(t, "tpot", p(t, st.TPOT, 50), 10, 1e-9)
	near(t, "itl", p(t, st.ITL, 99), 10, 1e-9)
	near(t, "e2e", st.E2E.Mean, e2e, 1e-9)
	near(t, "requests/s", st.RequestsPerSecond, 8/(e2e/1e3), 0.02)
	near(t, "tokens/s", st.OutputTokensPerSecond, 8*128/(e2e/1e3), 0.003)
	near(t, "total tokens/s", st.TotalTokensPerSecond, 8*228/(e2e/1e3), 0.01)
	near(t, "tokens/s a user", st.TokensPerUser, 100, 1e-9)
	near(t, "goodput", st.GoodputPerSecond, st.RequestsPerSecond, 0)
	near(t, "product", *st.Little.Product, 8, 1e-3)
	near(t, "gauge", *st.Little.Gauge, 8, 0)
	if !(math.Abs(*st.Little.Off) <= 1e-3) || len(s.Warnings) != 0 {
		t.Errorf("off %v, warnings %v", *st.Little.Off, s.Warnings)
	}
	if st.Requests+st.Warmups != len(m.requests) || st.OK != st.Requests || st.ErrorRate != 0 || st.GoodShare != 1 || !st.Complete || s.Status != assay.StatusComplete {
		t.Errorf("%+v", st)
	}
	if st.ITL.N != 127*st.OK || st.ArrivalGap.N != st.ITL.N || st.TokensFrom != "usage" {
		t.Errorf("%d gaps, tokens from %s", st.ITL.N, st.TokensFrom)
	}
	if st.Kept != assay.Unknown || s.Scaling != nil || s.FindMax != nil {
		t.Error("a judgement that nobody asked for")
	}
	if s.Client.Certificate != assay.Certified {
		t.Errorf("client: %+v", s.Client)
	}
}

// Tokens count when they arrive, and a request by the share of its tokens: of
// requests that are long against the window, that which lies outside is left
// out.
func TestTokensCountByArrival(t *testing.T) {
	one := assay.Stage{Name: "a", Kind: assay.LoadClosed, Concurrency: 1, DurationNS: 25 * second}
	m := newMade()
	m.span(one, start, start, start+25*second, start+31*second)
	for i := range int64(3) {
		m.request("a", start+i*10050*ms, 50*ms, 10*ms, 1001) // 100 tokens a second for 10 s
	}
	st := of(t, m).Stages[0]
	// From the first token on, and of the last request what came in 4.85 s.
	near(t, "tokens/s", st.OutputTokensPerSecond, (2*1001+485)/24.95, 1e-3)
	near(t, "requests/s", st.RequestsPerSecond, (2+485.0/1001)/24.95, 1e-3)
	near(t, "whole tokens/s", st.WholeOutputTokensPerSecond, 3003/30.15, 1e-9)

	// Chunks of several tokens: usage says 60, the chunks come 1, 2 and 3 s after
	// the request, and the load ends between the second and the third one's.
	rate := func(chunks []int32) float64 {
		m := newMade()
		one.DurationNS = 11500 * ms
		m.span(one, start, start, start+11500*ms, start+12*second)
		for i := range int64(4) {
			r := m.request("a", start+i*3*second, second, second, 3)
			r.OutputTokens, r.ChunkTokens = 60, chunks
		}
		return of(t, m).Stages[0].OutputTokensPerSecond
	}
	near(t, "by the engine's word", rate([]int32{10, 20, 30}), (3*60+30)/10.5, 1e-9)
	near(t, "by equal shares", rate(nil), (3*60+40)/10.5, 1e-9)
	near(t, "scaled to usage", rate([]int32{1, 4, 1}), (3*60+50)/10.5, 1e-9)
}

func TestWarmupsFailuresAndCaps(t *testing.T) {
	m := newMade()
	m.manifest.Judge.Goodput = []assay.Limit{{Metric: "ttft", MaxMS: 60}, {Metric: "tpot", MaxMS: 20}, {Metric: "e2el", MaxMS: 400}}
	m.span(assay.Stage{Name: "o", Kind: assay.LoadOpen, Rate: 10, Concurrency: 4, DurationNS: 6900 * ms}, start, start+second, start+7900*ms, start+12*second)
	at := func(i int) int64 { return start + second + int64(i)*100*ms }
	for i := range 60 {
		m.request("o", at(i), 50*ms, 10*ms, 16)
	}
	m.requests[0].Warmup = true
	m.requests[1].Warmup = true
	m.request("o", at(60), 70*ms, 10*ms, 16) // too slow to begin
	m.request("o", at(61), 50*ms, 30*ms, 11) // too slow a token
	m.request("o", at(62), 50*ms, 10*ms, 40) // too long
	m.request("o", at(63), 50*ms, 10*ms, 1)  // one token has no tpot to break
	late := m.request("o", at(64), 50*ms, 10*ms, 16)
	late.Scheduled -= 500 * ms
	fail := func(i int, f assay.Failure) *assay.Request {
		r := m.request("o", at(i), 900*ms, 10*ms, 16)
		r.Error = f
		return r
	}
	fail(65, assay.FailHTTP5xx)
	fail(66, assay.FailTimeout)
	fail(67, assay.FailCensored)
	never := fail(68, assay.FailNeverSent)
	*never = assay.Request{ID: "n", Stage: "o", Scheduled: at(68), Error: assay.FailNeverSent}
	s := of(t, m)
	st := s.Stages[0]
	if st.Requests != 67 || st.Warmups != 2 || st.OK != 63 || st.Failed != 2 || st.LateSent != 1 || st.NeverSent != 1 || st.Censored != 1 {
		t.Errorf("requests %d warmups %d ok %d failed %d late %d never %d censored %d", st.Requests, st.Warmups, st.OK, st.Failed, st.LateSent, st.NeverSent, st.Censored)
	}
	near(t, "error rate", st.ErrorRate, 2.0/65, 1e-12)
	near(t, "good share", st.GoodShare, 60.0/65, 1e-12)
	_, requests := m.within("o", st.SteadyFrom, st.SteadyTo)
	seconds := float64(st.SteadyTo-st.SteadyFrom) / 1e9
	near(t, "requests/s", st.RequestsPerSecond, requests/seconds, 3e-3)
	near(t, "goodput", st.GoodputPerSecond, (requests-3)/seconds, 3e-3)
	near(t, "whole requests/s", st.WholeRequestsPerSecond, 63/7.55, 1e-9) // to the last token, a failed request's
	near(t, "slowest", st.TTFT.Max, 70, 1e-9)                             // no failure is in the latencies
	near(t, "slowest intended", st.TTFTIntended.Max, 550, 1e-9)
	if st.TTFT.N != 63 || st.TPOT.N != 62 {
		t.Errorf("%d ttft, %d tpot", st.TTFT.N, st.TPOT.N)
	}
	for _, kind := range []string{"held_by_cap", "never_sent", "censored"} {
		if !warned(s, kind) {
			t.Errorf("no warning %s in %v", kind, s.Warnings)
		}
	}
	if s.Client.Certificate != assay.Certified {
		t.Errorf("waiting for the cap spoils the certificate: %+v", s.Client)
	}
}

func TestMarkedGapsStayOut(t *testing.T) {
	m := newMade()
	m.span(assay.Stage{Name: "a", Kind: assay.LoadClosed, Concurrency: 1}, start, start+1, start+second, start+second)
	r := m.request("a", start+2, 50*ms, 10*ms, 5)
	// One read brought the third and the fourth token: 20 ms are a bound for the
	// third, and the fifth is 10 ms after the fourth.
	r.Gaps = []int32{9_000, assay.MarkGap(20_000), assay.MarkGap(0), 11_000}
	s := of(t, m)
	st := s.Stages[0]
	for what, d := range map[string]assay.Dist{"itl": st.ITL, "arrival gaps": st.ArrivalGap} {
		if p(t, d, 50) != 9 || p(t, d, 99) != 11 || d.Max != 20 {
			t.Errorf("%s: %+v", what, d)
		}
	}
	near(t, "mean itl", st.ITL.Mean, 10, 1e-9)                    // 40 ms for four tokens: nothing is left out
	near(t, "mean arrival gap", st.ArrivalGap.Mean, 40.0/3, 1e-9) // between four arrivals
	if st.ITL.N != 4 || st.ArrivalGap.N != 3 || st.MarkedGapShare != 0.5 || !warned(s, "marked_gaps") {
		t.Errorf("itl %+v, share %v", st.ITL, st.MarkedGapShare)
	}
	// All of them marked: a mean is known, and no percentile.
	r.Gaps, r.OutputTokens = []int32{assay.MarkGap(10_000), assay.MarkGap(30_000)}, 3
	if st := of(t, m).Stages[0]; len(st.ITL.Percentiles) != 0 || st.ITL.Mean != 20 || st.ArrivalGap.Mean != 20 {
		t.Errorf("%+v, %+v", st.ITL, st.ArrivalGap)
	}
	r.Gaps, r.FirstMerged, r.OutputTokens = []int32{assay.MarkGap(0), 10_000, 10_000, 20_000}, true, 5
	if st := of(t, m).Stages[0]; st.ITL.N != 3 || st.ITL.Min != 10 || p(t, st.ITL, 99) != 20 {
		t.Errorf("tokens of the first arrival have no gap, and the one after it counts: %+v", st.ITL)
	}
}

// Of k tokens that arrive together one has the gap and the others have none, so
// that mean ITL is total time over tokens, whatever the chunks; tokens of the
// first arrival are in neither.
func TestTokensTogetherShareAGap(t *testing.T) {
	m := newMade()
	m.span(assay.Stage{Name: "a", Kind: assay.LoadClosed, Concurrency: 1}, start, start+1, start+second, start+second)
	r := m.request("a", start+2, 50*ms, 0, 5)
	r.Gaps, r.ChunkTokens, r.OutputTokens = []int32{0, 30_000, 0, 60_000}, []int32{2, 1, 4, 1, 3}, 11
	r.Last = r.First + 90*ms
	st := of(t, m).Stages[0]
	near(t, "itl", st.ITL.Mean, 90.0/8, 1e-9)
	near(t, "tpot", st.TPOT.Mean, 90.0/8, 1e-6)
	near(t, "arrival gap", st.ArrivalGap.Mean, 45, 1e-9)
	if st.ITL.N != 8 || p(t, st.ITL, 50) != 0 || p(t, st.ITL, 99) != 60 || st.ArrivalGap.N != 2 {
		t.Errorf("itl %+v, arrival gaps %+v", st.ITL, st.ArrivalGap)
	}
	// Requests before and after it whose tokens come alone are in both.
	for range 3 {
		m.request("a", start+2, 50*ms, 45*ms, 5)
	}
	m.requests[0], m.requests[2] = m.requests[2], m.requests[0]
	st = of(t, m).Stages[0]
	if st.ITL.N != 8+12 || st.ArrivalGap.N != 2+12 || st.ArrivalGap.Max != 60 {
		t.Errorf("itl %+v, arrival gaps %+v", st.ITL, st.ArrivalGap)
	}
	near(t, "arrival gap", st.ArrivalGap.Mean, 45, 1e-9)
	m.requests[0], m.requests[2] = m.requests[2], m.requests[0]
	m.requests = m.requests[:1]
	r = &m.requests[0]
	// Usage says more than the chunks: the rest came with them.
	r.OutputTokens = 21
	near(t, "itl by usage", of(t, m).Stages[0].ITL.Mean, 90.0/18, 1e-9)
}

// Reads whose chunks the engine sent together are its bursts, and no fault of
// the client.
func TestBurstsAreTheEngines(t *testing.T) {
	m := newMade()
	m.closed("c", 2, start, 20*second, 0, 50*ms, 10*ms, 16)
	for i := range m.requests {
		m.requests[i].Reads, m.requests[i].BurstReads, m.requests[i].BurstChunks = 8, 4, 12
	}
	s := of(t, m)
	if st := s.Stages[0]; st.BurstShare != 0.5 || st.BurstChunksMean != 3 || s.Client.Certificate != assay.Certified {
		t.Errorf("share %v, %v chunks, %+v", st.BurstShare, st.BurstChunksMean, s.Client)
	}
}

func TestWarnings(t *testing.T) {
	base := func() *made {
		m := newMade()
		m.closed("c", 2, start, 20*second, 0, 50*ms, 10*ms, 16)
		return m
	}
	for kind, alter := range map[string]func(*made){
		"": func(*made) {},
		"token_count_disagrees": func(m *made) {
			for i := range m.requests {
				m.requests[i].OutputTokens = 17
			}
		},
		"tokens_mixed": func(m *made) { m.requests[3].TokensFrom = "chunks" },
		"output_length": func(m *made) {
			for i := range m.requests {
				m.requests[i].AskedOutput = 16 + i%20/19
			}
		},
		"little": func(m *made) {
			for i := range m.readings {
				v := 2.1
				m.readings[i].Value = &v
			}
		},
		"clock_step":  func(m *made) { m.requests[5].ClockStep = true },
		"time_order":  func(m *made) { m.requests[5].First = m.requests[5].Sent - 5 },
		"torn_line":   func(m *made) { m.torn = []string{"requests.jsonl: torn"} },
		"engine_down": func(m *made) { m.event(start+second, assay.EventEngineDown, "c") },
	} {
		m := base()
		alter(m)
		s := of(t, m)
		if kind == "" {
			if len(s.Warnings) != 0 {
				t.Errorf("a clean run has %v", s.Warnings)
			}
		} else if !warned(s, kind) || len(s.Warnings) != 1 {
			t.Errorf("want %s alone, got %v", kind, s.Warnings)
		}
	}
	// Several tokens a chunk explain the difference.
	m := base()
	for i := range m.requests {
		r := &m.requests[i]
		r.OutputTokens, r.ChunkTokens = 32, make([]int32, 16)
		for k := range r.ChunkTokens {
			r.ChunkTokens[k] = 2
		}
	}
	if s := of(t, m); len(s.Warnings) != 0 {
		t.Errorf("chunk tokens explain it, and yet %v", s.Warnings)
	}
	// A clock step's request is counted, and is no latency.
	m = base()
	m.requests[5].ClockStep, m.requests[5].First = true, start+3600*second
	if st := of(t, m).Stages[0]; st.TTFT.Max != 50 || st.OK != len(m.requests) {
		t.Errorf("ttft up to %v, %d ok", st.TTFT.Max, st.OK)
	}
}

func TestEngineTimings(t *testing.T) {
	m := newMade()
	m.span(assay.Stage{Name: "a", Kind: assay.LoadClosed, Concurrency: 1}, start, start+1, start+second, start+second)
	for i := range int64(3) {
		r := m.request("a", start+2+i*300*ms, 50*ms, 10*ms, 16)
		// The engine says 9 ms a token over 14 of the 15 intervals.
		r.Engine = &assay.EngineTimings{Eval: 14 * 9 * ms, EvalTokens: 15, EvalIntervals: 14, Prompt: 40 * ms, Load: ms}
	}
	e := of(t, m).Stages[0].Engine
	if e == nil || e.OursOverTheirs == nil {
		t.Fatal("no figures of the engine")
	}
	near(t, "ratio", *e.OursOverTheirs, 10.0/9, 1e-9)
	near(t, "tpot", p(t, e.TPOT, 50), 9, 1e-9)
	near(t, "prompt", p(t, e.Prompt, 50), 40, 1e-9)
	near(t, "load", p(t, e.Load, 50), 1, 1e-9)
}

// A collector that is fed as requests end says what Of says afterwards.
func TestLiveEqualsAfterwards(t *testing.T) {
	m := newMade()
	m.closed("c4", 4, start, 20*second, 3*second, 50*ms, 10*ms, 32)
	want := of(t, m).Stages[0]
	byEnd := append([]assay.Request(nil), m.requests...)
	for i := range byEnd { // insertion sort by end, as they would come
		for k := i; k > 0 && byEnd[k].End < byEnd[k-1].End; k-- {
			byEnd[k], byEnd[k-1] = byEnd[k-1], byEnd[k]
		}
	}
	c := summary.NewCollector(want.Plan, m.manifest.Judge)
	c.Started(want.Started)
	for i := range byEnd {
		c.Add(&byEnd[i])
	}
	c.LoadEnd(start + 20*second)
	c.Ended(want.Ended)
	got := c.Summary()
	near(t, "requests/s", got.RequestsPerSecond, want.RequestsPerSecond, 1e-12)
	near(t, "tokens/s", got.OutputTokensPerSecond, want.OutputTokensPerSecond, 1e-9)
	near(t, "product", *got.Little.Product, *want.Little.Product, 1e-9)
	near(t, "ttft", p(t, got.TTFT, 99), p(t, want.TTFT, 99), 0)
	near(t, "whole", got.WholeRequestsPerSecond, want.WholeRequestsPerSecond, 1e-12)
}

// Correlated samples are worth fewer, and the interval says so.
func TestIntervalGoesByEffectiveSamples(t *testing.T) {
	dist := func(rho float64) assay.Dist {
		m := newMade()
		m.span(assay.Stage{Name: "a", Kind: assay.LoadOpen, Rate: 100}, start, start+1, start+100*second, start+101*second)
		rng := rand.New(rand.NewPCG(3, 4))
		x := 0.0
		for i := range int64(2400) {
			x = rho*x + rng.NormFloat64()
			m.request("a", start+2+i*10*ms, 50*ms+int64(x*math.Sqrt(1-rho*rho)*float64(ms)), 10*ms, 2)
		}
		return of(t, m).Stages[0].TTFT
	}
	free, bound := dist(0), dist(0.8)
	near(t, "independent", free.Effective, 2400, 0.4)
	near(t, "correlated", bound.Effective, 2400/9.0, 0.5)
	a, _ := free.P(50)
	b, _ := bound.P(50)
	if !a.Held() || !b.Held() || !((b.Hi-b.Lo) >= 2*(a.Hi-a.Lo) && a.Lo <= a.Value && a.Hi >= a.Value) {
		t.Errorf("independent %+v, correlated %+v", a, b)
	}
	if q, _ := bound.P(99); q.Held() || q.Need != 368 {
		t.Errorf("p99 of %.0f effective samples: %+v", bound.Effective, q)
	}
}

func TestBrokenOffStage(t *testing.T) {
	m := newMade()
	plan := assay.Stage{Name: "a", Kind: assay.LoadClosed, Concurrency: 1}
	m.events = append(m.events, assay.Event{At: start, Kind: assay.EventStageStarted, Stage: "a", Plan: &plan})
	m.status = assay.StatusRunning
	for i := range int64(10) {
		m.request("a", start+i*200*ms, 50*ms, 10*ms, 16)
	}
	m.request("lost", start+3*second, 50*ms, 10*ms, 16)
	s := of(t, m)
	if s.Status != assay.StatusPartial || len(s.Stages) != 2 || s.Stages[0].Complete || s.Stages[1].Complete {
		t.Fatalf("%s, %d stages", s.Status, len(s.Stages))
	}
	// It ended at some time after the last mark: the window ends one request
	// before, and begins with a token.
	near(t, "requests/s", s.Stages[0].RequestsPerSecond, (9-1.0/16)/1.75, 1e-3)
	near(t, "whole requests/s", s.Stages[0].WholeRequestsPerSecond, 5, 1e-9)
	if s.Stages[1].Requests != 1 {
		t.Error("a stage whose start was lost has lost its requests")
	}

	// Steady, and cut off: the window ends with the last mark.
	m.event(start+second, assay.EventStageSteady, "a")
	near(t, "requests/s", of(t, m).Stages[0].RequestsPerSecond, 5, 0.21) // of few, one more or less

	// Taken up again after an hour: the hour counts in no rate.
	hour := 3600 * second
	m.status = assay.StatusComplete
	m.events = append(m.events, assay.Event{At: start + hour, Kind: assay.EventResumed, Data: map[string]float64{"down_seconds": 3598}})
	m.span(plan, start+hour, start+hour+second, start+hour+3*second, start+hour+3*second)
	for i := range int64(15) {
		m.request("a", start+hour+i*200*ms, 50*ms, 10*ms, 16)
	}
	st := of(t, m).Stages[0]
	near(t, "resumed requests/s", st.RequestsPerSecond, 5, 0.02)
	if st.SteadyFrom < start+hour {
		t.Errorf("the window of a stage that was taken up again begins %d s after its first part", (st.SteadyFrom-start)/second)
	}
	near(t, "resumed whole requests/s", st.WholeRequestsPerSecond, 5, 1e-9)
	if st.Requests != 25 || !st.Complete || st.Started != start {
		t.Errorf("%d requests, complete %v", st.Requests, st.Complete)
	}
}
