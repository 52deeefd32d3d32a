package stat

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
)

type trendGolden struct {
	TheilSen []struct {
		X, Y                    []float64
		Level, Slope, Intercept float64
		Lo, Hi                  *float64
	} `json:"theil_sen"`
	MannKendall []struct {
		Y                  []float64
		S, Tau, Var, Plain float64
		Z, P               *float64
	} `json:"mann_kendall"`
	Pelt []struct {
		Y       []float64
		Size    int
		Penalty float64
		Points  []int
		Least   float64
		Missed  bool
	}
	Bootstrap struct {
		Y       []float64
		Block   int
		Starts  [][]int
		Indices [][]int
		Means   []float64
	}
}

func loadTrend(t *testing.T) trendGolden {
	t.Helper()
	b, err := os.ReadFile("testdata/trend.json")
	if err != nil {
		t.Fatal(err)
	}
	var g trendGolden
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.TheilSen) == 0 || len(g.MannKendall) == 0 || len(g.Pelt) == 0 || len(g.Bootstrap.Means) == 0 {
		t.Fatal("the golden file lacks a part")
	}
	return g
}

// nearOrNone is near, null in the golden file standing for NaN.
func nearOrNone(t *testing.T, what string, got float64, want *float64) {
	t.Helper()
	if want == nil {
		if !math.IsNaN(got) {
			t.Errorf("%s: got %v, want none", what, got)
		}
		return
	}
	near(t, what, got, *want, 1e-9)
}

func TestGoldenTheilSen(t *testing.T) {
	without := 0
	for _, g := range loadTrend(t).TheilSen {
		s := theilSen(g.X, g.Y, g.Level)
		if s.N != len(g.X) {
			t.Errorf("n = %d, want %d", s.N, len(g.X))
		}
		near(t, "slope", s.Slope, g.Slope, 1e-12)
		near(t, "intercept", s.Intercept, g.Intercept, 1e-9)
		nearOrNone(t, "lo", s.Lo, g.Lo)
		nearOrNone(t, "hi", s.Hi, g.Hi)
		if g.Lo == nil {
			without++
		}
	}
	if without == 0 {
		t.Error("no golden case without an interval")
	}
}

func TestGoldenMannKendall(t *testing.T) {
	for _, g := range loadTrend(t).MannKendall {
		m := mannKendall(g.Y)
		if m.N != len(g.Y) || m.S != g.S {
			t.Errorf("n, s = %d, %v, want %d, %v", m.N, m.S, len(g.Y), g.S)
		}
		near(t, "tau", m.Tau, g.Tau, 1e-12)
		near(t, "var", m.Var, g.Var, 1e-9)
		near(t, "ratio", m.Ratio, g.Var/g.Plain, 1e-9)
		nearOrNone(t, "z", m.Z, g.Z)
		nearOrNone(t, "p", m.P, g.P)
	}
}

func TestGoldenChangePoints(t *testing.T) {
	agreed := 0
	for i, g := range loadTrend(t).Pelt {
		got := ChangePoints(g.Y, ChangeOptions{MinSize: g.Size, Penalty: g.Penalty})
		near(t, "cost", partitionCost(g.Y, got, g.Penalty), g.Least, 1e-9)
		// Where ruptures prunes too early it misses the minimum; we must not.
		if g.Missed == slices.Equal(got, g.Points) {
			t.Errorf("case %d: got %v, ruptures has %v (missed the minimum: %v)", i, got, g.Points, g.Missed)
		}
		if !g.Missed && len(got) > 0 {
			agreed++
		}
	}
	if agreed < 5 {
		t.Errorf("only %d cases with change points to agree on", agreed)
	}
}

func partitionCost(y []float64, points []int, penalty float64) float64 {
	cost, from := 0.0, 0
	for _, to := range append(slices.Clone(points), len(y)) {
		var m Moments
		for _, v := range y[from:to] {
			m.Add(v)
		}
		cost += m.m2 + penalty
		from = to
	}
	return cost
}

func TestGoldenBootstrap(t *testing.T) {
	g := loadTrend(t).Bootstrap
	n := len(g.Y)
	for i, s := range g.Starts {
		at := fromStarts(s, n, g.Block)
		if i < len(g.Indices) && !slices.Equal(at, g.Indices[i]) {
			t.Errorf("resample %d: got %v, want %v", i, at, g.Indices[i])
		}
		var m Moments
		for _, k := range at {
			m.Add(g.Y[k])
		}
		near(t, "mean", m.Mean(), g.Means[i], 1e-12)
	}
}
