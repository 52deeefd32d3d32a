package summary_test

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/assay-bench/assay"
)

func TestWindows(t *testing.T) {
	m := newMade()
	m.manifest.Seed = 7
	m.closed("c", 8, start, 40500*ms, 2500*ms, 50*ms, 10*ms, 100)
	bad := m.request("c", start+10100*ms, 50*ms, 10*ms, 16)
	bad.Error = assay.FailHTTP5xx
	warm := m.request("c", start+10200*ms, 700*ms, 10*ms, 16)
	warm.Warmup = true
	stepped := m.request("c", start+10300*ms, 900*ms, 10*ms, 16)
	stepped.ClockStep = true
	s := of(t, m)
	st := s.Stages[0]
	var ok, failed int
	var tokens, steady, inside int64
	for i, w := range s.Windows {
		ok, failed, tokens = ok+w.OK, failed+w.Failed, tokens+w.Tokens
		if w.Stage != "c" || w.To <= w.From || i > 0 && w.From != s.Windows[i-1].To {
			t.Errorf("window %d: %+v", i, w)
		}
		if w.From >= st.SteadyFrom && w.To <= st.SteadyTo {
			steady += w.Tokens
			inside += (w.To - w.From) / second
			if w.To-w.From != second || (w.From-st.Started)%second != 0 {
				t.Errorf("window %d of %d ns", i, w.To-w.From)
			}
			if w.TTFT != nil && !(math.Abs(*w.TTFT-50) <= 1e-6) || w.TPOT != nil && !(math.Abs(*w.TPOT-10) <= 1e-6) || w.TTFTMax != nil && *w.TTFTMax != 50 {
				t.Errorf("window %d: %v %v %v", i, *w.TTFT, *w.TTFTMax, *w.TPOT)
			}
		}
	}
	if first, last := s.Windows[0], s.Windows[len(s.Windows)-1]; first.From != st.Started || last.To != st.Ended {
		t.Errorf("from %d to %d", first.From-start, last.To-start)
	}
	if st.SteadyFrom != start+2600*ms || st.SteadyTo != start+40500*ms || inside != 37 { // 2.6 s: the first send after the lead
		t.Errorf("steady from %d ms to %d ms, %d windows", (st.SteadyFrom-start)/ms, (st.SteadyTo-start)/ms, inside)
	}
	if ok != st.OK-1 || failed != 1 { // the stepped one has no place in time
		t.Errorf("%d ok of %d, %d failed", ok, st.OK, failed)
	}
	if want := int64(len(m.requests)-3)*100 + 2*16; tokens != want {
		t.Errorf("%d tokens, want %d", tokens, want)
	}
	near(t, "steady tokens", float64(steady), st.OutputTokensPerSecond*float64(inside), 0.01)
}

// The tokens of a request count where they arrived, by the engine's word of how
// many each chunk held.
func TestWindowsByChunks(t *testing.T) {
	m := newMade()
	m.span(assay.Stage{Name: "a", Kind: assay.LoadClosed, Concurrency: 1}, start, start, start+5*second, start+5*second)
	r := m.request("a", start+100*ms, second, second, 3)
	r.OutputTokens, r.ChunkTokens = 60, []int32{10, 20, 30}
	tokens := func() (out []int64) {
		for _, w := range of(t, m).Windows {
			out = append(out, w.Tokens)
		}
		return out
	}
	if got := tokens(); !slices.Equal(got, []int64{0, 10, 20, 30, 0}) {
		t.Errorf("%v", got)
	}
	r.ChunkTokens, r.Gaps[0] = nil, assay.MarkGap(r.Gaps[0])
	if got := tokens(); !slices.Equal(got, []int64{0, 20, 20, 20, 0}) {
		t.Errorf("%v", got)
	}
}

// A long run's windows are merged in pairs, and lose nothing; an end that
// nobody recorded does not let them grow either.
func TestLongRunsHaveWiderWindows(t *testing.T) {
	for _, ended := range []bool{true, false} {
		m := newMade()
		const seconds = 9000
		m.span(assay.Stage{Name: "a", Kind: assay.LoadClosed, Concurrency: 1}, start, start+10*second, start+seconds*second, start+seconds*second)
		if !ended {
			m.events = m.events[:2]
		}
		for i := range int64(seconds) {
			m.request("a", start+i*second, 50*ms, 10*ms, 16)
		}
		s := of(t, m)
		var tokens int64
		for _, w := range s.Windows {
			tokens += w.Tokens
		}
		if n := len(s.Windows); n > 1026 || n < 500 || tokens != seconds*16 {
			t.Errorf("ended %v: %d windows, %d tokens", ended, n, tokens)
		}
		if w := s.Windows[5]; w.To-w.From != 16*second || (w.From-start)%(16*second) != 0 {
			t.Errorf("ended %v: a window of %d s from %d", ended, (w.To-w.From)/second, (w.From-start)/second)
		}
		near(t, "replicates", meanOf(s.Stages[0].Replicates.OutputTokensPerSecond), 16, 0.01)
	}
}

func TestReplicates(t *testing.T) {
	m := newMade()
	m.manifest.Seed = 42
	m.span(assay.Stage{Name: "a", Kind: assay.LoadOpen, Rate: 100, DurationNS: 61 * second}, start, start, start+61*second, start+62*second)
	for i := range int64(6100) {
		slow := int64(0)
		if i%50 == 0 {
			slow = 200 * ms // two of a hundred: p99 is 250 ms
		}
		r := m.request("a", start+i*10*ms, 50*ms+slow, 10*ms, 7+int(i/100%3))
		if i%20 == 7 {
			r.Error = assay.FailTimeout
		}
	}
	st := of(t, m).Stages[0]
	r := st.Replicates
	if r == nil || r.Windows != 60 || r.Seed != 42 || len(r.TokensPerJoule) != 0 {
		t.Fatalf("%+v", r)
	}
	for what, c := range map[string]struct {
		got  []float64
		want float64
	}{
		"ttft p99": {r.TTFTp99MS, p(t, st.TTFT, 99)}, "tpot p50": {r.TPOTp50MS, p(t, st.TPOT, 50)},
		"tokens": {r.OutputTokensPerSecond, st.OutputTokensPerSecond}, "errors": {r.ErrorRate, st.ErrorRate},
	} {
		if len(c.got) != 200 {
			t.Errorf("%s: %d replicates", what, len(c.got))
		}
		near(t, what, meanOf(c.got), c.want, 0.01)
	}
	if again := of(t, m).Stages[0].Replicates; !reflect.DeepEqual(r, again) {
		t.Error("the same seed gives other replicates")
	}
	m.manifest.Seed = 43
	if again := of(t, m).Stages[0].Replicates; reflect.DeepEqual(r.OutputTokensPerSecond, again.OutputTokensPerSecond) {
		t.Error("another seed gives the same replicates")
	}
	m.events[2].At = start + 10*second
	if st := of(t, m).Stages[0]; st.Replicates != nil || st.WindowCV != nil {
		t.Error("nine windows are too few")
	}
}

// Counting tokens is no variation of the engine; half speed every other ten
// seconds is.
func TestWindowCV(t *testing.T) {
	cv := func(gap func(i int64) int64) float64 {
		m := newMade()
		m.span(assay.Stage{Name: "a", Kind: assay.LoadClosed, Concurrency: 4}, start, start, start+60*second, start+60*second)
		for k := range int64(4) {
			for at := start + k*13*ms; at < start+60*second; {
				g := gap((at - start) / second)
				m.request("a", at, g, g, 20)
				at += 20 * g
			}
		}
		return *of(t, m).Stages[0].WindowCV
	}
	if v := cv(func(int64) int64 { return 10 * ms }); !(v <= 0.01) {
		t.Errorf("an even engine varies by %v", v)
	}
	v := cv(func(s int64) int64 {
		if s/10%2 == 0 {
			return 20 * ms
		}
		return 10 * ms
	})
	near(t, "half speed half of the time", v, 1.0/3, 0.1)
}
