package summary

import (
	"fmt"
	"math"
	"slices"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// cliffShare is what goodput must have fallen to, of its maximum.
const cliffShare = 0.9

// loadStages are the figures of the stages at one load.
type loadStages struct {
	name                                         string
	goodput, rate, tokenRate, latencyMS, perUser []float64
}

// scalingOf is what closed stages of different loads show together; nil with
// fewer than two loads. Stages that were interrupted, those without a steady
// window, whose rates would bend the curve, and steps of a search that were too
// short are left out; stages of one load are joined by [stat.Typical], as the
// search itself does.
func scalingOf(stages []assay.StageSummary) *assay.Scaling {
	all := map[int]*loadStages{}
	var order []int
	for i := range stages {
		s := &stages[i]
		if s.Plan.Kind != assay.LoadClosed || s.Plan.Concurrency < 1 || !s.Complete || !s.Windowed() || s.RequestsPerSecond <= 0 {
			continue
		}
		if s.Plan.Probe && (!s.Windowed() || EvidenceOf(s).Short != "") {
			continue
		}
		l := all[s.Plan.Concurrency]
		if l == nil {
			l = &loadStages{name: s.Name}
			all[s.Plan.Concurrency] = l
			order = append(order, s.Plan.Concurrency)
		}
		l.goodput = append(l.goodput, s.GoodputPerSecond)
		l.rate = append(l.rate, s.RequestsPerSecond)
		l.tokenRate = append(l.tokenRate, s.OutputTokensPerSecond)
		l.latencyMS = append(l.latencyMS, s.E2E.Mean)
		l.perUser = append(l.perUser, s.TokensPerUser)
	}
	typical := func(v []float64) float64 {
		t, _ := stat.Typical(v)
		return t
	}
	if len(order) < 2 {
		return nil
	}
	slices.Sort(order)
	out := &assay.Scaling{}
	var rates []float64
	for _, n := range order {
		l := all[n]
		p := assay.ScalePoint{
			Stage: l.name, Load: float64(n), Goodput: typical(l.goodput), TokenRate: typical(l.tokenRate),
			LatencyMS: typical(l.latencyMS), PerUser: typical(l.perUser),
		}
		rate := typical(l.rate)
		if one := all[1]; one != nil {
			p.Degradation = rate / (p.Load * typical(one.rate))
		}
		out.Points = append(out.Points, p)
		rates = append(rates, rate)
	}
	out.Knee = knee(out.Points, rates)
	out.Peak, out.Cliff = peakAndCliff(out.Points)
	loads := make([]float64, len(out.Points))
	for i, p := range out.Points {
		loads[i] = p.Load
	}
	if u, ok := stat.FitUSL(loads, rates); ok {
		out.USL = &assay.USL{Gamma: u.Gamma, Sigma: u.Sigma, Kappa: u.Kappa}
		if !math.IsNaN(u.R2) {
			out.USL.R2 = u.R2
		}
		if n, ok := u.Peak(); ok {
			out.USL.PeakN = &n
		}
	}
	return out
}

// knee is X_max × R_min: throughput's ceiling times the latency of one stream.
func knee(points []assay.ScalePoint, rates []float64) assay.Quantity {
	least := 0
	for i, p := range points {
		if p.LatencyMS > 0 && p.LatencyMS < points[least].LatencyMS {
			least = i
		}
	}
	q := assay.Quantity{N: len(points), Lo: math.NaN(), Hi: math.NaN()}
	if points[0].Load == 1 {
		least = 0
	} else {
		q.Why = fmt.Sprintf("one stream was not measured; the latency is that of %g streams", points[least].Load)
	}
	if points[least].LatencyMS <= 0 {
		return assay.UnknownQuantity("no latency was measured")
	}
	most := slices.Max(rates)
	q.Est = most * points[least].LatencyMS / 1e3
	k := len(rates) - 1
	switch {
	case q.Why != "":
	case q.Est > points[k].Load:
		q.Why = fmt.Sprintf("it lies above the highest load that was measured, %g streams: measure beyond it", points[k].Load)
	case rates[k] == most && slices.Max(rates[:k]) < 0.95*most:
		q.Why = "throughput was still rising at the highest load: its ceiling, and so the knee, may lie higher"
	}
	return q
}

// peakAndCliff finds the load with the highest goodput, between its neighbours,
// and the load beyond it where goodput has fallen to cliffShare, on a straight
// line between the two stages on either side.
func peakAndCliff(points []assay.ScalePoint) (peak, cliff assay.Quantity) {
	top := 0
	for i, p := range points {
		if p.Goodput > points[top].Goodput {
			top = i
		}
	}
	if points[top].Goodput <= 0 {
		why := "no request kept the limits at any load"
		return assay.UnknownQuantity(why), assay.UnknownQuantity(why)
	}
	peak = assay.Quantity{N: len(points), Est: points[top].Load, Lo: points[max(0, top-1)].Load, Hi: points[min(len(points)-1, top+1)].Load}
	limit := cliffShare * points[top].Goodput
	for i := top + 1; i < len(points); i++ {
		if points[i].Goodput > limit {
			continue
		}
		a, b := points[i-1], points[i]
		at := a.Load + (b.Load-a.Load)*(a.Goodput-limit)/(a.Goodput-b.Goodput)
		return peak, assay.Quantity{N: len(points), Est: at, Lo: a.Load, Hi: b.Load}
	}
	return peak, assay.UnknownQuantity(fmt.Sprintf("goodput did not fall 10 %% below its maximum up to %g streams", points[len(points)-1].Load))
}
