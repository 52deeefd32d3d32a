package stat

import (
	"math"
	"slices"
)

// Effect is the size of an effect in a word. Zero is unknown.
type Effect uint8

const (
	EffectUnknown    Effect = iota
	EffectNegligible        // |δ| below 0.147
	EffectSmall             // below 0.33
	EffectMedium            // below 0.474
	EffectLarge             // from there
)

// The bounds of Romano et al. (2006), who took Cohen's d of 0.2, 0.5 and 0.8
// over to δ.
const (
	SmallDelta  = 0.147
	MediumDelta = 0.33
	LargeDelta  = 0.474
)

func (e Effect) String() string {
	switch e {
	case EffectNegligible:
		return "negligible"
	case EffectSmall:
		return "small"
	case EffectMedium:
		return "medium"
	case EffectLarge:
		return "large"
	}
	return "unknown"
}

// Delta is Cliff's δ of two samples: the chance that a value of the first is
// the greater less the chance that it is the smaller, from −1 to 1.
type Delta struct {
	N, M   int // values that were used
	Est    float64
	Lo, Hi float64
}

// Size is the size of the estimate in a word, whatever its interval.
func (d Delta) Size() Effect {
	switch size := math.Abs(d.Est); {
	case math.IsNaN(size):
		return EffectUnknown
	case size < SmallDelta:
		return EffectNegligible
	case size < MediumDelta:
		return EffectSmall
	case size < LargeDelta:
		return EffectMedium
	}
	return EffectLarge
}

// CliffDelta compares two independent samples. The interval is Cliff's
// asymmetric one, with the unbiased variance of δ held above its least
// possible (1−δ²)/(nm−1); at δ = ±1, where that variance is nothing, its far
// end is (b−z²)/(b+z²) for the smaller sample's b values (Feng and Cliff
// 2004). It is an approximation: from ten values in each sample on, a 95 %
// interval held the truth in 93 % to 96 % of simulated experiments.
//
// NaN values are absent; infinities compare like any other. The estimate is
// NaN when a sample is empty, the interval when a sample has fewer than two.
func CliffDelta(x, y []float64, confidence float64) Delta {
	x, y = present(x), present(y)
	d := Delta{N: len(x), M: len(y), Est: math.NaN(), Lo: math.NaN(), Hi: math.NaN()}
	if len(x) == 0 || len(y) == 0 {
		return d
	}
	slices.Sort(x)
	slices.Sort(y)
	n, m := float64(len(x)), float64(len(y))
	rows, ties := dominances(x, y)
	columns, _ := dominances(y, x)
	var byX, byY Moments
	for _, r := range rows {
		byX.Add(r / m)
	}
	for _, r := range columns {
		byY.Add(r / n)
	}
	sum := 0.0 // of whole numbers, so that ±1 is exactly that
	for _, r := range rows {
		sum += r
	}
	d.Est = sum / (n * m)
	if len(x) < 2 || len(y) < 2 || !(confidence > 0 && confidence < 1) {
		return d
	}
	z := NormalQuantile(0.5 + confidence/2)
	if math.Abs(d.Est) == 1 {
		b := min(n, m)
		far := (b - z*z) / (b + z*z)
		d.Lo, d.Hi = min(d.Est, d.Est*far), max(d.Est, d.Est*far)
		return d
	}
	e := d.Est
	variance := (m*m*byX.m2 + n*n*byY.m2 - (n*m - ties - n*m*e*e)) / (n * m * (n - 1) * (m - 1))
	variance = max(variance, (1-e*e)/(n*m-1))
	zs := z * math.Sqrt(variance)
	spread := zs * math.Sqrt((1-e*e)*(1-e*e)+zs*zs)
	scale := 1 - e*e + zs*zs
	d.Lo, d.Hi = max(-1, (e-e*e*e-spread)/scale), min(1, (e-e*e*e+spread)/scale)
	return d
}

// dominances are for each of sorted x how many of sorted y are smaller less how
// many are greater, and how many pairs are tied.
func dominances(x, y []float64) (each []float64, ties float64) {
	each = make([]float64, len(x))
	below, upTo := 0, 0
	for i, v := range x {
		for below < len(y) && y[below] < v {
			below++
		}
		upTo = max(upTo, below)
		for upTo < len(y) && y[upTo] == v {
			upTo++
		}
		each[i] = float64(below - (len(y) - upTo))
		ties += float64(upTo - below)
	}
	return each, ties
}
