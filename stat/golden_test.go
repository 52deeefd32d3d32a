package stat

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
)

type golden struct {
	Ranks []struct {
		Level  float64
		N      int64
		Lo, Hi int64
		OK     bool
	} `json:"quantile_ranks"`
	Student []struct{ P, DF, T float64 }
	Normal  []struct{ P, Z float64 }
	Mean    []struct {
		X                    []float64
		Mean, Stddev, Lo, Hi float64
	} `json:"mean_interval"`
	Proportion []struct {
		K, N   int64
		Lo, Hi float64
	}
	Nearest struct {
		X []int64
		Q []struct {
			Level float64
			Value int64
		}
	} `json:"nearest_rank"`
	USL []struct {
		N, X                    []float64
		Gamma, Sigma, Kappa, R2 float64
	}
}

func load(t *testing.T) golden {
	t.Helper()
	b, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Ranks) == 0 || len(g.Student) == 0 || len(g.USL) == 0 || len(g.Nearest.Q) == 0 || len(g.Proportion) == 0 {
		t.Fatal("the golden file lacks a part")
	}
	return g
}

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol*max(1e-3, math.Abs(want))) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestGoldenQuantileRanks(t *testing.T) {
	for _, g := range load(t).Ranks {
		lo, hi, ok := QuantileRanks(g.N, g.Level)
		if lo != g.Lo || hi != g.Hi || ok != g.OK {
			t.Errorf("p%v of %d: got %d…%d %v, want %d…%d %v", g.Level, g.N, lo, hi, ok, g.Lo, g.Hi, g.OK)
		}
	}
}

func TestGoldenDistributions(t *testing.T) {
	g := load(t)
	for _, s := range g.Student {
		near(t, "student", StudentQuantile(s.P, s.DF), s.T, 1e-7)
	}
	for _, s := range g.Normal {
		near(t, "normal", NormalQuantile(s.P), s.Z, 1e-9)
	}
	for _, s := range g.Proportion {
		lo, hi := ProportionInterval(s.K, s.N, 0.95)
		near(t, "proportion lo", lo, s.Lo, 1e-7)
		near(t, "proportion hi", hi, s.Hi, 1e-7)
	}
	for _, s := range g.Mean {
		var m Moments
		for _, x := range s.X {
			m.Add(x)
		}
		near(t, "mean", m.Mean(), s.Mean, 1e-12)
		near(t, "stddev", m.Stddev(), s.Stddev, 1e-12)
		lo, hi := MeanInterval(m.Mean(), m.Stddev(), float64(m.N()), 0.95)
		near(t, "lo", lo, s.Lo, 1e-7)
		near(t, "hi", hi, s.Hi, 1e-7)
	}
}

func TestGoldenNearestRank(t *testing.T) {
	g := load(t)
	var c Counts
	sorted := make([]float64, 0, len(g.Nearest.X))
	for _, v := range g.Nearest.X {
		c.Add(v)
		sorted = append(sorted, float64(v))
	}
	slices.Sort(sorted)
	for _, q := range g.Nearest.Q {
		if got := c.Quantile(q.Level); got != float64(q.Value) {
			t.Errorf("counts p%v: got %v, want %v", q.Level, got, q.Value)
		}
		if got := Quantile(sorted, q.Level); got != float64(q.Value) {
			t.Errorf("sorted p%v: got %v, want %v", q.Level, got, q.Value)
		}
	}
}

func TestGoldenUSL(t *testing.T) {
	for i, g := range load(t).USL {
		u, ok := FitUSL(g.N, g.X)
		if !ok {
			t.Fatalf("case %d: no fit", i)
		}
		near(t, "gamma", u.Gamma, g.Gamma, 1e-6)
		near(t, "sigma", u.Sigma, g.Sigma, 1e-5)
		near(t, "kappa", u.Kappa, g.Kappa, 1e-5)
		near(t, "r2", u.R2, g.R2, 1e-6)
		if !(u.Gamma >= 0 && u.Sigma >= 0 && u.Kappa >= 0) {
			t.Errorf("case %d: negative: %+v", i, u)
		}
	}
}
