package summary_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

// Requests that are all sent at once have the rate of the whole run, which is
// called so, although sending ends before the first answer.
func TestAllAtOnceHasARate(t *testing.T) {
	m := newMade()
	m.span(assay.Stage{Name: "a", Kind: assay.LoadOpen, Requests: 200}, start, start, start+ms, start+11*second)
	for i := range int64(200) { // eight at a time
		m.request("a", start, 50*ms+i/8*400*ms, 10*ms, 33)
	}
	st := of(t, m).Stages[0]
	seconds := 0.05 + 24*0.4 + 0.32
	near(t, "requests/s", st.RequestsPerSecond, 200/seconds, 1e-9)
	near(t, "tokens/s", st.OutputTokensPerSecond, 200*33/seconds, 1e-9)
	near(t, "total tokens/s", st.TotalTokensPerSecond, 200*133/seconds, 1e-9)
	near(t, "goodput", st.GoodputPerSecond, 200/seconds, 1e-9)
	if st.RatesOf != assay.RatesOfWhole || st.Windowed() || !strings.Contains(st.WindowWhy, "at once") || st.SteadyFrom != 0 || st.SteadyTo != 0 {
		t.Errorf("rates of %q because %q, steady from %d to %d", st.RatesOf, st.WindowWhy, st.SteadyFrom, st.SteadyTo)
	}
	// With a cap that holds most of them back it is a load like any other.
	m.events[0].Plan.Concurrency = 8
	m.events[2].At = start + 24*400*ms
	for i := range int64(200) {
		r := &m.requests[i]
		r.Sent += i / 8 * 400 * ms
		r.Eligible = r.Sent
	}
	if st := of(t, m).Stages[0]; !st.Windowed() {
		t.Errorf("capped: %s", st.WindowWhy)
	} else {
		near(t, "capped requests/s", st.RequestsPerSecond, 20, 0.03)
	}
}

// Filling is outside of an open loop's window: 4/s for 45 s with answers of 10 s
// are 4/s, without drift, and vary by no more than chance.
func TestOpenLoopFillsBeforeTheWindow(t *testing.T) {
	for _, burstiness := range []float64{0, 1} {
		ratio, drifts, varies := 0.0, 0, 0.0
		const seeds = 20
		for seed := range uint64(seeds) {
			rng := rand.New(rand.NewPCG(seed, 3))
			m := newMade()
			m.span(assay.Stage{Name: "r4", Kind: assay.LoadOpen, Rate: 4, Burstiness: burstiness, DurationNS: 45 * second}, start, start, start+45*second, start+55*second)
			gap := func() int64 {
				if burstiness == 0 {
					return second / 4
				}
				return int64(rng.ExpFloat64() * float64(second) / 4)
			}
			for at := start; at < start+45*second; at += gap() {
				m.request("r4", at, 400*ms, 100*ms, 97) // 10 s
			}
			s := of(t, m)
			st := s.Stages[0]
			if !st.Windowed() {
				t.Fatal(st.WindowWhy)
			}
			ratio += st.RequestsPerSecond / (float64(len(m.requests)) / 45) / seeds
			varies += *st.WindowCV / seeds
			for _, x := range s.Trends {
				if x.Found == assay.Fail {
					drifts++
				}
			}
		}
		near(t, "requests/s", ratio, 1, 0.03)
		t.Logf("burstiness %g: %.4f of what was sent, windows vary by %.1f %%", burstiness, ratio, varies*100)
		if drifts > 0 || !(varies <= 0.05) {
			t.Errorf("burstiness %g: %d false drifts, windows vary by %.0f %%", burstiness, drifts, varies*100)
		}
	}
}

func TestWhyThereIsNoWindow(t *testing.T) {
	closed := func(alter func(*assay.Stage), more func(*made)) func() *made {
		return func() *made {
			m := newMade()
			m.closed("c", 4, start, 20*second, 0, 50*ms, 10*ms, 100)
			if alter != nil {
				alter(m.events[0].Plan)
			}
			if more != nil {
				more(m)
			}
			return m
		}
	}
	opened := func(length int64) *made {
		m := newMade()
		m.span(assay.Stage{Name: "o", Kind: assay.LoadOpen, Rate: 4, DurationNS: length}, start, start, start+length, start+length+10*second)
		for at := start; at < start+length; at += second / 4 {
			m.request("o", at, 400*ms, 100*ms, 97)
		}
		return m
	}
	for _, c := range []struct {
		name string
		m    func() *made
		why  string // part of it; empty: there is a window
	}{
		{"closed", closed(nil, nil), ""},
		{"a ramp", closed(func(p *assay.Stage) { p.Kind = assay.LoadRamp }, nil), "a ramp is never steady"},
		{"a stream without a token", closed(func(p *assay.Stage) { p.Concurrency = 5 }, nil), "4 of 5 streams had a token"},
		{"old runs do not name streams", closed(nil, func(m *made) {
			for i := range m.requests {
				m.requests[i].Stream = 0
			}
		}), ""},
		{"only warm-ups", closed(nil, func(m *made) {
			for i := range m.requests {
				m.requests[i].Warmup = true
			}
		}), "no judged request was sent"},
		{"nothing succeeded", closed(nil, func(m *made) {
			for i := range m.requests {
				m.requests[i].Error = assay.FailTimeout
			}
		}), "no request succeeded"},
		{"one of twenty censored", closed(nil, func(m *made) {
			for i := range m.requests {
				if i%20 == 0 {
					m.requests[i].Error = assay.FailCensored
				}
			}
		}), "give a longer --grace"},
		{"one of thirty censored", closed(nil, func(m *made) {
			for i := range m.requests {
				if i%30 == 0 {
					m.requests[i].Error = assay.FailCensored
				}
			}
		}), ""},
		{"closed and too short", closed(func(p *assay.Stage) { p.DurationNS = 1500 * ms }, func(m *made) { m.events[2].At = start + 1500*ms }), "give --duration 2s or more"},
		{"open and long", func() *made { return opened(45 * second) }, ""},
		{"open and too short", func() *made { return opened(30 * second) }, "it took 9.608s until the load was steady, and the load lasted 30s: give --duration 41s or more"},
		{"not its length, its number", func() *made {
			m := opened(30 * second)
			m.events[0].Plan.DurationNS, m.events[0].Plan.Requests = 0, 120
			return m
		}, "give about 162 requests or more"},
	} {
		st := of(t, c.m()).Stages[0]
		if c.why == "" && !st.Windowed() || c.why != "" && (st.Windowed() || !strings.Contains(st.WindowWhy, c.why)) {
			t.Errorf("%s: windowed %v, %q", c.name, st.Windowed(), st.WindowWhy)
		}
	}
}

// What is said to be enough is enough.
func TestTheDurationThatIsAskedForSuffices(t *testing.T) {
	m := newMade()
	length := 41 * second
	m.span(assay.Stage{Name: "o", Kind: assay.LoadOpen, Rate: 4, DurationNS: length}, start, start, start+length, start+length+10*second)
	for at := start; at < start+length; at += second / 4 {
		m.request("o", at, 400*ms, 100*ms, 97)
	}
	if st := of(t, m).Stages[0]; !st.Windowed() {
		t.Error(st.WindowWhy)
	}
}

// Edges of closed windows: by count it ends when the first request ends that no
// other follows, by time when the time is over; it begins with the last stream's
// first token, or the first judged request.
func TestEdgesOfClosedWindows(t *testing.T) {
	chain := func(requests int, plan assay.Stage) *made {
		m := newMade()
		plan.Name, plan.Kind, plan.Concurrency = "c", assay.LoadClosed, 2
		free := []int64{start, start + 300*ms}
		for i := range requests {
			k := i % 2
			r := m.request("c", free[k], 100*ms, 100*ms, 10) // a second
			r.Stream = k + 1
			free[k] = r.End
		}
		m.span(plan, start, start, m.requests[len(m.requests)-1].Sent, free[1])
		return m
	}
	byCount := of(t, chain(9, assay.Stage{Requests: 9})).Stages[0]
	if byCount.SteadyFrom != start+400*ms || byCount.SteadyTo != start+4300*ms {
		t.Errorf("by count: %d to %d ms", (byCount.SteadyFrom-start)/ms, (byCount.SteadyTo-start)/ms)
	}
	m := chain(9, assay.Stage{DurationNS: 4100 * ms, Requests: 100})
	m.events[2].At = start + 4100*ms
	byTime := of(t, m).Stages[0]
	if byTime.SteadyFrom != start+400*ms || byTime.SteadyTo != start+4100*ms {
		t.Errorf("by time: %d to %d ms", (byTime.SteadyFrom-start)/ms, (byTime.SteadyTo-start)/ms)
	}
	for i := range 2 {
		m.requests[i].Warmup = true
	}
	if st := of(t, m).Stages[0]; st.SteadyFrom != start+second {
		t.Errorf("with warm-ups it begins at %d ms", (st.SteadyFrom-start)/ms)
	}
	// Batches fill and drain by design: all of their time is steady.
	m = newMade()
	m.span(assay.Stage{Name: "b", Kind: assay.LoadBatch, Batch: 2, Requests: 6}, start, start, start+4*second, start+6*second)
	for i := range int64(3) {
		m.request("b", start+i*2*second, 100*ms, 100*ms, 10)
		m.request("b", start+i*2*second, 100*ms, 100*ms, 20)
	}
	st := of(t, m).Stages[0]
	near(t, "batches", st.OutputTokensPerSecond, 15, 1e-2)
	if st.SteadyFrom != start || st.SteadyTo != start+6*second {
		t.Errorf("batches: %d to %d ms, %s", (st.SteadyFrom-start)/ms, (st.SteadyTo-start)/ms, st.WindowWhy)
	}
}
