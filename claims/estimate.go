package claims

import (
	"fmt"
	"math"
	"slices"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// samples are what a probe gave, in the order in which it gave it.
type samples struct {
	values []float64
	sorted []float64 // made when first needed
	batch  []int     // nil: every value is of one operation
	wrong  int       // values that are no numbers
	tau    float64   // autocorrelation time of the values; 0: not yet known
	// reduced has the figures where they are made elsewhere; nil: they are made here.
	reduced Distribution
}

// add takes a sample.
func (s *samples) add(m Measurement) {
	b := max(1, m.Batch)
	if b > 1 && s.batch == nil {
		s.batch = make([]int, len(s.values), cap(s.values))
		for i := range s.batch {
			s.batch[i] = 1
		}
	}
	if s.batch != nil {
		s.batch = append(s.batch, b)
	}
	if math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
		s.wrong++
	}
	s.values = append(s.values, m.Value)
	s.sorted, s.tau = nil, 0
}

// rank puts the values in order.
func (s *samples) rank() []float64 {
	if s.sorted == nil {
		s.sorted = slices.Clone(s.values)
		slices.Sort(s.sorted)
	}
	return s.sorted
}

// largestBatch is 1 where operations were timed one by one.
func (s *samples) largestBatch() int {
	if s.batch == nil {
		return 1
	}
	return slices.Max(s.batch)
}

// minForMean is below which a mean gets no interval: the spread of a handful
// says too little about the tails, and that of equal values nothing.
const minForMean = 6

// estimator is how intervals are made. Its zero value makes those of a sample
// that is looked at once.
type estimator struct {
	// sequence makes intervals that may be looked at after every sample.
	sequence bool
}

// alpha is what an interval may miss.
const alpha = 0.05

// of is the estimate of a figure with its interval.
func (e estimator) of(f figure, s *samples) assay.Quantity {
	n := len(s.values)
	switch {
	case n == 0:
		return assay.UnknownQuantity("no samples")
	case s.wrong > 0:
		return assay.UnknownQuantity(fmt.Sprintf("%d of %d samples were no numbers", s.wrong, n))
	}
	if s.reduced != nil {
		return ofReduced(f, s.reduced)
	}
	if b := s.largestBatch(); b > 1 && f.kind != metricMean && f.kind != metricThroughput {
		return assay.UnknownQuantity(fmt.Sprintf("each sample is the mean of a batch (of up to %d operations), and the mean of a batch has no %s: promise the mean", b, f.name))
	}
	switch f.kind {
	case metricPercentile:
		return e.percentile(f.level, s)
	case metricMin, metricMax:
		return extreme(f.kind, n, s.rank()[0], s.rank()[n-1])
	case metricThroughput:
		return e.throughput(f, s)
	}
	return e.mean(s.values, s.batch)
}

// ofReduced is a figure that is made elsewhere. A mean of a handful has no interval
// there either.
func ofReduced(f figure, d Distribution) assay.Quantity {
	q := d.Mean()
	if q.Known() && q.N < minForMean {
		q.Lo, q.Hi, q.Why = math.NaN(), math.NaN(), fmt.Sprintf("too few: a mean needs %d, and there are %d", minForMean, q.N)
	}
	switch f.kind {
	case metricPercentile:
		return d.Percentile(f.level)
	case metricMin, metricMax:
		low, high := d.Range()
		return extreme(f.kind, q.N, low, high)
	case metricThroughput:
		if f.ofTimes {
			return inverted(q)
		}
	}
	return q
}

// extreme is the least or the largest that was seen, which bounds what there is on
// one side; nothing bounds it on the other.
func extreme(kind metricKind, n int, low, high float64) assay.Quantity {
	if kind == metricMin {
		return assay.Quantity{N: n, Est: low, Lo: math.Inf(-1), Hi: low, Why: "the smallest that was seen; nothing says how much smaller it can be"}
	}
	return assay.Quantity{N: n, Est: high, Lo: high, Hi: math.Inf(1), Why: "the largest that was seen; nothing says how much larger it can be"}
}

// inverted is one over a mean time.
func inverted(q assay.Quantity) assay.Quantity {
	lo, hi := 1/q.Hi, 1/q.Lo
	if q.Lo <= 0 {
		hi = math.Inf(1)
	}
	return assay.Quantity{N: q.N, Est: 1 / q.Est, Lo: lo, Hi: hi, Why: q.Why}
}

func (e estimator) percentile(level float64, s *samples) assay.Quantity {
	sorted := s.rank()
	n := len(sorted)
	q := assay.Quantity{N: n, Est: stat.Quantile(sorted, level), Lo: math.NaN(), Hi: math.NaN()}
	tau := e.percentileTau(s, q.Est)
	effective := math.Floor(float64(n) / tau)
	lo, hi, ok := e.ranks(effective, level)
	if !ok {
		q.Why = fmt.Sprintf("too few samples: p%g needs %d independent ones, and these %d count as %d", level, e.needs(level), n, int(effective))
	}
	// The ranks are those of the independent samples; carried over to all of
	// them, outwards. Samples that are too few for both ends may have one, and a
	// promise on one side needs no more to be broken.
	share := float64(n) / effective
	if lo >= 1 {
		q.Lo = sorted[max(1, int(math.Floor(float64(lo-1)*share))+1)-1]
	}
	if hi >= 1 && hi <= int64(effective) {
		q.Hi = sorted[min(n, int(math.Ceil(float64(hi)*share-1e-9)))-1]
	}
	switch {
	case math.IsNaN(q.Hi) && !math.IsNaN(q.Lo):
		q.Hi = math.Inf(1)
	case math.IsNaN(q.Lo) && !math.IsNaN(q.Hi):
		q.Lo = math.Inf(-1)
	}
	return q
}

func (e estimator) ranks(effective, level float64) (lo, hi int64, ok bool) {
	if e.sequence {
		if effective < minForSequence {
			return 0, 0, false
		}
		return stat.QuantileSequence(int64(effective), level, alpha)
	}
	return stat.QuantileRanks(int64(effective), level)
}

// needs is how many independent samples a percentile's interval takes.
func (e estimator) needs(level float64) int64 {
	n := stat.QuantileNeeds(level)
	if e.sequence {
		n = max(n, minForSequence)
	}
	for e.sequence {
		if _, _, ok := stat.QuantileSequence(n, level, alpha); ok {
			break
		}
		n += max(1, n/50)
	}
	return n
}

// percentileTau is the autocorrelation time that matters for a percentile: that
// of lying below it. Values may jump about and still cross a percentile in long
// stretches, and the other way round.
//
// The ranks of a percentile's interval are whole numbers and so cover somewhat
// more than 95 % as they are; noise in this estimate is not added to that, but
// where looks are many.
func (e estimator) percentileTau(s *samples, at float64) float64 {
	below := make([]float64, len(s.values))
	for i, v := range s.values {
		if v <= at {
			below[i] = 1
		}
	}
	tau := autocorrelation(below)
	if e.sequence {
		return tau
	}
	return beyondNoise(tau, len(below))
}

// autocorrelation is how many samples in a row count as one. The estimate is too
// small by its window's share of the series, which is made up for (Wolff, Monte
// Carlo errors with less errors, 2004).
func autocorrelation(series []float64) float64 {
	const short = 32 // of fewer, the estimate is noise
	n := float64(len(series))
	if len(series) < short {
		return 1
	}
	if len(series) > stat.MaxLagged {
		var b stat.Blocking
		for _, x := range series {
			b.Add(x)
		}
		return b.Tau()
	}
	tau := stat.AutocorrelationTime(series)
	return max(1, min(n, tau*(1+(10*tau+1)/n)))
}

// beyondNoise takes an autocorrelation time for 1 where independent samples would
// give the like: its estimate is then off by about √(22/n), and is never below 1,
// so that taking it as it is widens every interval.
func beyondNoise(tau float64, n int) float64 {
	if tau > 1+math.Sqrt(22/float64(n)) {
		return tau
	}
	return 1
}

// spread is what a mean's interval is made of.
type spread struct {
	mean, sd  float64
	effective float64 // independent samples
	n         int
}

// spreadOf weighs each value by its operations: the mean is that of operations,
// not of batches. The deviation is that of the weighted residuals, so that the
// usual formula gives the ratio estimator's interval; with equal batches it is
// the usual one.
func spreadOf(values []float64, batch []int) spread {
	n := len(values)
	weights, total := make([]float64, n), 0.0
	for i := range values {
		weights[i] = 1
		if batch != nil {
			weights[i] = float64(batch[i])
		}
		total += weights[i]
	}
	s := spread{n: n}
	for i, v := range values {
		s.mean += v * (weights[i] / total)
	}
	residuals, sum := make([]float64, n), 0.0
	for i, v := range values {
		residuals[i] = (v - s.mean) * weights[i] * float64(n) / total
		sum += residuals[i] * residuals[i]
	}
	s.sd = math.Sqrt(sum / float64(max(1, n-1)))
	s.effective = float64(n) / autocorrelation(residuals)
	return s
}

func (e estimator) mean(values []float64, batch []int) assay.Quantity {
	s := spreadOf(values, batch)
	q := assay.Quantity{N: s.n, Est: s.mean, Lo: math.NaN(), Hi: math.NaN()}
	half := e.half(s.sd, s.effective)
	if math.IsNaN(half) {
		q.Why = fmt.Sprintf("too few samples: a mean needs %d independent ones, and these %d count as %d", e.minForMean(), s.n, int(s.effective))
		return q
	}
	q.Lo, q.Hi = s.mean-half, s.mean+half
	return q
}

func (e estimator) minForMean() int {
	if e.sequence {
		return minForSequence
	}
	return minForMean
}

// half is half the width of a mean's interval; NaN with too few samples.
func (e estimator) half(sd, effective float64) float64 {
	if !(effective >= float64(e.minForMean())) {
		return math.NaN()
	}
	if e.sequence {
		return meanSequence(sd, effective, alpha)
	}
	_, half := stat.MeanInterval(0, sd, effective, 1-alpha)
	return half
}

// throughput is work done over time taken. Every sample does the same work, so
// it is one over the mean time, and for a probe that gives rates one over the
// mean of their reciprocals: the mean of rates would count a slow sample, in
// which most of the time was spent, as little as a fast one.
func (e estimator) throughput(f figure, s *samples) assay.Quantity {
	times := s.values
	if !f.ofTimes {
		times = make([]float64, len(s.values))
		for i, v := range s.values {
			times[i] = 1 / v
		}
	}
	for _, v := range times {
		if !(v > 0) || math.IsInf(v, 0) {
			return assay.UnknownQuantity("a sample is not positive: no throughput can be made of it")
		}
	}
	return inverted(e.mean(times, s.batch))
}
