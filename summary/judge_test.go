package summary_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/assay-bench/assay"
)

func TestObjectives(t *testing.T) {
	pass, fail, unknown := assay.Pass, assay.Fail, assay.Unknown
	obj := func(s string) assay.Objective {
		o, err := assay.ParseObjective(s)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for _, c := range []struct {
		name       string
		n          int
		objectives []assay.Objective
		alter      func(*made)
		verdict    assay.Verdict // of the first objective
		kept       assay.Verdict
	}{
		{"well kept", 1000, []assay.Objective{obj("ttft_p99<200ms")}, nil, pass, pass},
		{"well broken", 1000, []assay.Objective{obj("ttft_p99<10ms")}, nil, fail, fail},
		{"across the limit, estimate below", 1000, []assay.Objective{obj("ttft_p50<50.05ms")}, nil, unknown, unknown},
		{"across the limit, estimate above", 1000, []assay.Objective{obj("ttft_p50<49.7ms")}, nil, unknown, unknown},
		{"too few for an interval", 100, []assay.Objective{obj("ttft_p99<200ms")}, nil, unknown, unknown},
		{"too few, and broken", 100, []assay.Objective{obj("ttft_p99<10ms")}, nil, unknown, unknown},
		{"a mean", 100, []assay.Objective{obj("tpot_mean<11ms")}, nil, pass, pass},
		{"one of two broken", 1000, []assay.Objective{obj("ttft_p99<200ms"), obj("e2e_p50<20ms")}, nil, pass, fail},
		{"too many errors, not asked about", 1000, []assay.Objective{obj("ttft_p99<200ms")}, func(m *made) { errorsOf(m, 20) }, pass, fail},
		{"errors allowed by an objective", 1000, []assay.Objective{obj("error_rate<5%"), obj("ttft_p99<200ms")}, func(m *made) { errorsOf(m, 20) }, pass, pass},
		{"errors beyond the objective", 1000, []assay.Objective{obj("error_rate<1%")}, func(m *made) { errorsOf(m, 50) }, fail, fail},
		{"nothing succeeded", 1000, []assay.Objective{obj("ttft_p99<200ms")}, func(m *made) { errorsOf(m, 1000) }, unknown, fail},
		{"nothing was answered", 0, []assay.Objective{obj("ttft_p99<200ms")}, nil, unknown, unknown},
		{"never sent", 1000, []assay.Objective{obj("ttft_p99<200ms")}, func(m *made) {
			for i := range 20 {
				m.requests[i] = assay.Request{ID: fmt.Sprint("n", i), Stage: "a", Scheduled: start, Error: assay.FailNeverSent}
			}
		}, pass, fail},
	} {
		m := newMade()
		m.manifest.Judge.Objectives = c.objectives
		m.span(assay.Stage{Name: "a", Kind: assay.LoadOpen, Rate: 100}, start, start+1, start+100*second, start+101*second)
		rng := rand.New(rand.NewPCG(1, 1))
		for i := range int64(c.n) {
			m.request("a", start+2+i*10*ms, 50*ms+int64(rng.NormFloat64()*float64(3*ms)), 10*ms, 4)
		}
		if c.alter != nil {
			c.alter(m)
		}
		st := of(t, m).Stages[0]
		if got := st.Objectives[0].Verdict; got != c.verdict {
			t.Errorf("%s: verdict %s, want %s: %+v", c.name, got, c.verdict, st.Objectives[0].Measured)
		}
		if st.Kept != c.kept {
			t.Errorf("%s: kept %s, want %s", c.name, st.Kept, c.kept)
		}
	}
}

func errorsOf(m *made, n int) {
	for i := range n {
		m.requests[i*len(m.requests)/n].Error = assay.FailHTTP5xx
	}
}

// An engine of 16 slots: X(N) = min(N,16)/R, so the knee is at 16 streams. From
// 32 streams on it thrashes.
func TestKneeAndCliff(t *testing.T) {
	m := newMade()
	from := start
	for _, n := range []int{1, 2, 4, 8, 16, 32, 64, 128} {
		e2e := 200.0 * max(1, float64(n)/16)
		if n > 32 {
			e2e *= 1 + 0.4*float64(n-32)/32 // goodput 1/1.4 at 64
		}
		ttft := int64(e2e*1e6) - 15*10*ms
		m.closed(fmt.Sprint("c", n), n, from, 60*second, 5*second, ttft, 10*ms, 16)
		from += 120 * second
	}
	sc := of(t, m).Scaling
	if sc == nil || len(sc.Points) != 8 {
		t.Fatalf("%+v", sc)
	}
	near(t, "knee", sc.Knee.Est, 16, 0.02)
	// Goodput 80/s at 32, 57.1/s at 64: 72/s lies 8/22.9 of the way.
	near(t, "cliff", sc.Cliff.Est, 32+32*8/22.857, 0.03)
	if sc.Cliff.Lo != 32 || sc.Cliff.Hi != 64 || !(sc.Peak.Est >= 16 && sc.Peak.Est <= 32) {
		t.Errorf("cliff %+v, peak %+v", sc.Cliff, sc.Peak)
	}
	near(t, "degradation at 64", sc.Points[6].Degradation, 57.14/(64*5), 0.03)
	near(t, "degradation at 1", sc.Points[0].Degradation, 1, 1e-9)
	if sc.USL == nil || sc.USL.PeakN == nil {
		t.Errorf("usl %+v", sc.USL)
	}
}

func TestNoCliffIsSaid(t *testing.T) {
	m := newMade()
	m.closed("c1", 1, start, 20*second, second, 50*ms, 10*ms, 16)
	m.closed("c2", 2, start+60*second, 20*second, second, 50*ms, 10*ms, 16)
	sc := of(t, m).Scaling
	if sc.Cliff.Known() || sc.Cliff.Why == "" || sc.Knee.Why == "" {
		t.Errorf("cliff %+v, knee %+v", sc.Cliff, sc.Knee)
	}
}

func TestFindMax(t *testing.T) {
	for _, c := range []struct {
		name        string
		loads       []int
		slow        func(n int, i int) bool
		est, lo, hi float64
		known       bool
	}{
		{"bisected", []int{1, 16, 16, 8, 12, 12, 10, 11, 11}, func(n, _ int) bool { return n > 10 }, 10, 10, 11, true},
		{"never broken", []int{1, 2, 4}, func(int, int) bool { return false }, 4, 4, math.NaN(), true},
		{"never kept", []int{4, 4, 2, 2, 1, 1}, func(int, int) bool { return true }, 0, 0, 0, false},
		{"one bad stage breaks nothing", []int{1, 2, 4, 8}, func(n, _ int) bool { return n == 8 }, 4, 4, math.NaN(), true},
		{"one bad stage of three", []int{1, 2, 4, 4, 4, 8, 8}, func(n, i int) bool { return i == 2 || n == 8 }, 4, 4, 8, true},
		{"one lucky moment high up", []int{1, 2, 4, 8, 8, 16, 16, 32}, func(n, _ int) bool { return n > 4 && n != 32 }, 4, 4, 8, true},
	} {
		m := newMade()
		m.manifest.Judge.Search = assay.SearchMaxConcurrency
		m.manifest.Judge.Objectives = []assay.Objective{{Metric: "ttft", Stat: "p90", Max: 100}}
		from := start
		for i, n := range c.loads {
			ttft := 50 * ms
			if c.slow(n, i) {
				ttft = 150 * ms
			}
			m.closed(fmt.Sprint("s", i), n, from, 5*second, second, ttft, 10*ms, 4)
			from += 60 * second
		}
		f := of(t, m).FindMax
		if f == nil || f.Of != "concurrency" || f.Load.Known() != c.known {
			t.Errorf("%s: %+v", c.name, f)
			continue
		}
		if !c.known {
			if f.Load.Why == "" {
				t.Errorf("%s: no reason", c.name)
			}
			continue
		}
		if f.Load.Est != c.est || f.Load.Lo != c.lo || f.Load.Hi != c.hi && !(math.IsNaN(c.hi) && math.IsNaN(f.Load.Hi)) {
			t.Errorf("%s: %+v", c.name, f.Load)
		}
		if open := math.IsNaN(c.hi); open && f.Load.Why == "" || c.name == "one bad stage breaks nothing" && strings.Contains(f.Load.Why, "lies higher") {
			t.Errorf("%s: why %q", c.name, f.Load.Why)
		}
	}
}

func TestRunToRunVariation(t *testing.T) {
	m := newMade()
	for run := range 3 {
		name := fmt.Sprint("c2-", run+1)
		m.closed(name, 2, start+int64(run)*60*second, 20*second, second, int64(50+10*run)*ms, 10*ms, 16)
		for i := range m.events {
			if m.events[i].Plan != nil && m.events[i].Stage == name {
				m.events[i].Plan.Run = run + 1
			}
		}
	}
	found := false
	for _, v := range of(t, m).Runs {
		if v.Metric == "ttft_ms_p50" {
			found = true
			if len(v.Values) != 3 || v.Mean != 60 || v.CV == nil || !(math.Abs(*v.CV-10.0/60) <= 1e-9) {
				t.Errorf("%+v", v)
			}
		}
	}
	if !found {
		t.Error("no variation of ttft")
	}
}
