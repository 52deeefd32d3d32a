package summary

import (
	"fmt"
	"math"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// Percentile is any percentile of a metric of the judged requests so far (ttft,
// ttfo, tpot, itl, e2e …), in milliseconds, with its 95 % interval.
//
// Requests too few for an interval may still have one end of it; the other is then
// infinite, and Why says how many are needed. Such a figure can break a limit, and
// never keep one.
func (c *Collector) Percentile(metric string, level float64) assay.Quantity {
	of, scale := c.sampleOf(metric)
	if of == nil {
		return assay.UnknownQuantity(fmt.Sprintf("there is no metric %s", metric))
	}
	n, effective := of.counts.N(), of.series.Effective()
	if n == 0 || !(level > 0 && level < 100) {
		return assay.UnknownQuantity(c.nothing())
	}
	value := func(rank int64) float64 { return float64(of.counts.AtRanks(rank)[0]) * scale }
	q := assay.Quantity{N: int(n), Est: value(stat.Rank(n, level)), Lo: math.NaN(), Hi: math.NaN()}
	lo, hi, ok := stat.QuantileRanks(int64(effective), level)
	if ok {
		q.Lo, q.Hi = value(rankBelow(lo, n, effective)), value(rankAbove(hi, n, effective))
		return q
	}
	needs := float64(stat.QuantileNeeds(level))
	q.Why = fmt.Sprintf("%d requests are worth %.0f independent ones, and p%g needs %.0f: about %.0f more would do",
		n, math.Floor(effective), level, needs, math.Ceil((needs/effective-1)*float64(n)))
	if lo >= 1 {
		q.Lo, q.Hi = value(rankBelow(lo, n, effective)), math.Inf(1)
	} else if hi >= 1 && hi <= int64(effective) {
		q.Lo, q.Hi = math.Inf(-1), value(rankAbove(hi, n, effective))
	}
	return q
}

// Mean is the mean of a metric of the judged requests so far, in milliseconds,
// with its interval; of error_rate the share of them that the engine failed.
func (c *Collector) Mean(metric string) assay.Quantity {
	s := c.Summary()
	return measured(&s, assay.Objective{Metric: metric, Stat: "mean"})
}

// nothing says why there is no sample.
func (c *Collector) nothing() string {
	s := c.Summary()
	return nothingMeasured(&s)
}
