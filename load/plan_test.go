package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// law is an engine in closed form: prefill alternates with decode steps whose
// time has a part for the step, a part for each sequence, and a part for each
// token by which the cache is too small.
type law struct {
	in, out  float64
	prefill  float64 // tokens a second
	step     float64 // s, for each step
	sequence float64 // s, for each sequence in a step
	swap     float64 // s, for each token over the cache
	cache    float64 // tokens
}

func (l law) throughput(n float64) float64 {
	over := max(0, (l.in+l.out)-l.cache/n)
	return 1 / (l.in/l.prefill + (l.out-1)*(l.step/n+l.sequence+l.swap*over))
}

func (l law) e2e(n float64) float64 { return n / l.throughput(n) }

func (l law) peak() float64 { return l.cache / (l.in + l.out) }

func (l law) knee() float64 { return l.throughput(l.peak()) * l.e2e(1) }

// cliff solves X(N) = 0.9·X(peak) beyond the peak, where 1/X is linear in 1/N.
func (l law) cliff() float64 {
	wanted := 1 / (cliffShare * l.throughput(l.peak()))
	far := l.in/l.prefill + (l.out-1)*(l.sequence+l.swap*(l.in+l.out))
	return (l.out - 1) * (l.step - l.swap*l.cache) / (wanted - far)
}

var laws = map[string]law{
	"gentle":   {in: 512, out: 128, prefill: 20000, step: 8e-3, sequence: 1e-4, swap: 7e-7, cache: 64 * 640},
	"broad":    {in: 256, out: 128, prefill: 40000, step: 20e-3, sequence: 5e-5, swap: 1.2e-6, cache: 100 * 384},
	"middling": {in: 512, out: 128, prefill: 20000, step: 8e-3, sequence: 1e-4, swap: 4e-6, cache: 64 * 640},
	"small":    {in: 256, out: 64, prefill: 5000, step: 10e-3, sequence: 5e-4, swap: 2e-5, cache: 11 * 320},
	"large":    {in: 1024, out: 256, prefill: 100000, step: 12e-3, sequence: 3e-5, swap: 1e-6, cache: 300 * 1280},
}

// try runs a plan against a measurement, and gives all outcomes.
func try(t *testing.T, p Plan, measure func(assay.Stage) Outcome) []Outcome {
	t.Helper()
	var done []Outcome
	names := map[string]bool{}
	for {
		s, ok := p.Next(done)
		if again, same := p.Next(done); again != s || same != ok {
			t.Fatalf("asked twice: %+v and %+v", s, again)
		}
		if !ok {
			return done
		}
		if s.Name == "" || names[s.Name] {
			t.Fatalf("stage %q after %d stages: the name is empty or taken", s.Name, len(done))
		}
		names[s.Name] = true
		done = append(done, measure(s))
		if len(done) > 100 {
			t.Fatalf("no end after %d stages", len(done))
		}
	}
}

func (l law) measure(noise float64, rng *rand.Rand) func(assay.Stage) Outcome {
	return func(s assay.Stage) Outcome {
		n := float64(s.Concurrency)
		return Outcome{
			Stage: s, Goodput: l.throughput(n) * (1 + noise*rng.NormFloat64()),
			E2E: l.e2e(n) * (1 + noise*rng.NormFloat64()),
		}
	}
}

func off(got, want float64) float64 { return math.Abs(got/want - 1) }

func TestSaturateFindsKneePeakAndCliff(t *testing.T) {
	for name, l := range laws {
		t.Run(name, func(t *testing.T) {
			done := try(t, Saturate(SaturateOptions{}), l.measure(0, rand.New(rand.NewPCG(1, 1))))
			s, ok := Saturated(done)
			t.Logf("%d stages: %+v; true knee %.1f, peak %.1f, cliff %.1f", len(done), s, l.knee(), l.peak(), l.cliff())
			if !ok || !(off(s.Knee, l.knee()) <= 0.05) || !(off(float64(s.Peak), l.peak()) <= 0.10) {
				t.Errorf("knee %.1f, want %.1f; peak %d, want %.1f", s.Knee, l.knee(), s.Peak, l.peak())
			}
			if cliff := l.cliff(); !(off(float64(s.CliffHi), cliff) <= 0.06) || !(off(float64(s.CliffLo), cliff) <= 0.06) {
				t.Errorf("cliff in (%d, %d], want %.1f", s.CliffLo, s.CliffHi, cliff)
			}
			if len(done) > 30 {
				t.Errorf("%d stages", len(done))
			}
			if done[0].Stage.Name != "c1" || !done[0].Stage.Probe {
				t.Errorf("first stage %+v", done[0].Stage)
			}
		})
	}
}

func TestSaturateInNoise(t *testing.T) {
	for name, l := range laws {
		t.Run(name, func(t *testing.T) {
			const tries = 300
			knee, cliff, most := 0, 0, 0
			for seed := range uint64(tries) {
				done := try(t, Saturate(SaturateOptions{}), l.measure(0.02, rand.New(rand.NewPCG(seed, 2))))
				most = max(most, len(done))
				s, _ := Saturated(done)
				if off(s.Knee, l.knee()) <= 0.10 {
					knee++
				}
				if off(float64(s.CliffLo+s.CliffHi)/2, l.cliff()) <= 0.10 {
					cliff++
				}
			}
			t.Logf("within 10 %%: knee %d, cliff %d of %d; %d stages at most", knee, cliff, tries, most)
			if knee < tries*95/100 || cliff < tries*95/100 {
				t.Errorf("within 10 %%: knee %d, cliff %d of %d", knee, cliff, tries)
			}
		})
	}
}

func TestSaturateWithoutACliff(t *testing.T) {
	for name, x := range map[string]func(n float64) float64{
		"for ever": func(n float64) float64 { return n },
		"slots":    func(n float64) float64 { return min(n, 24) },
		"dead":     func(n float64) float64 { return 0 },
		"unknown":  func(n float64) float64 { return math.NaN() },
	} {
		t.Run(name, func(t *testing.T) {
			done := try(t, Saturate(SaturateOptions{MaxConcurrency: 200}), func(s assay.Stage) Outcome {
				if s.Concurrency > 200 {
					t.Errorf("%d streams, over the limit", s.Concurrency)
				}
				return Outcome{Stage: s, Goodput: x(float64(s.Concurrency)), E2E: 1}
			})
			s, ok := Saturated(done)
			if s.CliffHi != 0 || ok != (x(1) > 0) || len(done) > 26 {
				t.Errorf("%+v %v after %d stages", s, ok, len(done))
			}
		})
	}
}

func TestSaturateIsBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	done := try(t, Saturate(SaturateOptions{MaxStages: 9}), func(s assay.Stage) Outcome {
		return Outcome{Stage: s, Goodput: rng.Float64()}
	})
	if len(done) > 9 {
		t.Errorf("%d stages, want 9 at most", len(done))
	}
}

func TestSustainHoldsAShareOfCapacity(t *testing.T) {
	l := laws["middling"]
	p := Sustain(SustainOptions{
		Utilization: 0.8,
		Hold:        assay.Stage{DurationNS: int64(time.Minute), Burstiness: 1},
	})
	done := try(t, p, l.measure(0, rand.New(rand.NewPCG(1, 1))))
	last := done[len(done)-1].Stage
	if want := 0.8 * l.throughput(l.peak()); !(off(last.Rate, want) <= 0.02) {
		t.Errorf("rate %v, want %v", last.Rate, want)
	}
	if last.Kind != assay.LoadOpen || last.Name != "sustain80%" || last.Probe || last.DurationNS != int64(time.Minute) {
		t.Errorf("held stage %+v", last)
	}
	none := try(t, p, func(s assay.Stage) Outcome { return Outcome{Stage: s} })
	if n := len(none); none[n-1].Stage.Kind != assay.LoadClosed {
		t.Errorf("held %+v without any capacity", none[n-1].Stage)
	}
}

func TestFindMax(t *testing.T) {
	for _, tc := range []struct {
		name       string
		like       assay.Stage
		start, max float64
		limit      float64 // kept up to here
		unknown    bool    // beyond it stages say nothing
		kept       float64 // zero: within 5 % below the limit
		broken     float64
	}{
		{name: "streams", like: assay.Stage{Kind: assay.LoadClosed}, limit: 37},
		{name: "streams from above", like: assay.Stage{Kind: assay.LoadClosed}, start: 500, limit: 37},
		{name: "few streams", like: assay.Stage{Kind: assay.LoadClosed}, limit: 3, kept: 3, broken: 4},
		{name: "no stream", like: assay.Stage{Kind: assay.LoadClosed}, start: 8, limit: 0.5, kept: -1, broken: 1},
		{name: "every stream", like: assay.Stage{Kind: assay.LoadClosed}, max: 100, limit: 1e9, kept: 100, broken: math.Inf(1)},
		{name: "rate", like: assay.Stage{Kind: assay.LoadOpen}, limit: 123.4},
		{name: "low rate", like: assay.Stage{Kind: assay.LoadOpen}, limit: 0.07},
		{name: "no rate", like: assay.Stage{Kind: assay.LoadOpen}, limit: 1e-9, kept: -1, broken: 1.0 / 1024},
		{name: "unknown", like: assay.Stage{Kind: assay.LoadOpen}, limit: 10, unknown: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := FindMax(FindMaxOptions{Like: tc.like, Start: tc.start, Max: tc.max})
			done := try(t, p, func(s assay.Stage) Outcome {
				o := Outcome{Stage: s, Trials: []stat.Trial{{Allowed: 0.05, N: 100}}}
				if loadOf(s) > tc.limit {
					o.Trials[0].Violations = 50
					if tc.unknown {
						o.Short = "nothing ended"
					}
				}
				return o
			})
			a := found(done)
			switch {
			case tc.kept != 0:
				if a.kept != max(0, tc.kept) || a.broken != tc.broken && !(off(a.broken, tc.broken) <= 1e-3) {
					t.Errorf("%+v, want (%v, %v]", a, tc.kept, tc.broken)
				}
			case tc.unknown:
				if !math.IsInf(a.broken, 1) || !(a.kept <= tc.limit) || a.last.Verdict != stat.LevelUndecided {
					t.Errorf("%+v, want the search to end at the first load that says nothing", a)
				}
			case !(a.kept <= tc.limit && tc.limit < a.broken && a.broken <= max(1.05*a.kept, 0)+0.001+1*b2f(tc.like.Kind == assay.LoadClosed)):
				t.Errorf("%+v, want an interval of 5 %% around %v", a, tc.limit)
			}
			for _, l := range stat.Levels(probes(done)) {
				if (l.Load == a.kept || l.Load == a.broken) && l.Verdict != stat.LevelKept && l.Verdict != stat.LevelBroken {
					t.Errorf("an end of the answer was not tested: %+v", l)
				}
			}
			if len(done) > 40 {
				t.Errorf("%d stages", len(done))
			}
		})
	}
}

type ends struct {
	kept, broken float64
	last         stat.Level
}

func found(done []Outcome) ends {
	levels := stat.Levels(probes(done))
	b := stat.BoundaryOf(levels)
	return ends{b.Kept.Load, b.Broken.Load, levels[len(levels)-1]}
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// The highest rate at which an M/M/1 queue keeps its p95 below a limit: times in
// the system are exponential, with a mean of 1/(mu−λ).
func TestFindMaxInNoise(t *testing.T) {
	const mu, limit = 100.0, 0.15 // ln 20/(mu−λ) < 150 ms up to λ = 80.03
	good, wrong, stages := 0, 0, 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 4))
		done := try(t, FindMax(FindMaxOptions{Like: assay.Stage{Kind: assay.LoadOpen}}), func(s assay.Stage) Outcome {
			o := Outcome{Stage: s, Trials: []stat.Trial{{Allowed: 0.05, N: 8 * int(s.Rate), Tau: 2}}, Behind: s.Rate >= mu}
			for range o.Trials[0].N {
				if s.Rate >= mu || rng.ExpFloat64()/(mu-s.Rate) > limit {
					o.Trials[0].Violations++
				}
			}
			return o
		})
		stages += len(done)
		b := stat.BoundaryOf(stat.Levels(probes(done)))
		switch v := max(b.Kept.Load, b.Edge.Load); {
		case off(v, 80) <= 0.10:
			good++
		case v > 0:
			wrong++
		}
	}
	t.Logf("%d of 200 within 10 %%, %d wrong, %.1f stages each", good, wrong, float64(stages)/200)
	if good < 190 || wrong > 8 {
		t.Errorf("%d of 200 within 10 %%, %d wrong", good, wrong)
	}
}

func TestSweepAndRepeatNames(t *testing.T) {
	names := func(stages []assay.Stage) (out []string) {
		for _, s := range stages {
			out = append(out, s.Name)
		}
		return out
	}
	for _, tc := range []struct {
		got  []assay.Stage
		want []string
	}{
		{Sweep(assay.Stage{Kind: assay.LoadClosed}, 1, 2, 64), []string{"c1", "c2", "c64"}},
		{Sweep(assay.Stage{Kind: assay.LoadClosed}, 8, 8, 8), []string{"c8", "c8-b", "c8-c"}},
		{Sweep(assay.Stage{Kind: assay.LoadOpen}, 12.5, 100), []string{"r12.5", "r100"}},
		{Sweep(assay.Stage{Kind: assay.LoadOpen, Concurrency: 64}, 12.5), []string{"r12.5c64"}},
		{Sweep(assay.Stage{Kind: assay.LoadBatch}, 1, 4), []string{"b1", "b4"}},
		{Repeat(2, Sweep(assay.Stage{Kind: assay.LoadClosed}, 1, 2)...), []string{"c1", "c2", "c1#2", "c2#2"}},
	} {
		if got := names(tc.got); !slices.Equal(got, tc.want) {
			t.Errorf("names %v, want %v", got, tc.want)
		}
	}
	stages := Repeat(3, Sweep(assay.Stage{Kind: assay.LoadClosed}, 1, 2)...)
	p := Fixed(stages...)
	done := try(t, p, func(s assay.Stage) Outcome { return Outcome{Stage: s} })
	if len(done) != 6 || done[5].Stage.Run != 3 {
		t.Errorf("%d stages, the last %+v", len(done), done[5].Stage)
	}
	for want, s := range map[string]assay.Stage{
		"all":        {Kind: assay.LoadOpen},
		"ramp1-10":   {Kind: assay.LoadRamp, RateFrom: 1, RateTo: 10},
		"replay":     {Kind: assay.LoadReplay},
		"sustain80%": {Kind: assay.LoadOpen, Rate: 3, Utilization: 0.8},
	} {
		if got := Name(s); got != want {
			t.Errorf("name %q, want %q", got, want)
		}
	}
}
