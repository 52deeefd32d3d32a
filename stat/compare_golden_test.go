package stat

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
)

// bySide are p-values of one test on each side; absent ones are NaN.
type bySide struct {
	TwoSided *float64 `json:"two-sided"`
	Less     *float64
	Greater  *float64
}

func (b bySide) of(s Side) *float64 { return []*float64{b.TwoSided, b.Less, b.Greater}[s] }

type shiftGolden struct {
	D, X, Y         []float64
	Confidence, Est float64
	Lo, Hi, Held    *float64
}

type compareGolden struct {
	SignedRank []struct {
		D         []float64
		Statistic float64
		Exact     *bySide
		Normal    bySide
	} `json:"signed_rank"`
	MannWhitney []struct {
		X, Y      []float64
		Statistic float64
		Exact     *bySide
		Normal    bySide
	} `json:"mann_whitney"`
	HL    []shiftGolden `json:"hodges_lehmann"`
	HL2   []shiftGolden `json:"hodges_lehmann2"`
	Cliff []struct {
		X, Y        []float64
		Est, Lo, Hi float64
	}
	Multiple []struct{ P, Holm, Bonferroni []float64 }
	Shapiro  []struct {
		X    []float64
		W, P float64
	}
	Stddev []struct {
		N                  int
		Confidence, Lo, Hi float64
	}
	Autocorrelation []struct {
		Y               []float64
		Sokal, Blocking float64
	}
	QuantileSequence []struct {
		N      int64
		Level  float64
		Lo, Hi int64
		OK     bool
	} `json:"quantile_sequence"`
	Looks []struct {
		At    []int
		Alpha float64
		Sums  []float64
	}
	Outliers struct {
		X         []float64
		MildLo    float64 `json:"mild_lo"`
		MildHi    float64 `json:"mild_hi"`
		ExtremeLo float64 `json:"extreme_lo"`
		ExtremeHi float64 `json:"extreme_hi"`
		Trimmed   []struct{ Share, Mean float64 }
	}
}

func loadCompare(t *testing.T) compareGolden {
	t.Helper()
	b, err := os.ReadFile("testdata/compare.json")
	if err != nil {
		t.Fatal(err)
	}
	var g compareGolden
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{len(g.SignedRank), len(g.MannWhitney), len(g.HL), len(g.HL2), len(g.Cliff), len(g.Multiple), len(g.Shapiro),
		len(g.Stddev), len(g.Autocorrelation), len(g.QuantileSequence), len(g.Looks), len(g.Outliers.Trimmed)} {
		if n == 0 {
			t.Fatal("the golden file lacks a part")
		}
	}
	return g
}

// digits is near without its floor for small values: a p-value of 1e-12 must
// have its digits too.
func digits(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol*math.Abs(want)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

var sides = []Side{TwoSided, Less, Greater}

func TestGoldenSignedRank(t *testing.T) {
	for i, g := range loadCompare(t).SignedRank {
		for _, s := range sides {
			r := SignedRank(g.D, TestOptions{Side: s})
			if r.Statistic != g.Statistic || r.N != len(g.D) || r.Exact != (g.Exact != nil) {
				t.Errorf("case %d: %+v, want statistic %v", i, r, g.Statistic)
			}
			want := g.Normal.of(s)
			if g.Exact != nil {
				want = g.Exact.of(s)
			}
			digits(t, "p "+s.String(), r.P, *want, 1e-9)
			digits(t, "normal p "+s.String(), SignedRank(g.D, TestOptions{Side: s, Normal: true}).P, *g.Normal.of(s), 1e-9)
		}
	}
}

func TestGoldenMannWhitney(t *testing.T) {
	for i, g := range loadCompare(t).MannWhitney {
		for _, s := range sides {
			r := MannWhitney(g.X, g.Y, TestOptions{Side: s})
			if r.Statistic != g.Statistic || r.Exact != (g.Exact != nil) {
				t.Errorf("case %d: %+v, want statistic %v", i, r, g.Statistic)
			}
			if g.Exact != nil {
				digits(t, "p "+s.String(), r.P, *g.Exact.of(s), 1e-9)
			}
			if want := g.Normal.of(s); want != nil { // equal values have none
				digits(t, "normal p "+s.String(), MannWhitney(g.X, g.Y, TestOptions{Side: s, Normal: true}).P, *want, 1e-9)
			}
		}
	}
}

func TestGoldenHodgesLehmann(t *testing.T) {
	g := loadCompare(t)
	for _, c := range g.HL {
		s := HodgesLehmann(c.D, c.Confidence)
		near(t, "estimate", s.Est, c.Est, 1e-9)
		nearOrNone(t, "lo", s.Lo, c.Lo)
		nearOrNone(t, "hi", s.Hi, c.Hi)
		nearOrNone(t, "confidence", s.Confidence, c.Held)
	}
	for _, c := range g.HL2 {
		s := HodgesLehmann2(c.X, c.Y, c.Confidence)
		near(t, "estimate", s.Est, c.Est, 1e-9)
		nearOrNone(t, "lo", s.Lo, c.Lo)
		nearOrNone(t, "hi", s.Hi, c.Hi)
		nearOrNone(t, "confidence", s.Confidence, c.Held)
	}
}

func TestGoldenCliffDelta(t *testing.T) {
	for _, c := range loadCompare(t).Cliff {
		d := CliffDelta(c.X, c.Y, 0.95)
		near(t, "δ", d.Est, c.Est, 1e-9)
		near(t, "lo", d.Lo, c.Lo, 1e-9)
		near(t, "hi", d.Hi, c.Hi, 1e-9)
	}
}

func TestGoldenMultiple(t *testing.T) {
	for _, c := range loadCompare(t).Multiple {
		before := slices.Clone(c.P)
		holm, bonferroni := Holm(c.P), Bonferroni(c.P)
		for i := range c.P {
			digits(t, "Holm", holm[i], c.Holm[i], 1e-12)
			digits(t, "Bonferroni", bonferroni[i], c.Bonferroni[i], 1e-12)
		}
		if !slices.Equal(before, c.P) {
			t.Error("the input was changed")
		}
	}
}

func TestGoldenShapiroWilk(t *testing.T) {
	for _, c := range loadCompare(t).Shapiro {
		r := ShapiroWilk(c.X)
		// scipy takes the normal quantile from an approximation of nine digits
		// (AS 111), and p is steep in 1−W: they agree to 3e-10 and 7e-8.
		digits(t, "W", r.W, c.W, 1e-9)
		digits(t, "p", r.P, c.P, 1e-6)
	}
}

func TestGoldenStddev(t *testing.T) {
	for _, c := range loadCompare(t).Stddev {
		lo, hi := StddevInterval(1, c.N, c.Confidence)
		digits(t, "lo", lo, c.Lo, 1e-6)
		digits(t, "hi", hi, c.Hi, 1e-6)
	}
}

func TestGoldenAutocorrelation(t *testing.T) {
	for _, c := range loadCompare(t).Autocorrelation {
		digits(t, "Sokal", AutocorrelationTime(c.Y), c.Sokal, 1e-9)
		var b Blocking
		for _, y := range c.Y {
			b.Add(y)
		}
		digits(t, "blocking", b.Tau(), c.Blocking, 1e-9)
	}
}

func TestGoldenSequences(t *testing.T) {
	for _, c := range loadCompare(t).QuantileSequence {
		lo, hi, ok := QuantileSequence(c.N, c.Level, 0.05)
		if lo != c.Lo || hi != c.Hi || ok != c.OK {
			t.Errorf("p%v of %d: got %d…%d %v, want %d…%d %v", c.Level, c.N, lo, hi, ok, c.Lo, c.Hi, c.OK)
		}
	}
}

func TestGoldenLooks(t *testing.T) {
	for _, c := range loadCompare(t).Looks {
		for i, level := range (Looks{At: c.At, Alpha: c.Alpha}).Levels() {
			digits(t, "level", level, c.Sums[i], 1e-9)
		}
	}
}

func TestGoldenOutliers(t *testing.T) {
	g := loadCompare(t).Outliers
	f := TukeyFences(g.X)
	for _, c := range []struct{ got, want float64 }{{f.MildLo, g.MildLo}, {f.MildHi, g.MildHi}, {f.ExtremeLo, g.ExtremeLo}, {f.ExtremeHi, g.ExtremeHi}} {
		digits(t, "fence", c.got, c.want, 1e-12)
	}
	for _, c := range g.Trimmed {
		digits(t, "trimmed mean", TrimmedMean(g.X, c.Share), c.Mean, 1e-12)
	}
}
