package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

func TestRankTestsOfFew(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name  string
		d     []float64
		n     int
		zeros int
		p     float64
	}{
		{"none", nil, 0, 0, nan},
		{"absent", []float64{nan, nan}, 0, 0, nan},
		{"one", []float64{3}, 1, 0, 1},
		{"two", []float64{3, 4}, 2, 0, 0.5},
		{"zeros", []float64{0, 0, 0}, 3, 3, 1},
		{"five cannot", []float64{1, 2, 3, 4, 5}, 5, 0, 0.0625},
		{"six can", []float64{1, 2, 3, 4, 5, nan, 6}, 6, 0, 0.03125},
		{"tied", []float64{1, 1, 1, 1, 1, 1}, 6, 0, 0.03125},
		{"infinite", []float64{inf, inf, 1, 2, 3, 4}, 6, 0, 0.03125},
		{"both infinite", []float64{inf, -inf}, 2, 0, 1},
		{"Pratt's zeros take the small ranks", []float64{0, 0, 1, -2, -3, 4, 5, 6, 7}, 9, 2, 24.0 / 128},
	} {
		r := SignedRank(c.d, TestOptions{})
		if r.N != c.n || r.Zeros != c.zeros || !same(r.P, c.p) {
			t.Errorf("%s: %+v, want p %v", c.name, r, c.p)
		}
	}
	for _, c := range []struct {
		name string
		x, y []float64
		u, p float64
	}{
		{"none", nil, []float64{1}, nan, nan},
		{"absent", []float64{1}, []float64{nan}, nan, nan},
		{"one each", []float64{1}, []float64{2}, 0, 1},
		{"two each", []float64{3, 4}, []float64{1, 2}, 4, 1.0 / 3},
		{"equal", []float64{2, 2, 2}, []float64{2, 2}, 3, 1},
		{"infinite", []float64{inf, inf, inf, inf}, []float64{1, 2, 3, -inf}, 16, 2.0 / 70},
		{"three cannot", []float64{4, 5, 6}, []float64{1, 2, 3}, 9, 0.1},
	} {
		r := MannWhitney(c.x, c.y, TestOptions{})
		if !same(r.Statistic, c.u) || !(same(r.P, c.p) || math.Abs(r.P-c.p) < 1e-15) {
			t.Errorf("%s: %+v, want U %v, p %v", c.name, r, c.u, c.p)
		}
		if n := MannWhitney(c.x, c.y, TestOptions{Normal: true}); math.IsNaN(n.P) != math.IsNaN(c.p) || !math.IsNaN(c.p) && !(n.P >= 0 && n.P <= 1) {
			t.Errorf("%s: the approximation says %+v", c.name, n)
		}
	}
	for _, c := range []struct {
		level float64
		side  Side
		want  int
	}{{0.05, TwoSided, 6}, {0.05, Greater, 5}, {0.01, TwoSided, 8}, {0.0625, TwoSided, 5}, {0.05 / 6, TwoSided, 8}, {0, TwoSided, 0}, {1, TwoSided, 0}, {nan, Less, 0}, {1e-40, Less, 0}} {
		if got := SignedRankNeeds(c.level, c.side); got != c.want {
			t.Errorf("needs at %v %s: %d, want %d", c.level, c.side, got, c.want)
		}
	}
}

// Whatever comes in, a p-value is one, sides mirror each other, and an interval
// encloses what its test does not reject.
func TestRankTestsHoldTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Float64Range(-5, 5), rapid.Map(rapid.IntRange(-3, 3), func(i int) float64 { return float64(i) }),
			rapid.Just(math.NaN()), rapid.Just(math.Inf(1)), rapid.Just(math.Inf(-1)), rapid.Just(math.MaxFloat64))
		x := rapid.SliceOfN(value, 0, 30).Draw(t, "x")
		y := rapid.SliceOfN(value, 0, 30).Draw(t, "y")
		minus := make([]float64, len(x))
		for i := range x {
			minus[i] = -x[i]
		}
		for _, normal := range []bool{false, true} {
			of := func(s Side) (RankTest, RankTest) {
				return SignedRank(x, TestOptions{s, normal}), MannWhitney(x, y, TestOptions{s, normal})
			}
			two, twoU := of(TwoSided)
			less, lessU := of(Less)
			more, moreU := of(Greater)
			for _, r := range []RankTest{two, less, more, twoU, lessU, moreU} {
				if !(r.P >= 0 && r.P <= 1+1e-12) && !(math.IsNaN(r.P) && (r.N == 0 || r.M == 0)) {
					t.Fatalf("p of %+v", r)
				}
			}
			if mirrored := SignedRank(minus, TestOptions{Greater, normal}); !same(mirrored.P, less.P) && !(math.Abs(mirrored.P-less.P) <= 1e-12) {
				t.Fatalf("%v mirrored is %v", less, mirrored)
			}
			if mirrored := MannWhitney(y, x, TestOptions{Greater, normal}); !same(mirrored.P, lessU.P) && !(math.Abs(mirrored.P-lessU.P) <= 1e-12) {
				t.Fatalf("%v mirrored is %v", lessU, mirrored)
			}
		}
		for _, s := range []Shift{HodgesLehmann(x, 0.9), HodgesLehmann2(x, y, 0.9)} {
			if !math.IsNaN(s.Lo) && !(s.Lo <= s.Est && s.Est <= s.Hi && s.Confidence >= 0.9-1e-9) {
				t.Fatalf("%+v", s)
			}
		}
		d := CliffDelta(x, y, 0.9)
		if !math.IsNaN(d.Est) && !(math.Abs(d.Est) <= 1) || !math.IsNaN(d.Lo) && !(-1 <= d.Lo && d.Lo <= d.Est && d.Est <= d.Hi && d.Hi <= 1) {
			t.Fatalf("%+v", d)
		}
		ShapiroWilk(x)
		AutocorrelationTime(x)
		slices.Sort(minus)
		if mark := TukeyFences(minus).Mark(math.NaN()); mark != Inside {
			t.Fatalf("NaN is %s", mark)
		}
	})
}

// The interval is the test turned round: what lies just inside is not rejected,
// what lies just outside is.
func TestShiftInvertsTheTest(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 44))
	for n := 6; n <= 30; n += 4 {
		x, y := make([]float64, n), make([]float64, n+3)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		for i := range y {
			y[i] = rng.ExpFloat64()
		}
		p1 := func(shift float64) float64 {
			d := make([]float64, n)
			for i := range d {
				d[i] = x[i] - shift
			}
			return SignedRank(d, TestOptions{}).P
		}
		p2 := func(shift float64) float64 {
			d := make([]float64, n)
			for i := range d {
				d[i] = x[i] - shift
			}
			return MannWhitney(d, y, TestOptions{}).P
		}
		for name, c := range map[string]struct {
			s Shift
			p func(float64) float64
		}{"paired": {HodgesLehmann(x, 0.95), p1}, "two samples": {HodgesLehmann2(x, y, 0.95), p2}} {
			const e = 1e-9
			if !(c.p(c.s.Lo-e) <= 0.05 && c.p(c.s.Lo+e) > 0.05 && c.p(c.s.Hi-e) > 0.05 && c.p(c.s.Hi+e) <= 0.05) {
				t.Errorf("%s, %d: %+v has p %v %v … %v %v", name, n, c.s, c.p(c.s.Lo-e), c.p(c.s.Lo+e), c.p(c.s.Hi-e), c.p(c.s.Hi+e))
			}
		}
	}
}

// Beyond the exact sizes the ranks come from the normal distribution: they must
// meet the exact ones where both are available.
func TestTailsMeet(t *testing.T) {
	for _, tail := range []float64{0.025, 0.005, 0.0005} {
		k, chance := signedRankTail(MaxExactPairs, tail)
		above, _ := signedRankTail(MaxExactPairs+1, tail)
		if step := above - k; step < 0 || step > 60 || !(chance <= tail) {
			t.Errorf("signed ranks at %v: %d at %d, %d at one more", tail, k, MaxExactPairs, above)
		}
		k, chance = rankSumTail(50, 50, tail)
		above, _ = rankSumTail(50, 51, tail)
		if step := above - k; step < 0 || step > 30 || !(chance <= tail) {
			t.Errorf("rank sums at %v: %d at 50 and 50, %d at one more", tail, k, above)
		}
	}
}

func TestShiftRefuses(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for name, s := range map[string]Shift{
		"none":          HodgesLehmann(nil, 0.95),
		"absent":        HodgesLehmann([]float64{nan}, 0.95),
		"both infinite": HodgesLehmann([]float64{inf, 1, -inf}, 0.95),
		"too many":      HodgesLehmann(make([]float64, MaxPoints+1), 0.95),
		"no second":     HodgesLehmann2([]float64{1}, nil, 0.95),
		"inf less inf":  HodgesLehmann2([]float64{1, inf}, []float64{2, inf}, 0.95),
		"both ways":     HodgesLehmann2([]float64{1, 2}, []float64{inf, -inf}, 0.95),
		"too many both": HodgesLehmann2(make([]float64, 2000), make([]float64, 2000), 0.95),
	} {
		if !math.IsNaN(s.Est) || !math.IsNaN(s.Lo) || !math.IsNaN(s.Hi) {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if s := HodgesLehmann([]float64{1, 2, 3, 4, nan, 5, 6, inf}, 0.95); s.N != 7 || s.Est != 4 || s.Lo != 2 || s.Hi != inf {
		t.Errorf("one infinity: %+v", s)
	}
	if s := HodgesLehmann([]float64{2, 2}, 0.95); s.Est != 2 || !math.IsNaN(s.Lo) {
		t.Errorf("two: %+v", s)
	}
	for _, confidence := range []float64{0, 1, nan, -1} {
		if s := HodgesLehmann(make([]float64, 20), confidence); s.Est != 0 || !math.IsNaN(s.Lo) {
			t.Errorf("confidence %v: %+v", confidence, s)
		}
	}
}

func TestCliffDeltaWords(t *testing.T) {
	for _, c := range []struct {
		d    float64
		want string
	}{{0, "negligible"}, {0.146, "negligible"}, {-0.147, "small"}, {0.33, "medium"}, {-0.473, "medium"}, {0.474, "large"}, {-1, "large"}, {math.NaN(), "unknown"}} {
		if got := (Delta{Est: c.d}).Size().String(); got != c.want {
			t.Errorf("δ = %v is %s, want %s", c.d, got, c.want)
		}
	}
	if d := CliffDelta([]float64{1}, []float64{2, 3}, 0.95); d.Est != -1 || !math.IsNaN(d.Lo) {
		t.Errorf("one value: %+v", d)
	}
	if d := CliffDelta(nil, []float64{2, 3}, 0.95); !math.IsNaN(d.Est) || d.Size() != EffectUnknown {
		t.Errorf("no value: %+v", d)
	}
}

func TestMultipleKeepsNaN(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct{ p, holm, bonferroni []float64 }{
		{nil, []float64{}, []float64{}},
		{[]float64{nan}, []float64{nan}, []float64{nan}},
		{[]float64{nan, 0.01, 0.03, 2}, []float64{nan, 0.04, 0.09, nan}, []float64{nan, 0.04, 0.12, nan}},
		{[]float64{0.9, 0.8}, []float64{1, 1}, []float64{1, 1}},
	} {
		near := func(a, b float64) bool { return same(a, b) || math.Abs(a-b) < 1e-15 }
		if got := Holm(c.p); !slices.EqualFunc(got, c.holm, near) {
			t.Errorf("Holm of %v: %v", c.p, got)
		}
		if got := Bonferroni(c.p); !slices.EqualFunc(got, c.bonferroni, near) {
			t.Errorf("Bonferroni of %v: %v", c.p, got)
		}
	}
}

func TestPlansRefuse(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct{ sd, effect, level, power float64 }{
		{nan, 0.05, 0.05, 0.9}, {-1, 0.05, 0.05, 0.9}, {inf, 0.05, 0.05, 0.9}, {0.02, 0, 0.05, 0.9}, {0.02, -1, 0.05, 0.9}, {0.02, nan, 0.05, 0.9},
		{0.02, 0.05, 0, 0.9}, {0.02, 0.05, 1, 0.9}, {0.02, 0.05, 0.05, 1}, {0.02, 0.05, 0.05, 0}, {1e6, 0.01, 0.05, 0.9},
	} {
		if got := RoundsFor(c.sd, c.effect, c.level, c.power, TwoSided); got != 0 {
			t.Errorf("rounds for %+v: %d", c, got)
		}
	}
	if got := RoundsFor(0, 0.05, 1e-5, 0.9, TwoSided); got != SignedRankNeeds(1e-5, TwoSided) {
		t.Errorf("without noise: %d", got)
	}
	if lo, hi := StddevInterval(1, 1, 0.95); !math.IsNaN(lo) || !math.IsNaN(hi) {
		t.Errorf("spread of one: %v %v", lo, hi)
	}
	for _, l := range []Looks{{}, {At: []int{10}}, {At: []int{0, 5}, Alpha: 0.05}, {At: []int{5, 5}, Alpha: 0.05}, {At: make([]int, 101), Alpha: 0.05}, {At: []int{5}, Alpha: nan}} {
		if got := l.Levels(); got != nil {
			t.Errorf("%+v: %v", l, got)
		}
	}
	if _, _, ok := QuantileSequence(6, 50, 0.05); ok {
		t.Error("six samples enclose a median at every look")
	}
	if _, _, ok := QuantileSequence(7, 50, 0.05); !ok {
		t.Error("seven samples do not enclose a median")
	}
}

func TestSmallAnswers(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		lo, hi, limit float64
		most, least   Gate
	}{
		{0.9, 1, 1.05, Kept, Broken}, {0.9, 1.05, 1.05, Kept, Undecided}, {1, 1.1, 1.05, Undecided, Undecided}, {1.05, 1.1, 1.05, Undecided, Kept},
		{1.06, 1.1, 1.05, Broken, Kept}, {nan, 1, 1.05, Undecided, Undecided}, {0.9, nan, 1.05, Undecided, Undecided}, {0.9, 1, nan, Undecided, Undecided},
		{1, 0.9, 1.05, Undecided, Undecided}, {-inf, inf, 1.05, Undecided, Undecided}, {1.1, inf, 1.05, Broken, Kept},
	} {
		if got := NonInferiority(c.lo, c.hi, c.limit); got != c.most {
			t.Errorf("[%v,%v] at most %v: %s, want %s", c.lo, c.hi, c.limit, got, c.most)
		}
		if got := NonInferiorityAtLeast(c.lo, c.hi, c.limit); got != c.least {
			t.Errorf("[%v,%v] at least %v: %s, want %s", c.lo, c.hi, c.limit, got, c.least)
		}
	}
	f := TukeyFences([]float64{1, 2, 3, 4, 5, 6, 7, 8}) // quartiles 2 and 6
	for _, c := range []struct {
		x    float64
		want Outlier
	}{{4, Inside}, {12, Inside}, {12.1, MildOutlier}, {18, MildOutlier}, {18.1, ExtremeOutlier}, {-4.1, MildOutlier}, {-10.1, ExtremeOutlier}, {inf, ExtremeOutlier}, {nan, Inside}} {
		if got := f.Mark(c.x); got != c.want {
			t.Errorf("%v is %s, want %s", c.x, got, c.want)
		}
	}
	if got := TukeyFences([]float64{1, 2, 3}).Mark(1e9); got != Inside {
		t.Errorf("of three samples, one is %s", got)
	}
	for _, c := range []struct {
		x           []float64
		share, want float64
	}{{nil, 0.1, nan}, {[]float64{3}, 0.4, 3}, {[]float64{1, 5}, 0.49, 3}, {[]float64{1, 2, 9}, 0.4, 2}, {[]float64{1, 2}, 0.5, nan}, {[]float64{1, 2}, nan, nan}, {[]float64{-inf, 1, 3, inf}, 0.25, 2}} {
		if got := TrimmedMean(c.x, c.share); !same(got, c.want) {
			t.Errorf("trimmed mean of %v by %v: %v, want %v", c.x, c.share, got, c.want)
		}
	}
	for _, c := range []struct {
		x    []float64
		want float64
	}{{nil, nan}, {[]float64{1}, nan}, {[]float64{2, 2, 2}, 1}, {[]float64{1, 2}, 1}, {[]float64{1, nan, inf}, nan}, {make([]float64, MaxLagged+1), nan}} {
		if got := AutocorrelationTime(c.x); !same(got, c.want) {
			t.Errorf("autocorrelation time of %d: %v, want %v", len(c.x), got, c.want)
		}
	}
	for _, x := range [][]float64{nil, {1, 2}, {1, 1, 1}, {1, 2, inf}, make([]float64, 5001), {1, nan, 2}} {
		if r := ShapiroWilk(x); !math.IsNaN(r.W) || !math.IsNaN(r.P) {
			t.Errorf("normality of %d samples: %+v", len(x), r)
		}
	}
}

// The shift that detectable finds is the one at which just as many of its own
// samples are rejected by the test itself.
func TestDetectableIsTheTest(t *testing.T) {
	const n, level, power = 12, 0.05, 0.9
	shift := detectable(n, level, power, TwoSided)
	rejected := func(shift float64) (count int) {
		rng := rand.New(rand.NewPCG(n, simulationSeed))
		for range simulations {
			d := make([]float64, n)
			for i := range d {
				d[i] = shift + rng.NormFloat64()
			}
			if SignedRank(d, TestOptions{Side: Greater}).P <= level/2 {
				count++
			}
		}
		return count
	}
	want := int(math.Ceil(power*simulations + 2*math.Sqrt(simulations*power*(1-power))))
	if low, high := rejected(shift-1e-9), rejected(shift+1e-9); low != want-1 || high != want {
		t.Errorf("just below %v it is %d, just above %d of %d; want %d", shift, low, high, simulations, want)
	}
}
