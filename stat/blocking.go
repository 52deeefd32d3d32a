package stat

import (
	"math"
	"slices"
)

// Blocking estimates the autocorrelation time of a series that comes one sample
// at a time: how many samples in a row say as much as one independent sample.
//
// It keeps the variance of the means of blocks of 1, 2, 4, 8… samples
// (Flyvbjerg and Petersen's blocking), a few numbers for each doubling and
// nothing else. For blocks long enough to be independent of each other,
// block length × variance of block means ÷ variance of samples is the
// autocorrelation time. Which length is long enough is decided by the rule of
// Wolff as used by Lee et al.: the shortest b with b³ > 2·n·τ(b)², which
// balances what a short block hides against what few blocks leave to chance.
//
// The zero Blocking has no samples.
type Blocking struct {
	levels []blockLevel
	origin float64
	n      int64
}

type blockLevel struct {
	m       Moments
	half    float64 // the sum that waits for its partner
	waiting bool
}

// Add takes the next sample of the series. NaN and infinities are passed over.
func (b *Blocking) Add(x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return
	}
	if b.n == 0 {
		b.origin = x
	}
	b.n++
	x -= b.origin // the estimate does not know the origin; a near one keeps digits
	for k := 0; ; k++ {
		if k == len(b.levels) {
			b.levels = append(b.levels, blockLevel{})
		}
		l := &b.levels[k]
		l.m.add(x)
		if !l.waiting {
			l.half, l.waiting = x, true
			return
		}
		x, l.waiting = (l.half+x)/2, false
	}
}

// Clone gives a Blocking of its own with the same samples.
func (b *Blocking) Clone() Blocking {
	c := *b
	c.levels = slices.Clone(b.levels)
	return c
}

// minBlocks is the number of blocks below which a variance of their means
// says too little: its own error is then half of it.
const minBlocks = 8

// Tau is the autocorrelation time, at least 1: a series that alternates is
// never counted as more samples than it has. With fewer than 2·minBlocks
// samples nothing can be said, and Tau is 1; a short series that never reaches
// long enough blocks gives the largest value that its blocks support.
func (b *Blocking) Tau() float64 {
	if len(b.levels) == 0 {
		return 1
	}
	v0 := b.levels[0].m.Variance()
	if !(v0 > 0) {
		return 1
	}
	largest := 1.0
	for k := range b.levels {
		l := &b.levels[k]
		if l.m.n < minBlocks {
			break
		}
		size := math.Ldexp(1, k)
		tau := max(1, size*l.m.Variance()/v0)
		if size*size*size > 2*float64(b.n)*tau*tau {
			return min(tau, float64(b.n))
		}
		largest = max(largest, tau)
	}
	return min(largest, float64(b.n))
}

// N is the number of samples.
func (b *Blocking) N() int64 { return b.n }

// Effective is the number of independent samples that the series is worth.
func (b *Blocking) Effective() float64 {
	if b.n == 0 {
		return 0
	}
	return float64(b.n) / b.Tau()
}
