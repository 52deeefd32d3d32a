package summary

import (
	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// gapSample gathers gaps. A marked one is known as a bound only: it is left out
// of the percentiles, and of nothing else.
type gapSample struct {
	exact sample
	all   stat.Moments
}

// add takes the gap before n tokens that came together, in µs: one of them
// waited for it, the others came with it.
func (g *gapSample) add(us, n int64, marked bool) {
	g.all.Add(float64(us))
	g.all.AddN(0, n-1)
	if marked {
		return
	}
	g.exact.add(us)
	g.exact.zeros(n - 1)
}

// dist has count, mean, spread and extremes of all gaps, and percentiles of
// those that are exact.
func (g *gapSample) dist(levels []float64, scale float64) assay.Dist {
	n := g.all.N()
	if n == 0 {
		return assay.Dist{}
	}
	d := g.exact.dist(levels, scale)
	d.N, d.Mean, d.Min, d.Max = int(n), g.all.Mean()*scale, g.all.Min()*scale, g.all.Max()*scale
	if n > 1 {
		d.Stddev = g.all.Stddev() * scale
	}
	return d
}

// addGaps takes the gaps of a request: for each token after the first arrival as
// it was delivered, and between arrivals. Chunks that came at the same moment
// are one arrival.
func (c *Collector) addGaps(r *assay.Request) {
	for _, v := range r.Gaps {
		c.gaps++
		if _, marked := assay.Gap(v); marked {
			c.marked++
		}
	}
	later := tokenCount(r.OutputTokens) - int64(r.FirstTokens())
	r.Later(func(us int32, tokens int, marked bool) {
		if us > 0 {
			c.arrivalGap.add(int64(us), 1, marked)
		}
		if tokens > 0 {
			c.itl.add(int64(us), int64(tokens), marked)
		}
		later -= int64(tokens)
	})
	// The engine counted more tokens than its chunks account for: they came with
	// chunks, nobody knows with which.
	if later > 0 && r.First != 0 && len(r.Gaps) > 0 {
		c.itl.all.AddN(0, later)
		c.itl.exact.zeros(later)
	}
}
