package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

func stages(trials ...Trial) []Probe {
	var out []Probe
	for _, t := range trials {
		out = append(out, Probe{Load: 8, Trials: []Trial{t}})
	}
	return out
}

func one(t *testing.T, probes []Probe) Level {
	t.Helper()
	levels := Levels(probes)
	if len(levels) != 1 {
		t.Fatalf("%d levels", len(levels))
	}
	return levels[0]
}

// What the measure's definition says: so many independent requests without a
// violation keep a percentile, and so many more make up for one.
func TestLevelNeedsSoManyRequests(t *testing.T) {
	for allowed, need := range map[float64]int{0.01: 303, 0.05: 58, 0.1: 27} {
		for n, want := range map[int]LevelVerdict{need - 1: LevelOpen, need: LevelKept} {
			if l := one(t, stages(Trial{Allowed: allowed, N: n})); l.Verdict != want {
				t.Errorf("%g: %d requests: %s, want %s", allowed, n, l.Verdict, want)
			}
			// Of requests that say the same three times over, three times as many.
			if l := one(t, stages(Trial{Allowed: allowed, N: 3 * n, Tau: 3})); l.Verdict != want {
				t.Errorf("%g: %d requests of autocorrelation time 3: %s, want %s", allowed, 3*n, l.Verdict, want)
			}
		}
	}
	for n, want := range map[int]LevelVerdict{303 + 91: LevelOpen, 303 + 93: LevelKept} {
		if l := one(t, stages(Trial{Allowed: 0.01, N: n, Violations: 1})); l.Verdict != want {
			t.Errorf("%d requests with one violation: %s, want %s", n, l.Verdict, want)
		}
	}
}

func TestLevelVerdicts(t *testing.T) {
	good := Trial{Allowed: 0.05, N: 20}
	bad := Trial{Allowed: 0.05, N: 20, Violations: 20}
	burst := Trial{Allowed: 0.05, N: 20, Violations: 5, Clustered: true}
	some := Trial{Allowed: 0.05, N: 20, Violations: 1}
	mean := func(m float64) Trial { return Trial{Mean: m, Limit: 100} }
	nothing := Probe{Load: 8, Void: true}
	behind := Probe{Load: 8, Trials: []Trial{good}, Behind: true}
	for _, c := range []struct {
		name   string
		probes []Probe
		want   LevelVerdict
		leans  bool
		count  int
		aside  int
	}{
		{"a good stage", stages(good), LevelOpen, false, 1, -1},
		{"three of them", stages(good, good, good), LevelKept, false, 3, -1},
		{"one bad stage breaks nothing", stages(bad), LevelOpen, true, 1, -1},
		{"two do", stages(bad, bad), LevelBroken, true, 2, -1},
		{"a bad one that good ones make up for", stages(bad, good, good, good, good, good, good), LevelKept, false, 7, -1},
		{"a burst is set aside", stages(burst, good, good, good), LevelKept, false, 3, 0},
		{"but only once", stages(burst, burst, burst), LevelBroken, true, 2, 0},
		{"at the limit for ten stages", stages(some, some, some, some, some, some, some, some, some, some), LevelEdge, false, 10, -1},
		{"too few for ten stages", func() (out []Probe) {
			for range 10 {
				out = append(out, stages(Trial{Allowed: 0.01, N: 8})...)
			}
			return out
		}(), LevelUndecided, false, 10, -1},
		{"nothing ended, three times", []Probe{nothing, nothing, nothing}, LevelUndecided, false, 0, -1},
		{"nothing ended, and then it did", append([]Probe{nothing}, stages(good, good, good)...), LevelKept, false, 3, -1},
		{"behind once", []Probe{behind}, LevelOpen, true, 1, -1},
		{"behind twice", []Probe{behind, behind}, LevelBroken, true, 2, -1},
		{"a mean well below", stages(mean(50), mean(51), mean(50), mean(49)), LevelKept, false, 2, -1},
		{"a mean well above", stages(mean(150), mean(151), mean(150), mean(149)), LevelBroken, true, 2, -1},
		{"no mean, as nothing succeeded", stages(mean(math.Inf(1)), mean(math.Inf(1))), LevelBroken, true, 2, -1},
		{"a mean at its limit", stages(mean(99), mean(101), mean(99), mean(101), mean(99), mean(101), mean(99), mean(101), mean(99), mean(101)), LevelEdge, false, 10, -1},
		{"a mean that may be anything", stages(mean(50), mean(150), mean(50), mean(150), mean(50), mean(150), mean(50), mean(150), mean(50), mean(150)), LevelUndecided, false, 10, -1},
	} {
		l := one(t, c.probes)
		if l.Verdict != c.want || len(l.Stages) != c.count || l.SetAside != c.aside || l.Leans != c.leans && l.Verdict == LevelOpen {
			t.Errorf("%s: %+v, want %s after %d stages", c.name, l, c.want, c.count)
		}
	}
	optional := Trial{Allowed: 0.01, N: 20, Optional: true}
	for _, c := range []struct {
		failures int
		want     LevelVerdict
	}{{0, LevelKept}, {10, LevelBroken}} {
		optional.Violations = c.failures
		p := Probe{Load: 8, Trials: []Trial{good, optional}}
		if l := one(t, []Probe{p, p, p}); l.Verdict != c.want {
			t.Errorf("%d failures that no objective speaks of: %s, want %s", c.failures, l.Verdict, c.want)
		}
	}
}

// The test errs as seldom as it says: at half the allowed share of violations
// and at twice of it.
func TestLevelErrsSeldom(t *testing.T) {
	for _, allowed := range []float64{0.01, 0.05, 0.1, 0.5} {
		const levels = 2000
		rng := rand.New(rand.NewPCG(1, uint64(allowed*1000)))
		for _, c := range []struct {
			share float64
			wrong LevelVerdict
		}{{allowed / 2, LevelBroken}, {min(2*allowed, (1+allowed)/2), LevelKept}} {
			wrong, edges := 0, 0
			for range levels {
				var probes []Probe
				verdict := LevelOpen
				for verdict == LevelOpen {
					s := Trial{Allowed: allowed, N: 120}
					for range s.N {
						if rng.Float64() < c.share {
							s.Violations++
						}
					}
					probes = append(probes, stages(s)...)
					verdict = Levels(probes)[0].Verdict
				}
				switch verdict {
				case c.wrong:
					wrong++
				case LevelEdge, LevelUndecided:
					edges++
				}
			}
			t.Logf("allowed %g, true %g: %d wrong, %d not decided of %d", allowed, c.share, wrong, edges, levels)
			if wrong > levels*15/1000 { // 1 % and three standard deviations
				t.Errorf("allowed %g, true %g: %d of %d are wrong", allowed, c.share, wrong, levels)
			}
		}
	}
}

func TestTypical(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
		ok     bool
	}{
		{nil, 0, false}, {[]float64{5}, 5, false}, {[]float64{100, 102}, 101, true}, {[]float64{100, 60}, 80, false},
		{[]float64{100, 60, 102}, 100, true}, {[]float64{0, 0}, 0, true},
	} {
		if v, ok := Typical(c.values); v != c.want || ok != c.ok {
			t.Errorf("%v: %g %v", c.values, v, ok)
		}
	}
}
