package summary_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/summary"
)

// generated is a run with noise as real ones have it, in which only what a test
// puts in is wrong.
type generated struct {
	seed    uint64
	seconds int
	rho     float64 // of one second to the next
	noise   float64 // of tokens a second and latencies
	// Factors and additions by the second of the steady window.
	speed  func(s float64) float64 // of tokens a second, and of times by its inverse
	memory func(s float64) float64 // bytes more of the GPU and of the engine
	clock  func(s float64) float64 // hertz
	hot    func(s float64) float64 // the flag hw_thermal
	noStep bool                    // no allocation in the middle of the run
}

const warm = 10 // seconds before the steady window

func (g generated) run() *made {
	rng := rand.New(rand.NewPCG(g.seed, 99))
	ar := func(sigma float64) func() float64 {
		x := rng.NormFloat64()
		return func() float64 {
			x = g.rho*x + math.Sqrt(1-g.rho*g.rho)*rng.NormFloat64()
			return sigma * x
		}
	}
	speed := func(s float64) float64 {
		if g.speed == nil {
			return 1
		}
		return g.speed(s)
	}
	m := newMade()
	m.manifest.Seed = g.seed
	from := start + warm*second
	end := from + int64(g.seconds)*second
	m.span(assay.Stage{Name: "s", Kind: assay.LoadClosed, Concurrency: 8, DurationNS: end - start}, start, from, end, end)
	tokens, ttft, tpot := ar(g.noise), ar(g.noise), ar(g.noise)
	gpu, rss, cache, clock := ar(1.5e6), ar(1e6), ar(0.01), ar(8e6)
	// A cache of the allocator that fills as the run begins, and one more step.
	settle, steps := 5+10*rng.Float64(), 0.0
	stepAt := rng.Float64() * float64(g.seconds)
	for i := range warm + g.seconds {
		at, s := start+int64(i)*second, float64(i-warm)
		v := speed(s)
		n := 900 * v * (1 + tokens())
		first, each := 50e6/v*(1+ttft()), 10e6/v*(1+tpot())
		for k := range int64(8) { // requests that lie within their second
			r := m.request("s", at+k*10*ms, int64(first), 0, 2)
			r.Stream, r.Warmup = int(k)+1, i < warm
			r.OutputTokens = int(n/8) + int(k)%2
			r.Last = min(r.First+int64(each*float64(r.OutputTokens-1)), at+990*ms)
			r.End = r.Last
			r.OutputTokens = max(2, 1+int(math.Round(float64(r.Last-r.First)/each)))
			r.Gaps[0] = int32((r.Last - r.First) / 1000)
		}
		// What the second lacks or has too much of comes in one more request.
		have := 0
		for _, r := range m.requests[len(m.requests)-8:] {
			have += r.OutputTokens
		}
		if more := int(n) - have; more > 0 {
			r := m.request("s", at+30*ms, 0, 0, 1)
			r.OutputTokens, r.Warmup = more, true
		}
		if s > stepAt && !g.noStep {
			steps = 40e6
		}
		grown := 200e6*(1-math.Exp(-(s+warm)/(settle/5))) + steps
		if g.memory != nil && s > 0 {
			grown += g.memory(s)
		}
		hertz, hot := 1.98e9, 0.0
		if g.clock != nil {
			hertz = g.clock(s)
		}
		if g.hot != nil {
			hot = g.hot(s)
		}
		m.tell(at, "engine", assay.EngineResidentMemory, "", 4e9+grown+rss())
		m.tell(at, "engine", assay.EngineKVCache, "", 0.6+cache())
		for k := range int64(2) {
			t := at + k*500*ms
			m.tell(t, "nvml", assay.GPUMemoryUsed, "GPU-a", 20e9+grown+gpu())
			m.tell(t, "nvml", assay.GPUSMClock, "GPU-a", hertz+clock())
			m.tell(t, "nvml", assay.GPUThrottledHWThermal, "GPU-a", hot)
			m.tell(t, "nvml", assay.GPUThrottledPowerCap, "GPU-a", 1)
		}
	}
	return m
}

func trend(t *testing.T, s assay.Summary, of string) assay.Trend {
	t.Helper()
	for _, x := range s.Trends {
		if x.Of == of {
			return x
		}
	}
	t.Fatalf("no trend of %s among %d", of, len(s.Trends))
	return assay.Trend{}
}

// A leak of 1 MB a minute and a drift of 5 % in ten minutes, compressed sixty
// times, are found in a run of two minutes.
func TestLeakAndDriftAreFound(t *testing.T) {
	for seed := range uint64(60) {
		g := generated{seed: seed, seconds: []int{60, 90, 120}[seed/3%3], rho: []float64{0, 0.5, 0.8}[seed%3], noise: 0.02, noStep: true,
			speed:  func(s float64) float64 { return 1 - 0.05*max(0, s)/10 },
			memory: func(s float64) float64 { return s * 1e6 }}
		s := of(t, g.run())
		for _, name := range []string{"output_tokens_per_second", "ttft_ms", "tpot_ms", assay.GPUMemoryUsed, assay.EngineResidentMemory} {
			if x := trend(t, s, name); x.Found != assay.Fail || x.Cause != "" || x.Stage != "s" {
				t.Errorf("seed %d: %+v", seed, x)
			}
		}
		if x := trend(t, s, assay.EngineKVCache); x.Found == assay.Fail {
			t.Errorf("seed %d: %+v", seed, x)
		}
		leak := trend(t, s, assay.GPUMemoryUsed)
		near(t, "leak a minute", leak.Slope.Est, 60e6, 0.1)
		if leak.Device != "GPU-a" || leak.Kind != "leak" || leak.MinEffect != 0.5e6 || leak.P == nil || !(*leak.P <= leak.Level && leak.Slope.Lo >= leak.MinEffect) {
			t.Errorf("%+v", leak)
		}
		drift := trend(t, s, "output_tokens_per_second")
		if !(drift.MinEffect <= -0.0019 && drift.MinEffect >= -0.0021 && drift.Slope.Hi <= drift.MinEffect) || drift.Kind != "drift" {
			t.Errorf("%+v", drift)
		}
	}
}

// Throughput that falls when clocks fall has its cause named, with the reason
// that the driver gave; it is not named for one that falls alone.
func TestThrottlingIsNamed(t *testing.T) {
	step := func(at, before, after float64) func(float64) float64 {
		return func(s float64) float64 {
			if s < at {
				return before
			}
			return after
		}
	}
	g := generated{seed: 3, seconds: 90, rho: 0.5, noise: 0.02,
		speed: step(50, 1, 0.6), clock: step(50, 2.5e9, 1.2e9), hot: step(50, 0, 1)}
	s := of(t, g.run())
	x := trend(t, s, "output_tokens_per_second")
	if x.Found != assay.Fail || x.Cause != "gpu_clocks" || x.ChangedAt == nil || *x.ChangedAt != start+(warm+50)*second {
		t.Fatalf("%+v", x)
	}
	// 1 760 000 060 s is 08:54:20 UTC.
	if want := "clocks of GPU GPU-a fell from 2.50 to 1.20 GHz at 08:54:20 UTC while hw_thermal was active"; !strings.Contains(x.Why, want) {
		t.Errorf("%q does not say %q", x.Why, want)
	}
	if x := trend(t, s, "ttft_ms"); x.Cause != "gpu_clocks" {
		t.Errorf("%+v", x)
	}

	// Both sink without a step.
	sink := g
	sink.speed = func(s float64) float64 { return 1 - 0.004*max(0, s) }
	sink.clock = func(s float64) float64 { return 2e9 * (1 - 0.004*max(0, s)) }
	sink.hot = func(s float64) float64 { return math.Floor(min(1, max(0, s/45))) }
	x = trend(t, of(t, sink.run()), "output_tokens_per_second")
	if x.Found != assay.Fail || x.Cause != "gpu_clocks" || !strings.Contains(x.Why, "hw_thermal") {
		t.Errorf("%+v", x)
	}

	alone := g
	alone.clock, alone.hot = nil, nil
	if x := trend(t, of(t, alone.run()), "output_tokens_per_second"); x.Cause != "" || x.ChangedAt == nil {
		t.Errorf("%+v", x)
	}
	elsewhere := g
	elsewhere.clock, elsewhere.hot = step(20, 2.5e9, 1.2e9), step(20, 0, 1)
	if x := trend(t, of(t, elsewhere.run()), "output_tokens_per_second"); x.Cause != "" {
		t.Errorf("clocks that fell half a minute before: %+v", x)
	}
	harmless := g
	harmless.speed = nil
	if x := trend(t, of(t, harmless.run()), "output_tokens_per_second"); x.Cause != "" || x.Found == assay.Fail {
		t.Errorf("clocks fell and nothing got worse: %+v", x)
	}
}

func TestTrendsAreUnknownOrNotTested(t *testing.T) {
	g := generated{seed: 1, seconds: 12, noise: 0.02}
	for _, x := range of(t, g.run()).Trends {
		if x.Found != assay.Unknown || x.Slope.Known() || x.Why == "" || x.P != nil {
			t.Errorf("12 windows: %+v", x)
		}
	}
	g.seconds = 60
	m := g.run()
	m.events[0].Plan.Kind = assay.LoadRamp
	if s := of(t, m); len(s.Trends) != 0 {
		t.Errorf("a ramp was tested: %+v", s.Trends)
	}
	m = g.run()
	m.events[0].Plan.Probe = true
	if s := of(t, m); len(s.Trends) != 0 {
		t.Errorf("a probe was tested: %+v", s.Trends)
	}
	if s := of(t, g.run()); len(s.Trends) != 6 {
		t.Errorf("%d trends", len(s.Trends))
	}
}

// Of a thousand clean runs, through all of the summary, no more than ten raise
// an alarm.
func TestCleanRunsRaiseNoAlarm(t *testing.T) {
	runs := uint64(1000)
	if testing.Short() {
		runs = 200
	}
	var mu sync.Mutex
	alarms := 0
	var wg sync.WaitGroup
	next := make(chan uint64)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := range next {
				g := generated{seed: seed, seconds: 60 + int(seed*7%121), rho: []float64{0, 0.5, 0.8}[seed%3], noise: 0.01 + 0.01*float64(seed%5)}
				s, err := summary.Of(g.run())
				if err != nil || len(s.Trends) != 6 {
					t.Errorf("%v, %d trends", err, len(s.Trends))
				}
				for _, x := range s.Trends {
					if x.Found == assay.Fail {
						mu.Lock()
						alarms++
						mu.Unlock()
						t.Logf("seed %d: %s %s: %s", seed, x.Of, x.Cause, x.Why)
						break
					}
				}
			}
		})
	}
	for seed := range runs {
		next <- 1000 + seed
	}
	close(next)
	wg.Wait()
	t.Logf("%d alarms in %d runs", alarms, runs)
	if alarms > int(runs/100) {
		t.Errorf("%d of %d clean runs raise an alarm", alarms, runs)
	}
}
