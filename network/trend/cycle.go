package trend

import (
	"math"
	"time"

	"github.com/assay-bench/assay/stat"
)

// Parts of a day: a node is slower at noon when its hall is warm and its neighbours
// are busy, and that is no change.
const (
	dayParts = 8
	partOf   = day / dayParts
	// cycleWeight is how many reports a part of the day needs for half of its effect
	// to be believed.
	cycleWeight = 4
)

// cycle is by how much each part of the day differs from its day.
type cycle [dayParts]float64

func (c *cycle) at(t time.Time) float64 { return c[part(t)] }

func part(t time.Time) int {
	u := t.UTC()
	return int(u.Sub(u.Truncate(day)) / partOf)
}

// cycleOf estimates the daily cycle from deviations from each day's own median, so
// that a change or a drift is not taken for a part of it. A day with few reports
// says nothing.
func cycleOf(at []time.Time, y []float64) (c cycle) {
	var deviations [dayParts][]float64
	for from := 0; from < len(at); {
		to := from + 1
		for to < len(at) && at[to].UTC().Truncate(day).Equal(at[from].UTC().Truncate(day)) {
			to++
		}
		if to-from >= 3 {
			m := stat.Median(y[from:to])
			for i := from; i < to; i++ {
				p := part(at[i])
				deviations[p] = append(deviations[p], y[i]-m)
			}
		}
		from = to
	}
	for i, d := range deviations {
		if n := float64(len(d)); n > 1 {
			c[i] = stat.Median(d) * n / (n + cycleWeight)
		}
	}
	return c
}

// inflation is √ of the autocorrelation time of the noise around a change: by how
// much a standard deviation of a mean exceeds that of independent values. Of what a
// short series seems to show, what its own error may have made is not believed.
func inflation(noise []float64) float64 {
	_, sd := robust(noise)
	clipped := make([]float64, len(noise))
	for i, v := range noise {
		clipped[i] = max(-3*sd, min(3*sd, v))
	}
	tau := stat.AutocorrelationTime(clipped) * (1 - math.Sqrt(20/float64(len(noise))))
	return math.Sqrt(max(1, tau))
}
