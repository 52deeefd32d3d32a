package load

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/assay-bench/assay"
)

// times takes n steps of a schedule that does not depend on the engine.
func times(s Schedule, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = s.Next(State{Issued: i, Ended: -1}).At.Seconds()
	}
	return out
}

func gapsOf(t []float64) (mean, cv float64) {
	last, sum, squares := 0.0, 0.0, 0.0
	for _, v := range t {
		sum += v - last
		squares += (v - last) * (v - last)
		last = v
	}
	n := float64(len(t))
	mean = sum / n
	return mean, math.Sqrt(max(0, squares/n-mean*mean)) / mean
}

func TestOpenRateAndDispersion(t *testing.T) {
	for _, tc := range []struct{ rate, burstiness, cv float64 }{
		{100, 0, 0},
		{100, math.Inf(1), 0},
		{100, 1, 1},
		{2.5, 1, 1},
		{1000, 0.25, 2},
		{1000, 0.04, 5},
		{10, 4, 0.5},
		{10, 100, 0.1},
	} {
		const n = 200_000
		mean, cv := gapsOf(times(Open(OpenOptions{Rate: tc.rate, Burstiness: tc.burstiness, Seed: 1}), n))
		if !(off(mean, 1/tc.rate) <= 4*tc.cv/math.Sqrt(n)+1e-5) {
			t.Errorf("rate %v, burstiness %v: mean gap %v", tc.rate, tc.burstiness, mean)
		}
		if !(math.Abs(cv-tc.cv) <= 0.05*tc.cv+1e-2) {
			t.Errorf("rate %v, burstiness %v: gaps vary by %v of their mean, want %v", tc.rate, tc.burstiness, cv, tc.cv)
		}
	}
}

// Poisson arrivals: as many in each second as the variance of a count.
func TestOpenPoissonCounts(t *testing.T) {
	const rate, secs = 50.0, 4000
	var counts [secs]float64
	for _, at := range times(Open(OpenOptions{Rate: rate, Burstiness: 1, Seed: 9}), rate*secs*11/10) {
		if at < secs {
			counts[int(at)]++
		}
	}
	sum, squares := 0.0, 0.0
	for _, c := range counts {
		sum, squares = sum+c, squares+c*c
	}
	mean := sum / secs
	if dispersion := (squares/secs - mean*mean) / mean; !(off(mean, rate) <= 0.01) || !(off(dispersion, 1) <= 0.1) {
		t.Errorf("%v a second with dispersion %v, want %v and 1", mean, dispersion, rate)
	}
}

func TestOpenSequenceIsFixed(t *testing.T) {
	// A recorded run can be made again from its seed: these may never change.
	got := times(Open(OpenOptions{Rate: 10, Burstiness: 1, Seed: 42}), 4)
	got = append(got, times(Open(OpenOptions{Rate: 10, Burstiness: 0.5, Seed: 42}), 2)...)
	got = append(got, times(Open(OpenOptions{Rate: 10, Burstiness: 3, Seed: 42}), 2)...)
	want := []float64{0.160206946, 0.220420727, 0.25832259, 0.305673667, 0.000111218, 0.002385829, 0.055645251, 0.225744059}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestNormalised(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 2000).Draw(t, "n")
		o := OpenOptions{
			Rate:       rapid.Float64Range(0.1, 1000).Draw(t, "rate"),
			Burstiness: rapid.SampledFrom([]float64{0, 0.3, 1, 5, math.Inf(1)}).Draw(t, "burstiness"),
			Seed:       rapid.Uint64().Draw(t, "seed"),
		}
		free := times(Open(o), n)
		o.Normalise = n
		got := times(Open(o), n)
		if want := float64(n) / o.Rate; !(math.Abs(got[n-1]-want) <= 1e-8) {
			t.Fatalf("the last is at %v, want %v", got[n-1], want)
		}
		if constant(o.Burstiness) {
			return
		}
		stretch := got[n-1] / free[n-1]
		for i := range got {
			if !(math.Abs(got[i]-free[i]*stretch) <= 1e-7*(1+stretch)) {
				t.Fatalf("time %d is %v, not %v times %v", i, got[i], stretch, free[i])
			}
		}
	})
}

func TestOpenIsOrderedAndReproducible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := OpenOptions{
			Rate:       rapid.Float64Range(1e-12, 1e6).Draw(t, "rate"),
			Burstiness: rapid.Float64Range(0, 50).Draw(t, "burstiness"),
			Seed:       rapid.Uint64().Draw(t, "seed"),
		}
		a, b := times(Open(o), 300), times(Open(o), 300)
		if !slices.Equal(a, b) || !slices.IsSorted(a) || a[0] < 0 {
			t.Fatalf("%v and %v", a, b)
		}
		if o.Burstiness > 0.01 {
			o.Seed++
			if c := times(Open(o), 300); slices.Equal(a, c) && a[299] < farthest.Seconds() {
				t.Fatalf("another seed gives the same times")
			}
		}
	})
}

func TestRampFollowsItsRate(t *testing.T) {
	for _, tc := range []RampOptions{
		{From: 10, To: 110, Over: 100},
		{From: 0, To: 100, Over: 100},
		{From: 100, To: 0, Over: 100},
		{From: 100, To: 20, Over: 50},
		{From: 5, To: 500, Over: 100, Exponential: true},
		{From: 50, To: 50, Over: 100},
		{From: 50, To: 50, Over: 100, Exponential: true},
		{From: 10, To: 110, Over: 100, Burstiness: 1, Seed: 3},
		{From: 5, To: 500, Over: 100, Exponential: true, Burstiness: 1, Seed: 3},
	} {
		s := Limit(Ramp(tc), 0, seconds(tc.Over+10))
		var counts [11]float64
		total := 0
		for {
			step := s.Next(State{Issued: total, Ended: -1})
			if !step.sends() {
				break
			}
			total++
			if at := step.At.Seconds(); at < tc.Over {
				counts[int(at/tc.Over*10)]++
			} else {
				counts[10]++
			}
		}
		for i, got := range counts {
			width := tc.Over / 10
			want := 0.0 // the rate's integral over this part, by small steps
			for j := range 1000 {
				p := (float64(i) + (float64(j)+0.5)/1000) / 10
				want += tc.rate(min(1, p)) * width / 1000
			}
			if i == 10 {
				want = tc.To * 10
			}
			tolerance := 1.5
			if tc.Burstiness > 0 {
				tolerance = 4 * math.Sqrt(want)
			}
			if !(math.Abs(got-want) <= tolerance) {
				t.Errorf("%+v: %v requests in part %d, want %.1f", tc, got, i, want)
			}
		}
	}
}

// vLLM's ramp: request k of n after a gap at the rate of its number.
func TestRampByNumber(t *testing.T) {
	got := times(Ramp(RampOptions{From: 1, To: 5, Requests: 5}), 6)
	sum, want := 0.0, []float64{}
	for _, rate := range []float64{1, 2, 3, 4, 5, 5} {
		sum += 1 / rate
		want = append(want, sum)
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= 1e-8) {
			t.Errorf("times %v, want %v", got, want)
			break
		}
	}
	if got := times(Ramp(RampOptions{From: 1, To: 4, Exponential: true, Requests: 3}), 3); !(math.Abs(got[2]-1.75) <= 1e-8) {
		t.Errorf("exponential: the third at %v, want 1 + 1/2 + 1/4", got[2])
	}
}

// Whatever the engine does, a closed schedule has at most n requests under
// way, and offers a freed slot at once.
func TestClosedProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "n")
		rampUp := time.Duration(rapid.IntRange(0, 1000).Draw(t, "ramp")) * time.Millisecond
		s := Closed(n, rampUp)
		var under []int
		now, issued, done := time.Duration(0), 0, 0
		st := State{Ended: -1}
		for range 300 {
			step := s.Next(st)
			switch {
			case step.Stop:
				t.Fatalf("a closed loop stopped")
			case !step.Wait && step.At <= now:
				under = append(under, issued)
				issued++
				if len(under) > n {
					t.Fatalf("%d under way, want %d at most", len(under), n)
				}
				if step.Warmup != (step.At < rampUp) {
					t.Fatalf("at %v: warm-up %v", step.At, step.Warmup)
				}
				st = State{Now: now, Issued: issued, Done: done, Ended: -1}
				continue
			case step.Wait && len(under) < n:
				t.Fatalf("waits with %d of %d under way", len(under), n)
			case !step.Wait && issued-done >= n:
				t.Fatalf("sends with all under way")
			}
			if len(under) == 0 || !step.Wait && rapid.Bool().Draw(t, "advance") {
				now = step.At
				st = State{Now: now, Issued: issued, Done: done, Ended: -1}
				continue
			}
			if !step.Wait {
				now += min(step.At-now, time.Millisecond)
			} else {
				now += time.Millisecond
			}
			i := rapid.IntRange(0, len(under)-1).Draw(t, "ends")
			done++
			st = State{Now: now, Issued: issued, Done: done, Ended: under[i], Freed: now}
			under = slices.Delete(under, i, i+1)
		}
	})
}

func TestLimit(t *testing.T) {
	s := Limit(Open(OpenOptions{Rate: 10}), 0, time.Second)
	for i := range 10 {
		// Asked late, it still gives what was due before the end.
		if step := s.Next(State{Now: 3 * time.Second, Issued: i, Ended: -1}); step.At != time.Duration(i)*time.Second/10 || step.End != time.Second {
			t.Fatalf("step %d: %+v", i, step)
		}
	}
	if step := s.Next(State{Now: 950 * time.Millisecond, Issued: 10, Ended: -1}); !step.Wait || step.End != time.Second {
		t.Errorf("before the end: %+v, want to wait for it", step)
	}
	if step := s.Next(State{Now: time.Second, Issued: 10, Ended: -1}); !step.Stop {
		t.Errorf("at the end: %+v", step)
	}
	s = Limit(Open(OpenOptions{Rate: 10}), 3, 0)
	if step := s.Next(State{Issued: 3, Ended: -1}); !step.Stop || step.End != 0 {
		t.Errorf("after three of three: %+v", step)
	}
}

func TestReplay(t *testing.T) {
	trace := []Arrival{{At: 4 * time.Second, Input: 1}, {At: 2 * time.Second, Input: 2}, {At: 2 * time.Second, Input: 3}}
	s := Replay(trace, ReplayOptions{Speed: 2})
	for i, want := range []struct {
		at    time.Duration
		input int
	}{{time.Second, 2}, {time.Second, 3}, {2 * time.Second, 1}} {
		if step := s.Next(State{Issued: i, Ended: -1}); step.At != want.at || step.Arrival.Input != want.input {
			t.Errorf("step %d: %v %+v, want %+v", i, step.At, step.Arrival, want)
		}
	}
	if step := s.Next(State{Issued: 3, Ended: -1}); !step.Stop {
		t.Errorf("after all: %+v", step)
	}
}

// Each turn is sent once, in order, think time after the turn before; all
// others at their own times.
func TestReplayProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Arrival {
			return Arrival{
				At:           time.Duration(rapid.IntRange(0, 1000).Draw(t, "at")) * time.Millisecond,
				Conversation: rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "conversation"),
				Think:        time.Duration(rapid.IntRange(0, 100).Draw(t, "think")) * time.Millisecond,
			}
		}), 1, 30).Draw(t, "trace")
		s := Replay(trace, ReplayOptions{})
		type flight struct{ n, item int }
		var under []flight
		ended := map[string]time.Duration{}
		var now time.Duration
		seen := map[*Arrival]bool{}
		issued, done := 0, 0
		st := State{Ended: -1}
		for {
			step := s.Next(st)
			if step.Stop {
				break
			}
			if !step.Wait && (len(under) == 0 || step.At <= now) {
				a := step.Arrival
				if seen[a] {
					t.Fatalf("%+v is sent twice", a)
				}
				seen[a] = true
				want := a.At
				if end, follows := ended[a.Conversation]; follows && a.Conversation != "" {
					want = max(want, end+a.Think)
				}
				if step.At != want {
					t.Fatalf("%+v at %v, want %v", a, step.At, want)
				}
				now = max(now, step.At)
				under = append(under, flight{issued, indexOf(trace, a)})
				issued++
				st = State{Now: now, Issued: issued, Done: done, Ended: -1}
				continue
			}
			i := rapid.IntRange(0, len(under)-1).Draw(t, "ends")
			f := under[i]
			under = slices.Delete(under, i, i+1)
			now += 7 * time.Millisecond
			done++
			ended[trace[f.item].Conversation] = now
			st = State{Now: now, Issued: issued, Done: done, Ended: f.n, Freed: now}
		}
		if len(seen) != len(trace) {
			t.Fatalf("%d of %d were sent", len(seen), len(trace))
		}
	})
}

func indexOf(trace []Arrival, a *Arrival) int {
	for i := range trace {
		if &trace[i] == a {
			return i
		}
	}
	return -1
}

func TestOfRefuses(t *testing.T) {
	for _, tc := range []struct {
		stage assay.Stage
		want  string
	}{
		{assay.Stage{Kind: assay.LoadClosed, Concurrency: 1}, "never end"},
		{assay.Stage{Kind: assay.LoadClosed, Requests: 1}, "at least one stream"},
		{assay.Stage{Kind: assay.LoadOpen, DurationNS: 1}, "all at once"},
		{assay.Stage{Kind: assay.LoadOpen, Rate: 1e9, DurationNS: 1}, "between 0 and"},
		{assay.Stage{Kind: assay.LoadOpen, Rate: math.NaN(), DurationNS: 1}, "between 0 and"},
		{assay.Stage{Kind: assay.LoadRamp, DurationNS: 1}, "above zero"},
		{assay.Stage{Kind: assay.LoadRamp, RateTo: 1, Requests: 1}, "never end"},
		{assay.Stage{Kind: assay.LoadRamp, RateTo: 1, DurationNS: 1, Ramp: RampExponential}, "both ends"},
		{assay.Stage{Kind: assay.LoadRamp, RateTo: 1, DurationNS: 1, Ramp: "steep"}, "steep"},
		{assay.Stage{Kind: assay.LoadBatch, Requests: 1}, "at least one request"},
		{assay.Stage{Kind: assay.LoadReplay}, "no requests"},
		{assay.Stage{Kind: "odd", Requests: 1}, "odd"},
	} {
		if _, err := Of(tc.stage, Options{}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: error %v, want one with %q", tc.stage, err, tc.want)
		}
	}
}

func TestOfLikeVLLM(t *testing.T) {
	s, err := Of(assay.Stage{Kind: assay.LoadOpen, Rate: 7, Burstiness: 1, Requests: 100}, Options{Seed: 5, VLLM: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := times(s, 100); !(math.Abs(got[99]-100.0/7) <= 1e-8) {
		t.Errorf("the last of 100 at 7/s goes out at %v, want %v", got[99], 100.0/7)
	}
}
