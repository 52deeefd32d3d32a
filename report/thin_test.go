package report

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestThinKeepsWhatMatters(t *testing.T) {
	const n = 50_000
	l := Line{}
	for i := range n {
		l.X, l.Y = append(l.X, float64(i)), append(l.Y, math.Sin(float64(i)/3000))
	}
	l.Y[12_345], l.Y[40_001], l.Y[40_002] = 90, -70, 80
	for i := 20_000; i < 21_000; i++ {
		l.Y[i] = math.NaN()
	}
	got := thin(l, mostPoints)
	if len(got.Y) > mostPoints || len(got.Y) < mostPoints*9/10 {
		t.Errorf("%d points", len(got.Y))
	}
	if got.X[0] != 0 || got.X[len(got.X)-1] != n-1 {
		t.Errorf("from %g to %g", got.X[0], got.X[len(got.X)-1])
	}
	for _, spike := range []float64{90, -70, 80} {
		if !slices.Contains(got.Y, spike) {
			t.Errorf("the spike of %g is gone", spike)
		}
	}
	gap := slices.IndexFunc(got.Y, math.IsNaN)
	if gap < 0 {
		t.Fatal("the gap is gone")
	}
	if got.X[gap-1] > 20_000 || got.X[gap+1] < 21_000 || got.X[gap+1]-got.X[gap-1] > 1_300 {
		t.Errorf("the gap is from %g to %g", got.X[gap-1], got.X[gap+1])
	}
}

func TestThinOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ys := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(-1e9, 1e9), rapid.Just(math.NaN())), 0, 400).Draw(t, "y")
		limit := rapid.IntRange(4, 60).Draw(t, "limit")
		l := Line{Y: ys, Lo: ys, Hi: ys}
		for i := range ys {
			l.X = append(l.X, float64(i))
		}
		got := thin(l, limit)
		if len(got.Y) > limit || len(got.X) != len(got.Y) || len(got.Lo) != len(got.Y) {
			t.Fatalf("%d points of %d, limit %d", len(got.Y), len(ys), limit)
		}
		if !slices.IsSorted(got.X) {
			t.Fatal("out of order")
		}
		for i, x := range got.X {
			if y := ys[int(x)]; y != got.Y[i] && !(math.IsNaN(y) && math.IsNaN(got.Y[i])) {
				t.Fatal("a point was moved")
			}
		}
		if e, w := extentOf(got.Y), extentOf(ys); w.N > 0 && (e.Min != w.Min || e.Max != w.Max) {
			t.Fatalf("extremes %g %g, want %g %g", e.Min, e.Max, w.Min, w.Max)
		}
		if i := slices.IndexFunc(got.Y, math.IsNaN); i == 0 && len(ys) > limit {
			t.Fatal("begins with a gap")
		}
	})
}

func TestReadingsThatStayedAwayAreAGap(t *testing.T) {
	l := withGaps(Line{X: []float64{0, 1, 2, 3, 30, 31}, Y: []float64{1, 1, 1, 1, 2, 2}})
	if len(l.Y) != 7 || !math.IsNaN(l.Y[4]) {
		t.Errorf("%v", l.Y)
	}
}

func TestSpansAreMerged(t *testing.T) {
	got := merged([]Span{{From: 5, To: 9, Label: "b"}, {From: 1, To: 6, Label: "a"}, {From: 8, To: 8.5, Label: "a"}, {From: 20, To: 21, Label: "a"}, {From: 2, To: 3, Label: "c", Kind: SpanBad}, {From: math.NaN(), To: 3}}, 10)
	want := []Span{{From: 1, To: 9, Label: "a …"}, {From: 20, To: 21, Label: "a"}, {From: 2, To: 3, Label: "c", Kind: SpanBad}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	var many []Span
	for i := range 5000 {
		many = append(many, Span{From: float64(i), To: float64(i) + 0.1})
	}
	got = merged(many, 100)
	if len(got) > 100 || got[0].From != 0 || got[len(got)-1].To != 4999.1 {
		t.Errorf("%d spans from %g to %g", len(got), got[0].From, got[len(got)-1].To)
	}
}
