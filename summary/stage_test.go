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
	if math.IsNaN(got) || math.Abs(got-want) > tol*math.Abs(want)+1e-12 {
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
	near(t, "tokens/s a user", st.TokensPerUser, 128/(e2e/1e3), 0.003)
	near(t, "goodput", st.GoodputPerSecond, st.RequestsPerSecond, 0)
	near(t, "product", *st.Little.Product, 8, 1e-6)
	near(t, "gauge", *st.Little.Gauge, 8, 0)
	if math.Abs(*st.Little.Off) > 1e-6 || len(s.Warnings) != 0 {
		t.Errorf("off %v, warnings %v", *st.Little.Off, s.Warnings)
	}
	if st.Requests != len(m.requests) || st.OK != st.Requests || st.ErrorRate != 0 || st.GoodShare != 1 || !st.Complete || s.Status != assay.StatusComplete {
		t.Errorf("%+v", st)
	}
	if st.ITL.N != 127*len(m.requests) || st.TokensFrom != "usage" {
		t.Errorf("%d gaps, tokens from %s", st.ITL.N, st.TokensFrom)
	}
	if st.Kept != assay.Unknown || s.Scaling != nil || s.FindMax != nil {
		t.Error("a judgement that nobody asked for")
	}
	if s.Client.Certificate != assay.Certified {
		t.Errorf("client: %+v", s.Client)
	}
}

// Tokens count when they arrive: requests much longer than the window, none of
// which ends in it, still show the engine's rate.
func TestTokensCountByArrival(t *testing.T) {
	m := newMade()
	m.span(assay.Stage{Name: "a", Kind: assay.LoadClosed, Concurrency: 1}, start, start+2*second, start+4*second, start+11*second)
	m.request("a", start, 50*ms, 10*ms, 1001) // 100 tokens a second for 10 s
	st := of(t, m).Stages[0]
	near(t, "tokens/s", st.OutputTokensPerSecond, 100, 1e-9)
	near(t, "requests/s", st.RequestsPerSecond, 0, 0)
	near(t, "whole tokens/s", st.WholeOutputTokensPerSecond, 1001/11.0, 1e-9)

	// Chunks of several tokens: usage says 60, the chunks came at 1, 2, 3 s.
	m = newMade()
	m.span(assay.Stage{Name: "a", Kind: assay.LoadClosed, Concurrency: 1}, start, start+1500*ms, start+2500*ms, start+4*second)
	r := m.request("a", start, second, second, 3)
	r.OutputTokens, r.ChunkTokens = 60, []int32{10, 20, 30}
	near(t, "by the engine's word", of(t, m).Stages[0].OutputTokensPerSecond, 20, 1e-9)
	r.ChunkTokens = nil
	near(t, "by equal shares", of(t, m).Stages[0].OutputTokensPerSecond, 20, 1e-9)
	r.ChunkTokens = []int32{1, 4, 1}
	near(t, "scaled to usage", of(t, m).Stages[0].OutputTokensPerSecond, 40, 1e-9)
}

func TestWarmupsFailuresAndCaps(t *testing.T) {
	m := newMade()
	m.manifest.Judge.Goodput = []assay.Limit{{Metric: "ttft", MaxMS: 60}, {Metric: "tpot", MaxMS: 20}, {Metric: "e2el", MaxMS: 400}}
	m.span(assay.Stage{Name: "o", Kind: assay.LoadOpen, Rate: 10, Concurrency: 4}, start, start+second, start+11*second, start+12*second)
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
	near(t, "goodput", st.GoodputPerSecond, 62/10.0, 1e-12) // warm-ups are work too
	near(t, "requests/s", st.RequestsPerSecond, 65/10.0, 1e-12)
	near(t, "slowest", st.TTFT.Max, 70, 1e-9) // no failure is in the latencies
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
	r.Gaps = []int32{10_000, assay.MarkGap(20_000), 0, 10_000}
	s := of(t, m)
	st := s.Stages[0]
	if st.ITL.N != 2 || st.MarkedGapShare != 0.5 || p(t, st.ITL, 50) != 10 || !warned(s, "marked_gaps") {
		t.Errorf("itl %+v, share %v", st.ITL, st.MarkedGapShare)
	}
	r.Gaps, r.FirstMerged = []int32{0, 10_000, 10_000, 10_000}, true
	if st := of(t, m).Stages[0]; st.ITL.N != 3 || st.ITL.Min != 10 {
		t.Errorf("the gap out of a merged first token counts: %+v", st.ITL)
	}
}

func TestWarnings(t *testing.T) {
	base := func() *made {
		m := newMade()
		m.closed("c", 2, start, 20*second, second, 50*ms, 10*ms, 16)
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
	steady, load := false, false
	for i := range byEnd {
		if !steady && byEnd[i].End >= want.SteadyFrom {
			c.SteadyFrom(want.SteadyFrom)
			steady = true
		}
		if !load && byEnd[i].End >= want.SteadyTo {
			c.SteadyTo(want.SteadyTo)
			load = true
		}
		c.Add(&byEnd[i])
	}
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
	if !a.Held() || !b.Held() || (b.Hi-b.Lo) < 2*(a.Hi-a.Lo) || a.Lo > a.Value || a.Hi < a.Value {
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
	near(t, "requests/s", s.Stages[0].RequestsPerSecond, 5, 1e-9) // nothing else is known: the whole of its time
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
	near(t, "resumed requests/s", st.RequestsPerSecond, 5, 1e-9)
	near(t, "resumed whole requests/s", st.WholeRequestsPerSecond, 5, 1e-9)
	if st.Requests != 25 || !st.Complete || st.Started != start {
		t.Errorf("%d requests, complete %v", st.Requests, st.Complete)
	}
}
