package stat

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// line is a Theil–Sen line whose interval and p allow for autocorrelation.
type line struct {
	Slope
	p        float64
	ratio    float64 // autocorrelation time, at least 1
	quantile float64 // of Student's t, that made the interval
}

// fitLine needs at least five points. Its N is 0 when all x are the same.
func fitLine(x, y []float64, level float64) line {
	l := line{Slope: noSlope(), p: math.NaN(), ratio: math.NaN(), quantile: math.NaN()}
	slopes := pairSlopes(x, y)
	if len(slopes) == 0 {
		return l
	}
	l.N = len(x)
	l.Slope.Slope = middle(slopes)
	l.Intercept = middleOf(y) - l.Slope.Slope*middleOf(x)
	l.ratio = noiseRatio(residuals(x, y, l.Slope.Slope))
	effective := float64(l.N) / l.ratio
	if effective < minEffective {
		return l
	}
	l.quantile = StudentQuantile(1-level/2, effective-2)
	sigma := math.Sqrt(kendallVariance(x, y) * l.ratio)
	s := 0.0
	for _, v := range slopes {
		switch {
		case v > 0:
			s++
		case v < 0:
			s--
		}
	}
	l.p = 1
	if s != 0 {
		l.p = studentTwoSided(max(0, math.Abs(s)-1)/sigma, effective-2)
	}
	l.Lo, l.Hi = senInterval(slopes, l.quantile*sigma)
	return l
}

// Line is a straight line through points by Theil and Sen, with the interval of its
// slope at a confidence, which allows for autocorrelation of the noise. The interval
// is NaN where there are too few independent points for one, and everything with
// fewer than five points or more than [MaxPoints]. Points that are not finite are
// passed over.
func Line(x, y []float64, confidence float64) Slope {
	x, y, ok := finite(x, y)
	if !ok || len(x) < 5 || len(x) > MaxPoints || !(confidence > 0 && confidence < 1) {
		return noSlope()
	}
	return fitLine(x, y, 1-confidence).Slope
}

func (l line) scaled(unit float64) Slope {
	s := l.Slope
	s.Slope, s.Lo, s.Hi = s.Slope*unit, s.Lo*unit, s.Hi*unit
	return s
}

// studentTwoSided is P(|T| > t) with df degrees of freedom.
func studentTwoSided(t, df float64) float64 {
	return mathext.RegIncBeta(df/2, 0.5, df/(df+t*t))
}

// noiseRatio is by how much autocorrelation enlarges the variance of a slope,
// from what is left when the slope is taken away; at least 1.
//
// Two estimates, of which the larger counts: the lags that stand out, as Hamed
// and Rao have it, which takes any shape but misses what a short series cannot
// show; and an AR(1) noise by its first lag. The first lag of n ranks is
// turned into a correlation (2·sin(πr/6), for normal noise) and loses about
// (2+4ρ)/n by the removal of a line, which is given back.
func noiseRatio(residuals []float64) float64 {
	acf := autocorrelation(ranks(residuals))
	n := float64(len(acf))
	rho := 2 * math.Sin(math.Pi/6*acf[1])
	if acf[1] != 0 {
		rho = (n*rho + 2) / (n - 4)
	}
	rho = min(0.99, max(0, rho))
	return max(1, (1+rho)/(1-rho), lagRatio(len(acf), significant(acf)))
}

// split looks whether two levels explain y decisively better than a straight
// line does, and than one level does; k is then the first point of the second
// level.
//
// With normal noise of autocorrelation time τ, twice the logarithm of two
// models' likelihood ratio is n/τ·ln(RSS₁ ÷ RSS₂). The correlation is taken
// from what the two levels and a slope leave: a line through a step leaves a
// saw tooth, which looks correlated though the noise is not.
func split(x, y []float64) (k int, ok bool) {
	n := len(y)
	var mx, my Moments
	for i := range y {
		mx.Add(x[i])
		my.Add(y[i])
	}
	xy, left, ofStep := 0.0, 0.0, 0.0
	for i := range y {
		d := y[i] - my.Mean()
		xy += (x[i] - mx.Mean()) * d
		left += d
		if a, b := float64(i+1), float64(n-i-1); b > 0 {
			if e := left * left * (1/a + 1/b); e > ofStep {
				ofStep, k = e, i+1
			}
		}
	}
	ofLine := 0.0
	if mx.m2 > 0 {
		ofLine = xy * xy / mx.m2
	}
	if k == 0 || ofStep <= ofLine {
		return 0, false
	}
	rest := lessLevels(x, y, k)
	// The noise that rounding leaves of a perfect step is small, not zero.
	left = max(my.m2-ofStep, 1e-12*my.m2)
	worth := float64(n) / noiseRatio(rest)
	return k, worth*math.Log((my.m2-ofLine)/left) > decisive &&
		worth*math.Log(my.m2/left) > 4*math.Log(float64(n))
}

// lessLevels is y less the levels before and from k and less the slope that
// both sides have in common.
func lessLevels(x, y []float64, k int) []float64 {
	out := make([]float64, len(y))
	var xx, xy float64
	sides := [2][2]int{{0, k}, {k, len(y)}}
	for _, s := range sides {
		var mx, my Moments
		for i := s[0]; i < s[1]; i++ {
			mx.Add(x[i])
			my.Add(y[i])
		}
		for i := s[0]; i < s[1]; i++ {
			out[i] = y[i] - my.Mean()
			xx += (x[i] - mx.Mean()) * (x[i] - mx.Mean())
			xy += (x[i] - mx.Mean()) * out[i]
		}
	}
	if !(xx > 0) {
		return out
	}
	for _, s := range sides {
		var mx Moments
		for i := s[0]; i < s[1]; i++ {
			mx.Add(x[i])
		}
		for i := s[0]; i < s[1]; i++ {
			out[i] -= xy / xx * (x[i] - mx.Mean())
		}
	}
	return out
}
