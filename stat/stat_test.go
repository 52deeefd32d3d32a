package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestQuantileNeeds(t *testing.T) {
	for level, want := range map[float64]int64{50: 6, 90: 36, 95: 72, 99: 368, 99.9: 3688, 10: 36, 0: 0, 100: 0} {
		if got := QuantileNeeds(level); got != want {
			t.Errorf("p%v needs %d, want %d", level, got, want)
		}
		if want == 0 {
			continue
		}
		if _, _, ok := QuantileRanks(want, level); !ok {
			t.Errorf("p%v has no interval at %d", level, want)
		}
		if _, _, ok := QuantileRanks(want-1, level); ok {
			t.Errorf("p%v has an interval at %d", level, want-1)
		}
	}
}

func TestRank(t *testing.T) {
	for _, c := range []struct {
		n     int64
		level float64
		want  int64
	}{
		{0, 50, 0}, {1, 50, 1}, {1, 99, 1}, {2, 50, 1}, {2, 51, 2}, {3, 50, 2}, {4, 50, 2},
		{100, 99, 99}, {101, 99, 100}, {1000, 99.9, 999}, {10000, 99.99, 9999}, {10, 0, 1}, {10, 100, 10},
		{1_000_000, 99.9, 999_000}, {1_000_000_000, 99, 990_000_000}, {10, math.NaN(), 0},
	} {
		if got := Rank(c.n, c.level); got != c.want {
			t.Errorf("rank of p%v of %d: got %d, want %d", c.level, c.n, got, c.want)
		}
	}
}

func TestEmptyAndFew(t *testing.T) {
	var m Moments
	var c Counts
	var b Blocking
	for name, v := range map[string]float64{
		"mean": m.Mean(), "stddev": m.Stddev(), "min": m.Min(), "max": m.Max(),
		"counts p50": c.Quantile(50), "counts mean": c.Mean(), "counts stddev": c.Stddev(),
		"quantile": Quantile(nil, 50), "median": Median(nil),
	} {
		if !math.IsNaN(v) {
			t.Errorf("%s of nothing is %v", name, v)
		}
	}
	if b.Effective() != 0 || b.Tau() != 1 {
		t.Errorf("blocking of nothing: %v, %v", b.Effective(), b.Tau())
	}
	m.Add(math.NaN())
	m.Add(math.Inf(1))
	b.Add(math.NaN())
	if m.N() != 0 || b.N() != 0 {
		t.Error("NaN or infinity was counted")
	}
	m.Add(3)
	c.Add(3)
	b.Add(3)
	if m.Mean() != 3 || !math.IsNaN(m.Stddev()) || c.Quantile(99) != 3 || !math.IsNaN(c.Stddev()) || b.Effective() != 1 {
		t.Error("one sample")
	}
	m.Add(5)
	c.Add(5)
	b.Add(5)
	if m.Stddev() != math.Sqrt2 || c.Stddev() != math.Sqrt2 || c.Quantile(50) != 3 || c.Quantile(51) != 5 || b.Effective() != 2 {
		t.Error("two samples")
	}
	if lo, hi := MeanInterval(1, 1, 1, 0.95); !math.IsNaN(lo) || !math.IsNaN(hi) {
		t.Error("an interval from one sample")
	}
	if _, _, ok := QuantileRanks(0, 50); ok {
		t.Error("an interval from nothing")
	}
	if _, ok := FitUSL([]float64{1, 2, 2}, []float64{1, 2, 2}); ok {
		t.Error("a law from two loads")
	}
	if _, ok := FitUSL([]float64{1, 2, 3}, []float64{1, 0, 2}); ok {
		t.Error("a law from a throughput of zero")
	}
}

// Counts must agree with the sorted samples for any values, small, large and
// mixed, whole and merged.
func TestCountsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Int64Range(0, 300), rapid.Int64Range(lowValues-3, lowValues+3), rapid.Int64Range(0, 1<<40))
		a := rapid.SliceOfN(value, 0, 400).Draw(t, "a")
		b := rapid.SliceOfN(value, 0, 400).Draw(t, "b")
		times := rapid.Int64Range(1, 5).Draw(t, "times")
		var ca, cb Counts
		var all []float64
		for _, v := range a {
			ca.Add(v)
			all = append(all, float64(v))
		}
		for _, v := range b {
			cb.AddN(v, times)
			for range times {
				all = append(all, float64(v))
			}
		}
		ca.Merge(&cb)
		slices.Sort(all)
		if ca.N() != int64(len(all)) {
			t.Fatalf("n = %d, want %d", ca.N(), len(all))
		}
		for _, level := range []float64{0, 1, 25, 50, 90, 99, 99.9, 100} {
			got, want := ca.Quantile(level), Quantile(all, level)
			if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Fatalf("p%v: got %v, want %v", level, got, want)
			}
		}
		var m Moments
		for _, v := range all {
			m.Add(v)
		}
		if len(all) > 1 && !(math.Abs(ca.Mean()-m.Mean()) <= 1e-9*math.Abs(m.Mean())) {
			t.Fatalf("mean: got %v, want %v", ca.Mean(), m.Mean())
		}
	})
}

func TestCountsMany(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var c Counts
	var all []float64
	for range 300_000 {
		v := int64(rng.ExpFloat64() * 400_000)
		c.Add(v)
		all = append(all, float64(v))
	}
	slices.Sort(all)
	for _, level := range []float64{1, 50, 99, 99.9} {
		if got, want := c.Quantile(level), Quantile(all, level); got != want {
			t.Errorf("p%v: got %v, want %v", level, got, want)
		}
	}
	if got := c.AtRanks(-1, 0, 1, 300_000, 300_001); got[0] != -1 || got[1] != -1 || got[2] != int64(all[0]) || got[3] != int64(all[299_999]) || got[4] != -1 {
		t.Errorf("ranks at the edges: %v", got)
	}
}

func TestMomentsKeepDigits(t *testing.T) {
	var m, a, b Moments
	for i := range 1000 {
		x := 1e12 + float64(i%2)
		m.Add(x)
		if i < 300 {
			a.Add(x)
		} else {
			b.Add(x)
		}
	}
	a.Merge(b)
	for name, got := range map[string]float64{"added": m.Stddev(), "merged": a.Stddev()} {
		if !(math.Abs(got-0.50025) <= 1e-4) {
			t.Errorf("%s: stddev %v, want 0.50025", name, got)
		}
	}
}

// An AR(1) series of ρ = 0.8 is worth a ninth of its samples.
func TestAutocorrelationTime(t *testing.T) {
	seeds := experiments(t, 12, 4)
	for _, c := range []struct {
		rho  float64
		n    int
		want float64
		tol  float64
	}{
		{0, 100_000, 1, 0.15}, {0.5, 100_000, 3, 0.2}, {0.8, 100_000, 9, 0.15}, {0.8, 10_000, 9, 0.3},
		{0.95, 1_000_000, 39, 0.15}, {-0.5, 100_000, 1, 0.05},
	} {
		var sum Moments
		for seed := range uint64(seeds) {
			rng := rand.New(rand.NewPCG(seed, 8))
			var b Blocking
			x := rng.NormFloat64() / math.Sqrt(1-c.rho*c.rho)
			for range c.n {
				b.Add(1e6 + x)
				x = c.rho*x + rng.NormFloat64()
			}
			sum.Add(b.Tau())
			if r := float64(c.n) / c.want / b.Effective(); !(r >= 0.5 && r <= 2) {
				t.Errorf("ρ=%v n=%d seed %d: effective %.0f, want about %.0f", c.rho, c.n, seed, b.Effective(), float64(c.n)/c.want)
			}
		}
		if !(math.Abs(sum.Mean()/c.want-1) <= c.tol) {
			t.Errorf("ρ=%v n=%d: mean τ %.2f, want %.2f", c.rho, c.n, sum.Mean(), c.want)
		}
	}
}

// The interval of the median must cover it about 95 times of 100, for
// independent samples exactly so and for correlated ones by their effective
// number.
func TestIntervalCovers(t *testing.T) {
	const n = 4000
	runs := experiments(t, 400, 100)
	for _, rho := range []float64{0, 0.8} {
		covered := 0
		for seed := range uint64(runs) {
			rng := rand.New(rand.NewPCG(seed, 77))
			var b Blocking
			x := rng.NormFloat64() / math.Sqrt(1-rho*rho)
			all := make([]float64, n)
			for i := range all {
				all[i] = x
				b.Add(x)
				x = rho*x + rng.NormFloat64()
			}
			slices.Sort(all)
			m := int64(b.Effective())
			lo, hi, ok := QuantileRanks(m, 50)
			if !ok {
				t.Fatal("no interval")
			}
			share := float64(n) / float64(m)
			if all[int(float64(lo-1)*share)] <= 0 && all[min(n, int(math.Ceil(float64(hi)*share)))-1] >= 0 {
				covered++
			}
		}
		if c := float64(covered) / float64(runs); !(c >= 0.91 && c <= 0.99) {
			t.Errorf("ρ=%v: covered %.3f of the time", rho, c)
		}
	}
}

func BenchmarkCountsAdd(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	values := make([]int64, 1<<16)
	for i := range values {
		values[i] = int64(10_000 + rng.NormFloat64()*500)
	}
	var c Counts
	for i := 0; b.Loop(); i++ {
		c.Add(values[i&(1<<16-1)])
	}
}

func BenchmarkBlockingAdd(b *testing.B) {
	var s Blocking
	for i := 0; b.Loop(); i++ {
		s.Add(float64(i & 1023))
	}
}
