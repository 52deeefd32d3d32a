package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// noises are symmetric around zero, each with its own tails.
var noises = []struct {
	name string
	draw func(*rand.Rand) float64
}{
	{"normal", (*rand.Rand).NormFloat64},
	{"t with 2 degrees", func(r *rand.Rand) float64 { return r.NormFloat64() / math.Sqrt(r.ExpFloat64()) }},
	{"Cauchy", func(r *rand.Rand) float64 { return r.NormFloat64() / r.NormFloat64() }},
	{"one in ten 20 times as wide", func(r *rand.Rand) float64 {
		x := r.NormFloat64()
		if r.IntN(10) == 0 {
			x *= 20
		}
		return x
	}},
}

func drawn(rng *rand.Rand, n int, draw func(*rand.Rand) float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = draw(rng)
	}
	return v
}

// above is the most of n experiments that may show what has a chance of p: two
// and a half standard deviations more than expected.
func above(n int, p float64) int {
	return int(math.Ceil(float64(n)*p + 2.5*math.Sqrt(float64(n)*p*(1-p))))
}

func below(n int, p float64) int { return n - above(n, 1-p) }

// Between equals the tests reject in at most the level, whatever the tails, and
// the interval holds the truth as often as it says.
func TestRankTestsKeepTheirLevel(t *testing.T) {
	t.Parallel()
	runs := experiments(t, 2000, 200)
	for _, noise := range noises {
		for _, n := range []int{10, 15, 20, 30} {
			rng := rand.New(rand.NewPCG(uint64(n), 101))
			signed, sums, sided, missed := 0, 0, 0, 0
			for range runs {
				d, e := drawn(rng, n, noise.draw), drawn(rng, n, noise.draw)
				if SignedRank(d, TestOptions{}).P <= 0.05 {
					signed++
				}
				if SignedRank(d, TestOptions{Side: Greater}).P <= 0.05 {
					sided++
				}
				if MannWhitney(d, e, TestOptions{}).P <= 0.05 {
					sums++
				}
				if s := HodgesLehmann(d, 0.95); !(s.Lo <= 0 && s.Hi >= 0) {
					missed++
				}
			}
			share := func(k int) float64 { return float64(k) / float64(runs) }
			t.Logf("%s, n=%d: signed ranks %.3f (one side %.3f), rank sums %.3f, interval misses %.3f", noise.name, n, share(signed), share(sided), share(sums), share(missed))
			for name, k := range map[string]int{"signed ranks": signed, "one side": sided, "rank sums": sums, "interval": missed} {
				// From ten on the exact levels lie between 0.042 and 0.05: far
				// fewer rejections would be as wrong as more.
				if k > above(runs, 0.05) || k < below(runs, 0.035) {
					t.Errorf("%s, n=%d: %s: %d of %d at 0.05", noise.name, n, name, k, runs)
				}
			}
		}
	}
}

// What RoundsFor plans must be enough, also when the runs of two engines are
// made up one by one, and one round in ten fewer must not be enough: a plan
// that asks for too much is expensive.
func TestRoundsForReachesItsPower(t *testing.T) {
	t.Parallel()
	runs := experiments(t, 3000, 300)
	for _, c := range []struct {
		sd, effect, level float64
		side              Side
		from, to          int
	}{
		{0.02, 0.05, 0.05, TwoSided, 10, 10},
		{0.02 * math.Sqrt2, 0.05, 0.05, TwoSided, 10, 10}, // each engine 2 %
		{0.02 * math.Sqrt2, 0.05, 0.05 / 12, TwoSided, 11, 14},
		{0.05, 0.05, 0.05, TwoSided, 12, 16},
		{0.05, -0.05, 0.05, TwoSided, 11, 15},
		{0.08, 0.05, 0.05, Greater, 22, 30},
		{0.10, 0.05, 0.01, TwoSided, 63, 74},
		{0.20, 0.05, 0.05, TwoSided, 185, 210},
		{0.02, 0.01, 0.05, TwoSided, 42, 52},
	} {
		if c.from > 40 && runs < 3000 {
			t.Logf("sd %.3f, effect %v: left out with -race or -short", c.sd, c.effect)
			continue
		}
		n := RoundsFor(c.sd, c.effect, c.level, 0.9, c.side)
		if n < c.from || n > c.to {
			t.Errorf("%+v: %d rounds", c, n)
		}
		rng := rand.New(rand.NewPCG(uint64(n), 202))
		power := func(n int) float64 {
			found := 0
			for range runs {
				d := make([]float64, n)
				for i := range d {
					d[i] = math.Abs(math.Log1p(c.effect)) + c.sd*rng.NormFloat64()
				}
				if SignedRank(d, TestOptions{Side: c.side}).P <= c.level {
					found++
				}
			}
			return float64(found) / float64(runs)
		}
		full, fewer := power(n), power(n*9/10)
		mde := math.Expm1(c.sd * detectable(n, c.level, 0.9, c.side))
		t.Logf("sd %.3f, effect %v, level %.4f, %s: %d rounds find it in %.1f %%, %d in %.1f %%; the least effect that %d find is %.4f",
			c.sd, c.effect, c.level, c.side, n, 100*full, n*9/10, 100*fewer, n, mde)
		if int(full*float64(runs)) < below(runs, 0.9) {
			t.Errorf("%+v: %d rounds find it in %.3f", c, n, full)
		}
		if n > MinRounds+2 && int(fewer*float64(runs)) > above(runs, 0.92) {
			t.Errorf("%+v: %d rounds would do: %.3f", c, n*9/10, fewer)
		}
		if !(mde <= math.Expm1(math.Abs(math.Log1p(c.effect)))*1.02) {
			t.Errorf("%+v: %d rounds detect only %v", c, n, mde)
		}
	}
	simulated, approximated := detectable(maxSimulated, 0.05, 0.9, TwoSided), zs(0.05, 0.9, TwoSided)/math.Sqrt(maxSimulated*efficiency/margin)
	if !(math.Abs(simulated/approximated-1) <= 0.06) {
		t.Errorf("simulation and approximation do not meet: %v, %v", simulated, approximated)
	}
}

// tenLooks after every five rounds from the tenth.
func tenLooks() []int {
	at := make([]int, 10)
	for i := range at {
		at[i] = 10 + 5*i
	}
	return at
}

// plans are those that calibrations try, and the share of false alarms that each
// must reach: silence is not calibration.
func plans(at []int) []plannedLooks {
	plain := make([]float64, len(at))
	for i := range plain {
		plain[i] = 0.05
	}
	return []plannedLooks{
		{"each look at 0.05", plain, 0.13},
		{"planned looks", Looks{At: at, Alpha: 0.05}.Levels(), 0.012},
	}
}

type plannedLooks struct {
	name   string
	levels []float64
	least  float64
}

// An experiment between equals that may stop at each of ten looks errs no more
// often in total than one with a single look. Looking each time at the plain
// level errs in nearly a fifth, which is what all this is against.
func TestLooksKeepTheLevel(t *testing.T) {
	t.Parallel()
	runs := experiments(t, 4000, 200)
	at := tenLooks()
	for _, noise := range noises {
		rng := rand.New(rand.NewPCG(7, 303))
		p := make([][]float64, runs)
		for run := range p {
			d := drawn(rng, at[len(at)-1], noise.draw)
			for _, n := range at {
				p[run] = append(p[run], SignedRank(d[:n], TestOptions{}).P)
			}
		}
		for i, plan := range plans(at) {
			stopped := 0
			for _, looks := range p {
				for k := range looks {
					if looks[k] <= plan.levels[k] {
						stopped++
						break
					}
				}
			}
			t.Logf("%s, %s: a difference in %.4f", noise.name, plan.name, float64(stopped)/float64(runs))
			if i > 0 && stopped > above(runs, 0.05) {
				t.Errorf("%s, %s: a difference in %d of %d", noise.name, plan.name, stopped, runs)
			}
			if stopped < below(runs, plan.least) {
				t.Errorf("%s, %s: only %d of %d: what may be spent is not used", noise.name, plan.name, stopped, runs)
			}
		}
	}
}

// The same for a gate when the truth is the target itself: each wrong verdict
// has half of the error.
func TestLooksKeepAGateAtItsLimit(t *testing.T) {
	t.Parallel()
	runs := experiments(t, 2000, 100)
	at, limit := tenLooks(), 1.05
	for i, plan := range plans(at) {
		rng := rand.New(rand.NewPCG(7, 304))
		seen := map[Gate]int{}
		for range runs {
			d := drawn(rng, at[len(at)-1], noises[1].draw)
			verdict := Undecided
			for k, n := range at {
				s := HodgesLehmann(d[:n], 1-plan.levels[k])
				if verdict = NonInferiority(limit*math.Exp(0.01*s.Lo), limit*math.Exp(0.01*s.Hi), limit); verdict != Undecided {
					break
				}
			}
			seen[verdict]++
		}
		t.Logf("%s: kept in %.4f, broken in %.4f", plan.name, float64(seen[Kept])/float64(runs), float64(seen[Broken])/float64(runs))
		if i > 0 && (seen[Kept] > above(runs, 0.025) || seen[Broken] > above(runs, 0.025)) {
			t.Errorf("%s: %v of %d", plan.name, seen, runs)
		}
		if seen[Kept]+seen[Broken] < below(runs, plan.least) {
			t.Errorf("%s: %v of %d: what may be spent is not used", plan.name, seen, runs)
		}
	}
}

// The sequences may be looked at after every sample.
func TestSequencesHoldAtEveryLook(t *testing.T) {
	t.Parallel()
	runs := experiments(t, 2000, 100)
	const longest = 300
	for _, p := range []float64{0.5, 0.1, 0.02} {
		missed := 0
		rng := rand.New(rand.NewPCG(8, 404))
		for range runs {
			k := int64(0)
			for n := int64(1); n <= longest; n++ {
				if rng.Float64() < p {
					k++
				}
				// p is outside exactly when its own ratio rules it out.
				if !(logJeffreys(k, n)-logLikelihood(k, n, p) < -math.Log(0.05)) {
					missed++
					break
				}
			}
		}
		t.Logf("chance %v: the sequence of %d looks ever misses in %.4f", p, longest, float64(missed)/float64(runs))
		if missed > above(runs, 0.05) || p == 0.5 && missed < runs/100 {
			t.Errorf("chance %v: missed in %d of %d", p, missed, runs)
		}
	}
	for _, c := range []struct {
		name  string
		draw  func(*rand.Rand) float64
		level float64
		truth float64
	}{
		{"median of Cauchy", noises[2].draw, 50, 0},
		{"median of skewed", (*rand.Rand).ExpFloat64, 50, math.Ln2},
		{"median of tied", func(r *rand.Rand) float64 { return float64(r.IntN(3)) }, 50, 1},
		{"p90 of skewed", (*rand.Rand).ExpFloat64, 90, math.Log(10)},
	} {
		missed := 0
		rng := rand.New(rand.NewPCG(9, 505))
		for range runs {
			atMost, less := int64(0), int64(0)
			for n := int64(1); n <= longest; n++ {
				x := c.draw(rng)
				if x <= c.truth {
					atMost++
				}
				if x < c.truth {
					less++
				}
				// The lo-th is above the truth when fewer than lo are at most it,
				// the hi-th below it when hi or more are less.
				if lo, hi, _ := QuantileSequence(n, c.level, 0.05); atMost < lo || less >= hi {
					missed++
					break
				}
			}
		}
		t.Logf("%s: the sequence of %d looks ever misses in %.4f", c.name, longest, float64(missed)/float64(runs))
		if missed > above(runs, 0.05) {
			t.Errorf("%s: missed in %d of %d", c.name, missed, runs)
		}
	}
}

// A clear effect is found at the first looks: what stopping early is for.
func TestLooksFindEarly(t *testing.T) {
	t.Parallel()
	runs := experiments(t, 2000, 300)
	at := tenLooks()
	shift := math.Log(1.05) / (0.03) // 5 % with an sd of 3 %
	const most = 25                  // rounds on average, of 55
	levels := Looks{At: at, Alpha: 0.05}.Levels()
	rng := rand.New(rand.NewPCG(10, 606))
	found, rounds := 0, 0
	for range runs {
		d := drawn(rng, at[len(at)-1], func(r *rand.Rand) float64 { return shift + r.NormFloat64() })
		stopped := at[len(at)-1]
		for i, n := range at {
			if SignedRank(d[:n], TestOptions{}).P <= levels[i] {
				found, stopped = found+1, n
				break
			}
		}
		rounds += stopped
	}
	t.Logf("found in %.1f %%, after %.1f rounds on average", 100*float64(found)/float64(runs), float64(rounds)/float64(runs))
	if found < runs*99/100 || rounds > most*runs {
		t.Errorf("found %d of %d, %d rounds", found, runs, rounds)
	}
}

// How often the intervals that are approximations hold the truth. Cliff's δ of
// normal samples a deviation apart is 2Φ(1/√2)−1.
func TestApproximateIntervalsCover(t *testing.T) {
	t.Parallel()
	runs := experiments(t, 1500, 80)
	for _, c := range []struct {
		n     int
		shift float64
		least float64
	}{{10, 0, 0.92}, {10, 1, 0.91}, {20, 0, 0.93}, {20, 1, 0.92}, {50, 0.5, 0.935}} {
		truth := 2*normalCDF(c.shift/math.Sqrt2) - 1
		rng := rand.New(rand.NewPCG(uint64(c.n), 707))
		held := 0
		for range runs {
			x, y := drawn(rng, c.n, (*rand.Rand).NormFloat64), drawn(rng, c.n, (*rand.Rand).NormFloat64)
			for i := range x {
				x[i] += c.shift
			}
			if d := CliffDelta(x, y, 0.95); d.Lo <= truth && truth <= d.Hi {
				held++
			}
		}
		t.Logf("Cliff's δ of %d and %d, truth %.2f: held in %.3f", c.n, c.n, truth, float64(held)/float64(runs))
		if held < below(runs, c.least) {
			t.Errorf("Cliff's δ of %d, shift %v: held in %d of %d", c.n, c.shift, held, runs)
		}
	}
}
