package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNthIsTheSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.Float64Range(0, 3)
		v := rapid.SliceOfN(rapid.OneOf(rapid.Just(1.0), few, rapid.Float64Range(-1e300, 1e300)), 1, 300).Draw(t, "v")
		k := rapid.IntRange(0, len(v)-1).Draw(t, "k")
		sorted := slices.Clone(v)
		slices.Sort(sorted)
		if got := nth(slices.Clone(v), k); got != sorted[k] {
			t.Fatalf("got %v, want %v", got, sorted[k])
		}
		n := len(sorted)
		if got, want := middleOf(v), sorted[(n-1)/2]/2+sorted[n/2]/2; !(math.Abs(got-want) <= 1e-15*math.Abs(want)) {
			t.Fatalf("middle: got %v, want %v", got, want)
		}
	})
}

// A slope turns with the axes: what is done to y is done to the slope.
func TestTheilSenTurnsWithTheAxes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var x, y, down, tilted, shifted []float64
	for i := range 50 {
		x = append(x, float64(i))
		y = append(y, 0.3*float64(i)+rng.NormFloat64())
		down = append(down, -2*y[i])
		tilted = append(tilted, y[i]+5*x[i])
		shifted = append(shifted, y[i]-7)
	}
	a, b, c := theilSen(x, y, 0.9), theilSen(x, down, 0.9), theilSen(x, shifted, 0.9)
	near(t, "slope", b.Slope, -2*a.Slope, 1e-12)
	near(t, "lo", b.Lo, -2*a.Hi, 1e-12)
	near(t, "hi", b.Hi, -2*a.Lo, 1e-12)
	near(t, "tilted slope", theilSen(x, tilted, 0.9).Slope, a.Slope+5, 1e-12)
	near(t, "shifted slope", c.Slope, a.Slope, 1e-12)
	near(t, "shifted intercept", c.Intercept, a.Intercept-7, 1e-9)
	if wide := theilSen(x, y, 0.99); !(wide.Lo < a.Lo && a.Lo < a.Slope && a.Slope < a.Hi && a.Hi < wide.Hi) {
		t.Errorf("intervals are not nested: %+v, %+v", a, wide)
	}
}

func TestTrendsRefuse(t *testing.T) {
	nan := math.NaN()
	for name, s := range map[string]Slope{
		"nothing": theilSen(nil, nil, 0.95),
		"lengths": theilSen([]float64{1, 2}, []float64{1}, 0.95),
		"one x":   theilSen([]float64{2, 2, 2}, []float64{1, 2, 3}, 0.95),
		"all NaN": theilSen([]float64{1, 2, 3}, []float64{nan, nan, 1}, 0.95),
	} {
		if s.N != 0 || !math.IsNaN(s.Slope) || !math.IsNaN(s.Lo) || !math.IsNaN(s.Hi) || !math.IsNaN(s.Intercept) {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if s := theilSen([]float64{1, 2, nan, 4}, []float64{1, 2, 9, 4}, 2); s.N != 3 || s.Slope != 1 || !math.IsNaN(s.Lo) {
		t.Errorf("a NaN and no confidence: %+v", s)
	}
	if m := mannKendall([]float64{1, 2}); m.N != 2 || !math.IsNaN(m.P) || !math.IsNaN(m.Z) {
		t.Errorf("two samples: %+v", m)
	}
	if m := mannKendall([]float64{4, 4, nan, 4, 4}); m.N != 4 || m.S != 0 || m.P != 1 {
		t.Errorf("equal samples: %+v", m)
	}
	if p := ChangePoints([]float64{0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, nan}, ChangeOptions{}); p != nil {
		t.Errorf("change points with NaN: %v", p)
	}
}

// Whatever comes in, nothing panics, and what is said holds together.
func TestDriftTakesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Float64(), rapid.Float64Range(0, 2), rapid.Just(1.0), rapid.Just(math.NaN()), rapid.Just(math.Inf(-1)), rapid.Just(math.MaxFloat64))
		n := rapid.IntRange(0, 60).Draw(t, "n")
		y := rapid.SliceOfN(value, n, n).Draw(t, "y")
		at := rapid.SliceOfN(value, n, n).Draw(t, "at")
		if rapid.Bool().Draw(t, "sorted") {
			slices.Sort(at)
		}
		o := TrendOptions{MinEffect: rapid.Float64().Draw(t, "min"), Relative: rapid.Bool().Draw(t, "relative"), Find: rapid.Float64().Draw(t, "find")}
		v := Drift(at, y, o)
		if v.Why == "" {
			t.Fatalf("no reason: %+v", v)
		}
		if (v.Direction == Rising && !(v.Slope.Lo > 0)) || (v.Direction == Falling && !(v.Slope.Hi < 0)) {
			t.Fatalf("an alarm against its own interval: %+v", v)
		}
		if v.Needs < 0 {
			t.Fatalf("needs %d", v.Needs)
		}
		mannKendall(y)
		theilSen(at, y, 0.95)
		ChangePoints(y, ChangeOptions{MinSize: n % 4})
	})
}

func TestDriftVerdicts(t *testing.T) {
	const n = 120
	at := make([]float64, n)
	for i := range at {
		at[i] = 10 * float64(i)
	}
	of := func(f func(minutes float64) float64) []float64 {
		rng := rand.New(rand.NewPCG(5, 6))
		y := make([]float64, n)
		for i := range y {
			y[i] = f(at[i]/60) + 0.5e6*rng.NormFloat64()
		}
		return y
	}
	exact := func(f func(minutes float64) float64) []float64 {
		y := make([]float64, n)
		for i := range y {
			y[i] = f(at[i] / 60)
		}
		return y
	}
	leak, drift := DefaultLeak(), DefaultDrift()
	for _, c := range []struct {
		name    string
		at, y   []float64
		o       TrendOptions
		want    Direction
		stepped bool
		why     string
	}{
		{"flat", at, of(func(float64) float64 { return 4e9 }), leak, DirectionNone, false, "would have been found"},
		{"constant", at, exact(func(float64) float64 { return 4e9 }), leak, DirectionNone, false, "would have been found"},
		{"leak", at, of(func(m float64) float64 { return 4e9 + 1e6*m }), leak, Rising, false, "rising by"},
		{"given back", at, of(func(m float64) float64 { return 4e9 - 1e6*m }), leak, Falling, false, "falling by"},
		{"perfect line", at, exact(func(m float64) float64 { return 4e9 + 1e6*m }), leak, Rising, false, "rising by"},
		{"leak in pages of 2 MB", at, exact(func(m float64) float64 { return 4e9 + 2e6*math.Floor(m/2) }), leak, Rising, false, "rising by"},
		{"below the effect", at, of(func(m float64) float64 { return 4e9 + 0.3e6*m }), leak, DirectionNone, false, "would have been found"},
		{"a step", at, of(func(m float64) float64 { return 4e9 + 300e6*math.Floor(m/12) }), leak, DirectionNone, true, "a step at 720 s"},
		{"a perfect step", at, exact(func(m float64) float64 { return 4e9 + 300e6*math.Floor(m/12) }), leak, DirectionNone, true, "a step at 720 s"},
		{"a step, then a leak", at, of(func(m float64) float64 { return 4e9 + 300e6*min(1, math.Floor(m/3)) + 1e6*m }), leak, Rising, true, "judged from 180 s"},
		{"settles", at, of(func(m float64) float64 { return 4e9 + 0.3e6*min(m, 11) }), TrendOptions{MinEffect: 0.05e6}, DirectionNone, false, "settled"},
		{"few", at[:19], exact(func(m float64) float64 { return 4e9 + 1e6*m })[:19], leak, DirectionUnknown, false, "19 windows; at least 20"},
		{"short", at[:22], of(func(float64) float64 { return 4e9 })[:22], leak, DirectionUnknown, false, "about"},
		{"slower and slower", at, exact(func(m float64) float64 { return 100 * (1 - 0.005*m) }), drift, Falling, false, "falling by -5.26 % in 600 s"},
		{"share of nothing", at, exact(func(float64) float64 { return 0 }), drift, DirectionUnknown, false, "median is zero"},
		{"lengths", at, at[:30], leak, DirectionUnknown, false, "as many"},
		{"disorder", []float64{2, 1}, []float64{1, 2}, leak, DirectionUnknown, false, "order"},
		{"nothing", nil, nil, leak, DirectionUnknown, false, "no windows"},
		{"one time", make([]float64, 40), at[:40], leak, DirectionUnknown, false, "same time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := Drift(c.at, c.y, c.o)
			if v.Direction != c.want || v.Stepped != c.stepped || !strings.Contains(v.Why, c.why) {
				t.Errorf("got %s, stepped %v: %s\n%+v", v.Direction, v.Stepped, v.Why, v)
			}
		})
	}
}

// What Needs promises must hold: a run of that many windows answers.
func TestDriftNeedsIsEnough(t *testing.T) {
	generate := func(n int, seed uint64) (at, y []float64) {
		for i, e := range ar1(rand.New(rand.NewPCG(seed, 21)), n, 0.5) {
			at, y = append(at, 10*float64(i)), append(y, 100*(1+0.03*e))
		}
		return at, y
	}
	answered := 0
	for seed := range uint64(40) {
		at, y := generate(60, seed)
		v := Drift(at, y, DefaultDrift())
		if v.Direction != DirectionUnknown || v.Needs <= 60 {
			t.Fatalf("60 windows: %s, needs %d", v.Direction, v.Needs)
		}
		at, y = generate(v.Needs*5/4, seed)
		if Drift(at, y, DefaultDrift()).Direction == DirectionNone {
			answered++
		}
	}
	if answered < 32 {
		t.Errorf("with a quarter more than needed only %d of 40 runs answer", answered)
	}
}

func TestDriftThinsLongRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	at, y := make([]float64, 8640), make([]float64, 8640)
	for i := range at {
		at[i], y[i] = 10*float64(i), 4e9+1e6*float64(i)/6+20e6*rng.NormFloat64()
	}
	v := Drift(at, y, DefaultLeak())
	if v.Direction != Rising || v.Slope.N > maxWindows || v.Slope.N < maxWindows/2 {
		t.Errorf("%+v", v)
	}
}

func TestBlockIndices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, block := rapid.IntRange(-1, 50).Draw(t, "n"), rapid.IntRange(-2, 60).Draw(t, "block")
		at := BlockIndices(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), n, block)
		if len(at) != max(0, n) {
			t.Fatalf("%d indices of %d", len(at), n)
		}
		b := max(1, block)
		for i, k := range at {
			if k < 0 || k >= n || (i%min(b, n) != 0 && k != (at[i-1]+1)%n) {
				t.Fatalf("index %d: %v", i, at)
			}
		}
	})
	seen := make([]int, 10)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		for _, k := range BlockIndices(rng, 10, 4) {
			seen[k]++
		}
	}
	for k, c := range seen {
		if c < 9_500 || c > 10_500 {
			t.Errorf("index %d was drawn %d times, not about 10000", k, c)
		}
	}
}

func TestPeltIsTheMinimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		y := rapid.SliceOfN(rapid.Float64Range(-3, 3), 2, 40).Draw(t, "y")
		size := rapid.IntRange(1, 6).Draw(t, "size")
		penalty := rapid.Float64Range(0.01, 10).Draw(t, "penalty")
		best := make([]float64, len(y)+1)
		for b := 1; b <= len(y); b++ {
			best[b] = math.Inf(1)
			for a := 0; a <= b-size; a++ {
				best[b] = min(best[b], best[a]+partitionCost(y[a:b], nil, penalty))
			}
		}
		if len(y) < 2*size {
			return
		}
		got := ChangePoints(y, ChangeOptions{MinSize: size, Penalty: penalty})
		if c := partitionCost(y, got, penalty); !(c <= best[len(y)]+1e-9) {
			t.Fatalf("%v costs %v, the minimum is %v", got, c, best[len(y)])
		}
		for i, k := range append(got, len(y)) {
			if i > 0 && k-got[i-1] < size || k < size {
				t.Fatalf("levels shorter than %d: %v", size, got)
			}
		}
	})
}
