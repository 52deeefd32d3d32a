package summary

import (
	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// gapSample gathers gaps. A marked one is known as a bound only: it is left out
// of the percentiles, and of nothing else.
type gapSample struct {
	exact  sample
	bounds stat.Counts
}

// add takes the gap before n tokens that came together, in µs: one of them
// waited for it, the others came with it.
func (g *gapSample) add(us, n int64, marked bool) {
	switch {
	case marked:
		g.bounds.Add(us)
		g.bounds.AddN(0, n-1)
	case n > 1:
		g.exact.add(us)
		g.exact.zeros(n - 1)
	default:
		g.exact.add(us)
	}
}

// dist has count, mean, spread and extremes of all gaps, and percentiles of
// those that are exact.
func (g *gapSample) dist(levels []float64, scale float64) assay.Dist {
	d := g.exact.dist(levels, scale)
	if g.bounds.N() == 0 {
		return d
	}
	all := g.exact.counts.Moments()
	all.Merge(g.bounds.Moments())
	d.N, d.Mean, d.Min, d.Max = int(all.N()), all.Mean()*scale, all.Min()*scale, all.Max()*scale
	if d.N > 1 {
		d.Stddev = all.Stddev() * scale
	}
	return d
}

// copyOf is a sample of its own with the same gaps.
func copyOf(g *gapSample) gapSample {
	var c gapSample
	c.exact.counts.Merge(&g.exact.counts)
	c.exact.series = g.exact.series.Clone()
	c.bounds.Merge(&g.bounds)
	return c
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
	// As long as each token came alone, both are the same gaps, which are then
	// gathered once: a run has many more of them than of anything else.
	if !c.apart && !eachAlone(r, later) {
		c.apart, c.arrivalGap = true, copyOf(&c.itl)
	}
	r.Later(func(us int32, tokens int, marked bool) {
		if us > 0 && c.apart {
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
		c.itl.exact.zeros(later)
	}
}

// eachAlone reports whether each token after the first one came alone, later
// being how many the engine counted.
func eachAlone(r *assay.Request, later int64) bool {
	for i, v := range r.Gaps {
		if v == 0 || v == assay.MarkGap(0) || i+1 < len(r.ChunkTokens) && r.ChunkTokens[i+1] != 1 {
			return false
		}
	}
	return later <= int64(len(r.Gaps))
}
