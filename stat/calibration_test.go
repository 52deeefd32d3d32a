package stat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// ar1 is noise of standard deviation 1 and correlation ρ from one to the next.
func ar1(rng *rand.Rand, n int, rho float64) []float64 {
	y := make([]float64, n)
	x := rng.NormFloat64()
	for i := range y {
		y[i] = x
		x = rho*x + math.Sqrt(1-rho*rho)*rng.NormFloat64()
	}
	return y
}

const windowSeconds = 10

func times(n int) []float64 {
	at := make([]float64, n)
	for i := range at {
		at[i] = windowSeconds * float64(i)
	}
	return at
}

// cleanMemory has no leak: noise of 0.1 MB to 5 % of a few GB, up to three
// allocations in the first 40 % of the run, and a pool that fills and settles.
func cleanMemory(rng *rand.Rand, n int, rho float64) []float64 {
	base := 2e9 + 18e9*rng.Float64()
	noise := 1e5 * math.Pow(0.05*base/1e5, rng.Float64())
	y := ar1(rng, n, rho)
	for i := range y {
		y[i] = base + noise*y[i]
	}
	for range rng.IntN(4) {
		from, size := int(0.4*rng.Float64()*float64(n)), 16e6*math.Pow(32, rng.Float64())
		for i := from; i < n; i++ {
			y[i] += size
		}
	}
	if rng.IntN(2) == 0 {
		size, length := 200e6*rng.Float64(), (0.01+0.09*rng.Float64())*float64(n)
		for i := range y {
			y[i] -= size * math.Exp(-float64(i)/length)
		}
	}
	return y
}

// cleanRate is tokens a second; cleanLatency, skewed, is the time to the first.
func cleanRate(rng *rand.Rand, n int, rho float64) []float64 {
	noise := 0.01 + 0.04*rng.Float64()
	y := ar1(rng, n, rho)
	for i := range y {
		y[i] = 1500 * (1 + noise*y[i])
	}
	return y
}

func cleanLatency(rng *rand.Rand, n int, rho float64) []float64 {
	noise := 0.01 + 0.04*rng.Float64()
	y := ar1(rng, n, rho)
	for i := range y {
		y[i] = 80 * math.Exp(noise*y[i])
		if rng.IntN(50) == 0 {
			y[i] *= 1 + rng.Float64() // a hiccup
		}
	}
	return y
}

// A thousand clean runs, each tested for leak and drift as a caller would, may
// raise ten false alarms. A falling memory or a rising rate counts as well.
func TestCleanRunsRaiseNoAlarm(t *testing.T) {
	t.Parallel()
	runs := experiments(t, 1000, 100)
	alarms := map[string]int{}
	answers := map[Direction]int{}
	total := 0
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 2024))
		n, rho := 60+rng.IntN(121), []float64{0, 0.5, 0.8}[seed%3]
		at, any := times(n), false
		for _, c := range []struct {
			name string
			y    []float64
			o    TrendOptions
		}{
			{"memory", cleanMemory(rng, n, rho), DefaultLeak()},
			{"rate", cleanRate(rng, n, rho), DefaultDrift()},
			{"latency", cleanLatency(rng, n, rho), DefaultDrift()},
		} {
			v := Drift(at, c.y, c.o)
			answers[v.Direction]++
			if v.Direction == Rising || v.Direction == Falling {
				any = true
				alarms[fmt.Sprintf("%s ρ=%v", c.name, rho)]++
				t.Logf("seed %d, %d windows, ρ=%v, %s: %s", seed, n, rho, c.name, v.Why)
			}
		}
		if any {
			total++
		}
	}
	t.Logf("%d of %d clean runs raised an alarm %v; answers: unknown %d, none %d", total, runs, alarms, answers[DirectionUnknown], answers[DirectionNone])
	if total > max(3, runs/100) { // of few runs, one in a hundred would be luck
		t.Errorf("%d false alarms in %d runs; %d are allowed", total, runs, max(3, runs/100))
	}
	if answers[DirectionNone] < runs/2 {
		t.Errorf("only %d of %d series were answered: silence is not calibration", answers[DirectionNone], 3*runs)
	}
}

// Without a minimum effect nothing but the level holds false alarms back: this
// is the test of the interval and of p themselves.
func TestLevelHoldsWithoutAnEffect(t *testing.T) {
	t.Parallel()
	runs := experiments(t, 600, 60)
	for _, rho := range []float64{0, 0.5, 0.8} {
		alarms, plain := 0, 0
		for seed := range uint64(runs) {
			rng := rand.New(rand.NewPCG(seed, 33))
			n := 60 + rng.IntN(121)
			y := cleanRate(rng, n, rho)
			if v := Drift(times(n), y, TrendOptions{Level: 0.02}); v.Direction != DirectionUnknown && v.Direction != DirectionNone {
				alarms++
			}
			if !(mannKendall(y).P >= 0.02) {
				plain++
			}
		}
		t.Logf("ρ=%v: %.3f at level 0.02; Hamed and Rao's correction alone gives %.3f", rho, float64(alarms)/float64(runs), float64(plain)/float64(runs))
		if alarms > runs*2/100+int(math.Ceil(3.5*math.Sqrt(float64(runs)*0.02*0.98))) { // so many standard deviations above
			t.Errorf("ρ=%v: %d alarms in %d runs at level 0.02", rho, alarms, runs)
		}
	}
}

// The lengths and noises that DefaultLeak and DefaultDrift state.
func TestLeakAndDriftAreFound(t *testing.T) {
	t.Parallel()
	runs := experiments(t, 200, 25)
	leak := func(y []float64, noise float64) {
		for i := range y {
			y[i] = 8e9 + noise*y[i] + 1e6*windowSeconds/60*float64(i)
		}
	}
	falling := func(y []float64, noise float64) {
		for i := range y {
			y[i] = 1500 * (1 - 0.05*windowSeconds/600*float64(i)) * (1 + noise*y[i])
		}
	}
	rising := func(y []float64, noise float64) {
		for i := range y {
			y[i] = 80 * (1 + 0.05*windowSeconds/600*float64(i)) * math.Exp(noise*y[i])
		}
	}
	for _, c := range []struct {
		name       string
		make       func([]float64, float64)
		n          int
		rho, noise float64
		o          TrendOptions
		want       Direction
	}{
		{"leak", leak, 120, 0, 4e6, DefaultLeak(), Rising},
		{"leak", leak, 120, 0.5, 2e6, DefaultLeak(), Rising},
		{"leak", leak, 240, 0.8, 2e6, DefaultLeak(), Rising},
		{"rate", falling, 180, 0, 0.04, DefaultDrift(), Falling},
		{"rate", falling, 180, 0.5, 0.02, DefaultDrift(), Falling},
		{"rate", falling, 240, 0.8, 0.02, DefaultDrift(), Falling},
		{"latency", rising, 180, 0, 0.04, DefaultDrift(), Rising},
		{"latency", rising, 180, 0.5, 0.02, DefaultDrift(), Rising},
		{"latency", rising, 240, 0.8, 0.02, DefaultDrift(), Rising},
	} {
		found, covered := 0, 0
		for seed := range uint64(runs) {
			y := ar1(rand.New(rand.NewPCG(seed, 55)), c.n, c.rho)
			c.make(y, c.noise)
			v := Drift(times(c.n), y, c.o)
			if v.Direction == c.want {
				found++
			}
			if c.name == "leak" && v.Slope.Lo <= 1e6 && v.Slope.Hi >= 1e6 {
				covered++
			}
		}
		t.Logf("%s, %d windows, noise %v, ρ=%v: found in %.1f %%", c.name, c.n, c.noise, c.rho, 100*float64(found)/float64(runs))
		if found < runs*95/100 {
			t.Errorf("%s, %d windows, noise %v, ρ=%v: found in %d of %d runs", c.name, c.n, c.noise, c.rho, found, runs)
		}
		if c.name == "leak" && covered < runs*97/100 {
			t.Errorf("%s ρ=%v: the interval holds the truth in %d of %d runs", c.name, c.rho, covered, runs)
		}
	}
}

// The default penalty: rarely a change where there is none, though the noise is
// correlated, and a step of several deviations where it is.
func TestChangePointsDefaultPenalty(t *testing.T) {
	t.Parallel()
	runs := experiments(t, 400, 80)
	for _, c := range []struct {
		rho, step float64
		most      float64 // share of series without a change that may show one
	}{{0, 3, 0.10}, {0.5, 5, 0.10}, {0.8, 8, 0.20}} {
		const n = 150
		none, hit := 0, 0
		for seed := range uint64(runs) {
			y := ar1(rand.New(rand.NewPCG(seed, 66)), n, c.rho)
			if len(ChangePoints(y, ChangeOptions{})) > 0 {
				none++
			}
			for i := 60; i < n; i++ {
				y[i] += c.step
			}
			if slices.ContainsFunc(ChangePoints(y, ChangeOptions{}), func(k int) bool { return k >= 58 && k <= 62 }) {
				hit++
			}
		}
		t.Logf("ρ=%v: %.3f of flat series are cut; a step of %v deviations is found in %.3f", c.rho, float64(none)/float64(runs), c.step, float64(hit)/float64(runs))
		if float64(none) > c.most*float64(runs) || hit < runs*90/100 {
			t.Errorf("ρ=%v: %d of %d flat series cut, step found in %d", c.rho, none, runs, hit)
		}
	}
}
