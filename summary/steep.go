package summary

import (
	"math"

	"github.com/assay-bench/assay/stat"
)

const (
	// batches is how many stretches a stage is cut into to look for a steep
	// trend, and batchLeast the fewest windows that one may have: long enough
	// that their means are nearly independent of each other.
	batches    = 8
	batchLeast = 5
	// steepLeast is how many times the noise of a window the whole change must
	// be. Whatever is less is for [stat.Drift] alone.
	steepLeast = 6
	// keptPace is the least share of the whole stage's slope that its later half
	// must have.
	keptPace = 0.5
)

// steep looks for a trend that is far above the noise in a stage too short for
// [stat.Drift]: that one goes by ranks, and ranks of sixty correlated windows
// cannot be significant however much the values change. Here a straight line is
// put through the means of eight stretches, with Student's interval of the
// scatter around it. It only ever turns unknown into an alarm, and so is asked
// only where the answer was unknown.
func steep(at, y []float64, v stat.TrendVerdict, o stat.TrendOptions) stat.TrendVerdict {
	if v.Direction != stat.DirectionUnknown || v.Stepped {
		return v
	}
	var x, z []float64
	for i := range y {
		if !math.IsNaN(y[i]) {
			x, z = append(x, at[i]), append(z, y[i])
		}
	}
	size := len(z) / batches
	if size < batchLeast {
		return v
	}
	x, z = x[len(x)-batches*size:], z[len(z)-batches*size:]
	unit := o.Per
	if o.Relative {
		m := math.Abs(stat.Median(z))
		if !(m > 0) {
			return v
		}
		unit /= m
	}
	bx, by := make([]float64, batches), make([]float64, batches)
	for b := range batches {
		bx[b], by[b] = meanOf(x[b*size:(b+1)*size]), meanOf(z[b*size:(b+1)*size])
	}
	slope, err := line(bx, by)
	level := o.Level / float64(o.Tests)
	reach := err * stat.StudentQuantile(1-level/2, batches-2)
	lo, hi := (slope-reach)*unit, (slope+reach)*unit
	// What only settles, as an allocator does after the start, is slower in the
	// later half; a trend keeps its pace.
	later, _ := line(bx[batches/2:], by[batches/2:])
	if later/slope < keptPace {
		return v
	}
	change := math.Abs(slope) * (x[len(x)-1] - x[0])
	switch {
	case math.IsNaN(reach) || change < steepLeast*noise(x, z, slope):
		return v
	case lo > o.MinEffect && later*unit >= o.MinEffect:
		v.Direction = stat.Rising
	case hi < -o.MinEffect && later*unit <= -o.MinEffect:
		v.Direction = stat.Falling
	default:
		return v
	}
	v.Slope = stat.Slope{N: len(z), Slope: slope * unit, Lo: lo, Hi: hi}
	v.P = studentP(math.Abs(slope)/err, batches-2)
	v.Why = v.Direction.String() + " far above the noise, by a line through the means of eight stretches"
	return v
}

// line is the least squares slope with its standard error.
func line(x, y []float64) (slope, err float64) {
	mx, my := meanOf(x), meanOf(y)
	var xx, xy, rr float64
	for i := range x {
		xx += (x[i] - mx) * (x[i] - mx)
		xy += (x[i] - mx) * (y[i] - my)
	}
	slope = xy / xx
	for i := range x {
		r := y[i] - my - slope*(x[i]-mx)
		rr += r * r
	}
	return slope, math.Sqrt(rr / float64(len(x)-2) / xx)
}

// noise is the standard deviation of the windows around a line.
func noise(x, y []float64, slope float64) float64 {
	var m stat.Moments
	for i := range x {
		m.Add(y[i] - slope*(x[i]-x[0]))
	}
	return m.Stddev()
}

// studentP is the two-sided p of Student's t.
func studentP(t, df float64) float64 {
	lo, hi := 0.5, 1.0
	for range 60 {
		if mid := (lo + hi) / 2; stat.StudentQuantile(mid, df) < t {
			lo = mid
		} else {
			hi = mid
		}
	}
	return 2 * (1 - lo)
}
