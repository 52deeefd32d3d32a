package summary

import (
	"math"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// gauge is a sampled number of requests in flight.
type gauge struct{ m stat.Moments }

func (g *gauge) add(v float64) { g.m.Add(v) }

// little compares the gauge with the requests' own marks. The product of
// arrivals and mean time in the system is taken as the time that requests spent
// in the window, over its length: the same number in the long run, and right
// also at the edges of a window that is not long against a request.
func (c *Collector) little(window tally, seconds float64) assay.Little {
	var l assay.Little
	if seconds <= 0 {
		return l
	}
	product := window.busy / 1e9 / seconds
	l.Product = &product
	if c.gauge.m.N() == 0 {
		return l
	}
	g := c.gauge.m.Mean()
	l.Gauge = &g
	if product > 0 {
		off := g/product - 1
		l.Off = &off
	}
	return l
}

// littleIsOff reports whether gauge and marks differ by more than 2 %, and by
// more than a gauge sampled so seldom can be off by chance.
func (c *Collector) littleIsOff(l assay.Little) bool {
	if l.Off == nil || c.gauge.m.N() < 5 || math.Abs(*l.Off) <= 0.02 {
		return false
	}
	chance := 3 * c.gauge.m.Stddev() / math.Sqrt(float64(c.gauge.m.N()))
	return math.Abs(*l.Gauge-*l.Product) > chance
}
