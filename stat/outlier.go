package stat

import "math"

// Fences are Tukey's: 1.5 and 3 interquartile ranges outside the quartiles.
// What lies beyond is marked and shown, and never removed: a slow request is
// the measurement.
type Fences struct {
	MildLo, MildHi       float64
	ExtremeLo, ExtremeHi float64
}

// TukeyFences are those of sorted samples without NaN, with quartiles by
// nearest rank. They are NaN with fewer than four samples, and where infinite
// quartiles leave no distance; nothing then lies outside. When the quartiles
// are equal, every other value lies outside.
func TukeyFences(sorted []float64) Fences {
	if len(sorted) < 4 {
		nan := math.NaN()
		return Fences{nan, nan, nan, nan}
	}
	lo, hi := Quantile(sorted, 25), Quantile(sorted, 75)
	iqr := hi - lo
	return Fences{MildLo: lo - 1.5*iqr, MildHi: hi + 1.5*iqr, ExtremeLo: lo - 3*iqr, ExtremeHi: hi + 3*iqr}
}

// Outlier says how far out a sample lies.
type Outlier uint8

const (
	Inside Outlier = iota
	MildOutlier
	ExtremeOutlier
)

func (o Outlier) String() string {
	switch o {
	case MildOutlier:
		return "mild"
	case ExtremeOutlier:
		return "extreme"
	}
	return "inside"
}

// Mark says how far out x lies. What lies on a fence is inside it; a NaN is
// inside.
func (f Fences) Mark(x float64) Outlier {
	switch {
	case x < f.ExtremeLo || x > f.ExtremeHi:
		return ExtremeOutlier
	case x < f.MildLo || x > f.MildHi:
		return MildOutlier
	}
	return Inside
}

// TrimmedMean is the mean of sorted samples without NaN after a share of them,
// in [0,0.5), has been left out at either end: the whole number of samples
// below share·n. It stands beside the mean, never in its place. NaN without
// samples or with another share.
func TrimmedMean(sorted []float64, share float64) float64 {
	n := len(sorted)
	if n == 0 || !(share >= 0 && share < 0.5) {
		return math.NaN()
	}
	// 0.29·100 is 28.999999999999996 in floating point: see [Rank].
	cut := min((n-1)/2, int(share*float64(n)+1e-9))
	sum := 0.0
	for _, x := range sorted[cut : n-cut] {
		sum += x / float64(n-2*cut)
	}
	return sum
}
