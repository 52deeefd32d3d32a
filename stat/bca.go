package stat

import (
	"math"
	"math/rand/v2"
	"slices"
)

// BootstrapOptions say how a bootstrap draws. The zero value draws 10,000
// resamples of independent samples for an interval of 95 %.
type BootstrapOptions struct {
	Confidence float64 // 0: 0.95
	Replicates int     // 0: 10,000
	Seed       uint64  // of the draws; the same seed gives the same interval
	// Resample fills the k-th resample with indices from 0 to len(indices)−1;
	// nil draws each of them independently. [BlockIndices] keeps neighbours
	// together, and a test can give the indices that another program drew.
	Resample func(k int, indices []int)
}

func (o BootstrapOptions) filled() BootstrapOptions {
	if o.Confidence == 0 {
		o.Confidence = 0.95
	}
	if o.Replicates == 0 {
		o.Replicates = 10_000
	}
	if o.Resample == nil {
		rng := rand.New(rand.NewPCG(o.Seed, 0xb0075))
		o.Resample = func(_ int, indices []int) {
			for i := range indices {
				indices[i] = rng.IntN(len(indices))
			}
		}
	}
	return o
}

// Gather makes a statistic of indices, which the bootstrap wants, out of one of
// values: f gets the chosen values in a slice that it may reorder and must not
// keep. NaN values stay in: f decides about them.
func Gather(x []float64, f func([]float64) float64) func(indices []int) float64 {
	chosen := make([]float64, 0, len(x))
	return func(indices []int) float64 {
		chosen = chosen[:0]
		for _, i := range indices {
			chosen = append(chosen, x[i])
		}
		return f(chosen)
	}
}

// Replicates are a statistic's values on resamples of n samples, sorted; for a
// plain interval see [PercentileInterval]. They are none when n < 1, and when
// the statistic is NaN on some resample: what is not defined on the resamples
// has no bootstrap.
//
// The statistic gets indices into whatever it is a statistic of, so that pairs
// stay pairs; it must not keep them.
func Replicates(n int, statistic func(indices []int) float64, o BootstrapOptions) []float64 {
	o = o.filled()
	if n < 1 || o.Replicates < 1 {
		return nil
	}
	indices := make([]int, n)
	values := make([]float64, o.Replicates)
	for k := range values {
		o.Resample(k, indices)
		values[k] = statistic(indices)
		if math.IsNaN(values[k]) {
			return nil
		}
	}
	slices.Sort(values)
	return values
}

// BootstrapInterval is what [BCa] says of a statistic.
type BootstrapInterval struct {
	N            int
	Est          float64 // the statistic of the samples themselves
	Lo, Hi       float64
	Bias         float64 // z₀: where the estimate lies among the replicates
	Acceleration float64 // a: how fast the statistic's spread grows with it
	LoAt, HiAt   float64 // the shares of the replicates that lie below the ends
	// Degenerate says that every replicate was the same: an interval of no
	// width, which the samples' own lack of variation made.
	Degenerate bool
}

// BCa is Efron's bias-corrected and accelerated bootstrap interval of a
// statistic of n samples. Acceleration comes from leaving each sample out once;
// ends are nearest ranks of the replicates, never interpolated; replicates
// equal to the estimate count a half for the bias.
//
// With equal samples the interval has no width and is marked Degenerate. With
// fewer than two samples, with a statistic that is not finite or is NaN on a
// resample, with replicates all on one side of the estimate, or with a tail
// that holds less than one replicate, the ends are NaN.
func BCa(n int, statistic func(indices []int) float64, o BootstrapOptions) BootstrapInterval {
	o = o.filled()
	nan := math.NaN()
	b := BootstrapInterval{N: max(0, n), Est: nan, Lo: nan, Hi: nan, Bias: nan, Acceleration: nan, LoAt: nan, HiAt: nan}
	if n < 1 {
		return b
	}
	indices := make([]int, n)
	for i := range indices {
		indices[i] = i
	}
	b.Est = statistic(indices)
	if n < 2 || math.IsNaN(b.Est) || math.IsInf(b.Est, 0) || !(o.Confidence > 0 && o.Confidence < 1) {
		return b
	}
	values := Replicates(n, statistic, o)
	if len(values) == 0 {
		return b
	}
	if last := len(values) - 1; values[0] == b.Est && values[last] == b.Est {
		b.Lo, b.Hi, b.Degenerate = b.Est, b.Est, true
		return b
	}
	below, _ := slices.BinarySearch(values, b.Est)
	upTo, _ := slices.BinarySearchFunc(values[below:], b.Est, func(v, t float64) int {
		if v > t {
			return 1
		}
		return -1
	})
	count := float64(len(values))
	b.Bias = NormalQuantile((float64(below) + float64(upTo)/2) / count)
	b.Acceleration = acceleration(n, statistic)
	z := NormalQuantile(0.5 + o.Confidence/2)
	b.LoAt, b.HiAt = b.share(-z), b.share(z)
	// Not ≥: NaN must end here too.
	if !(b.LoAt*count >= 1-1e-9 && (1-b.HiAt)*count >= 1-1e-9 && b.LoAt <= b.HiAt) {
		return b
	}
	b.Lo = Quantile(values, 100*b.LoAt)
	b.Hi = values[len(values)-int(Rank(int64(len(values)), 100*(1-b.HiAt)))]
	return b
}

// share is where among the replicates the end at z of a normal one lies.
func (b BootstrapInterval) share(z float64) float64 {
	z += b.Bias
	return normalCDF(b.Bias + z/(1-b.Acceleration*z))
}

// acceleration is a sixth of the skewness of the statistic without each sample;
// 0 when leaving one out changes nothing, NaN when it leaves no statistic.
func acceleration(n int, statistic func([]int) float64) float64 {
	values := make([]float64, n)
	rest := make([]int, n-1)
	for i := range values {
		for k := range rest {
			rest[k] = k
			if k >= i {
				rest[k]++
			}
		}
		values[i] = statistic(rest)
	}
	mean := 0.0
	for _, v := range values {
		mean += v / float64(n)
	}
	squares, cubes := 0.0, 0.0
	for _, v := range values {
		d := mean - v
		squares += d * d
		cubes += d * d * d
	}
	if squares == 0 {
		return 0
	}
	return cubes / (6 * math.Pow(squares, 1.5))
}
