package summary

import (
	"math"
	"slices"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// sample gathers one metric in whole units: microseconds, nanoseconds, tokens.
// Mean and spread follow from the counts when they are asked for.
type sample struct {
	counts stat.Counts
	series stat.Blocking
}

// add takes a value; none of these metrics can be negative.
func (s *sample) add(v int64) {
	v = max(0, v)
	s.counts.Add(v)
	s.series.Add(float64(v))
}

// addNS takes nanoseconds as whole microseconds.
func (s *sample) addNS(ns int64) { s.add((ns + 500) / 1000) }

// inRowMost bounds how many equal values in a row the series is told of.
const inRowMost = 64

// zeros takes zero n times.
func (s *sample) zeros(n int64) {
	s.counts.AddN(0, n)
	for range min(n, inRowMost) {
		s.series.Add(0)
	}
}

// dist reduces the sample; a unit is scale of what the Dist is in.
func (s *sample) dist(levels []float64, scale float64) assay.Dist {
	m := s.counts.Moments()
	return distOf(&s.counts, &m, s.series.Effective(), levels, scale)
}

func distOf(counts *stat.Counts, m *stat.Moments, effective float64, levels []float64, scale float64) assay.Dist {
	n := counts.N()
	if n == 0 {
		return assay.Dist{}
	}
	d := assay.Dist{
		N: int(n), Effective: effective,
		Mean: m.Mean() * scale, Min: m.Min() * scale, Max: m.Max() * scale,
	}
	if n > 1 {
		d.Stddev = m.Stddev() * scale
	}
	var ranks []int64
	type three struct {
		at, lo, hi int64
		held       bool
	}
	all := make([]three, len(levels))
	for i, level := range levels {
		t := three{at: stat.Rank(n, level)}
		ranks = append(ranks, t.at)
		if lo, hi, ok := stat.QuantileRanks(int64(effective), level); ok {
			t.lo, t.hi, t.held = rankBelow(lo, n, effective), rankAbove(hi, n, effective), true
			ranks = append(ranks, t.lo, t.hi)
		}
		all[i] = t
	}
	slices.Sort(ranks)
	ranks = slices.Compact(ranks)
	values := counts.AtRanks(ranks...)
	value := func(rank int64) float64 {
		i, _ := slices.BinarySearch(ranks, rank)
		return float64(values[i]) * scale
	}
	for i, level := range levels {
		p := assay.Percentile{Level: level, Value: value(all[i].at), Lo: math.NaN(), Hi: math.NaN(),
			Need: int(stat.QuantileNeeds(level))}
		if all[i].held {
			p.Lo, p.Hi = value(all[i].lo), value(all[i].hi)
		}
		d.Percentiles = append(d.Percentiles, p)
	}
	return d
}

// rankBelow and rankAbove carry a rank among the effective samples over to all of
// them, outwards.
func rankBelow(lo, n int64, effective float64) int64 {
	return max(1, int64(math.Floor(float64(lo-1)*(float64(n)/math.Floor(effective))))+1)
}

func rankAbove(hi, n int64, effective float64) int64 {
	return min(n, int64(math.Ceil(float64(hi)*(float64(n)/math.Floor(effective))-1e-9)))
}

// levelsOf are the percentiles to compute: the usual ones, those asked for and
// those that an objective speaks of.
func levelsOf(j assay.Judge) []float64 {
	levels := append([]float64{50, 90, 95, 99}, j.Percentiles...)
	for _, o := range j.Objectives {
		if level, ok := o.Level(); ok {
			levels = append(levels, level)
		}
	}
	levels = slices.DeleteFunc(levels, func(l float64) bool { return !(l > 0 && l < 100) })
	slices.Sort(levels)
	return slices.Compact(levels)
}
