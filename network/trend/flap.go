package trend

import (
	"math"
	"time"

	"github.com/assay-bench/assay/stat"
)

// What an episode is: so many reports in a row that are down by so many robust
// standard deviations, and then as many that are up again. One report alone is an
// outlier.
const (
	flapRow  = 2
	flapDown = 3.0
	flapUp   = 1.5
	// flapUsual is how many reports before them say what is usual.
	flapUsual = 200
)

// Flap is a series that went down and came back several times.
type Flap struct {
	Downs   []time.Time // the first reports of the episodes
	Low     float64     // the median of the metric while it was down
	Usual   float64     // and before all that
	Loss    float64     // as a share
	Reports []string    // the first of each episode
	Index   int         // of the report that showed it
}

// Flapping looks for episodes in the newest part of a series, against what was usual
// before it. The last report of the series has to be the one that completes the
// last episode: each episode is told once.
func Flapping(metric string, series []Point, o Options) (Flap, bool) {
	n := len(series)
	if n == 0 {
		return Flap{}, false
	}
	sign, end := better(metric), series[n-1].At
	from := n
	for from > 0 && end.Sub(series[from-1].At) < o.FlapSpan {
		from--
	}
	usual := series[max(0, from-flapUsual):from]
	if len(usual) < o.MinPoints || usual[len(usual)-1].At.Sub(usual[0].At) < o.MinSpan {
		return Flap{}, false
	}
	y, at := make([]float64, len(usual)), make([]time.Time, len(usual))
	for i, p := range usual {
		y[i], at[i] = sign*math.Log(p.Value), p.At
	}
	c := cycleOf(at, y)
	for i := range y {
		y[i] -= c.at(at[i])
	}
	level, spread := robust(y)
	bound := max(flapDown*spread, -math.Log1p(-o.MinLoss))
	f := Flap{Usual: math.Exp(sign * level), Index: n - 1}
	down, row, fresh := false, 0, false
	var lows []float64
	for i := from; i < n; i++ {
		v := sign*math.Log(series[i].Value) - c.at(series[i].At) - level
		fresh = false
		if toggles := !down && v < -bound || down && v > -bound*flapUp/flapDown; !toggles {
			row = 0
		} else if row++; row == flapRow {
			down, row = !down, 0
			if down {
				first := series[i-flapRow+1]
				f.Downs, f.Reports = append(f.Downs, first.At), append(f.Reports, first.Report)
				fresh = true
			}
		}
		if down {
			lows = append(lows, v)
		}
	}
	if !fresh || len(f.Downs) < o.Flaps {
		return Flap{}, false
	}
	low := stat.Median(lows)
	f.Low, f.Loss = math.Exp(sign*(level+low)), -math.Expm1(low)
	return f, true
}

// robust is the median, and the standard deviation by the median of absolute
// deviations.
func robust(y []float64) (median, sd float64) {
	median = stat.Median(y)
	d := make([]float64, len(y))
	for i, v := range y {
		d[i] = math.Abs(v - median)
	}
	return median, madScale * stat.Median(d)
}

// madScale makes the median of absolute deviations a standard deviation, of values
// that are normal.
const madScale = 1.482602218505602
