package load

import (
	"math"
	"math/rand/v2"
)

// OpenOptions describe arrivals at a constant mean rate.
type OpenOptions struct {
	// Rate is in requests a second. Zero and +Inf: all at once.
	Rate float64
	// Burstiness is the shape of the gamma distribution of the gaps, whose mean
	// is 1/Rate: 1 is Poisson, below 1 is burstier, above 1 more even. Zero and
	// +Inf: constant gaps, the first request at the start.
	Burstiness float64
	Seed       uint64
	// Normalise stretches the times such that request number Normalise (from 1)
	// goes out at exactly Normalise ÷ Rate, whatever the seed, as vLLM does with
	// a given number of prompts. Zero: the process is left as it is.
	Normalise int
}

// Open sends at a rate, whatever the engine does.
func Open(o OpenOptions) Schedule {
	if !(o.Rate > 0) || math.IsInf(o.Rate, 1) {
		return &arrivals{draw: func(int) float64 { return 0 }}
	}
	if constant(o.Burstiness) {
		first := 0
		if o.Normalise > 0 {
			first = 1
		}
		return &arrivals{draw: func(k int) float64 { return float64(k+first) / o.Rate }}
	}
	scale := 1 / o.Rate
	if o.Normalise > 0 {
		// The same gaps are drawn twice rather than kept.
		sum, gaps := 0.0, newGaps(o.Burstiness, o.Seed)
		for range o.Normalise {
			sum += gaps.draw()
		}
		if sum > 0 {
			scale *= float64(o.Normalise) / sum
		}
	}
	sum, gaps := 0.0, newGaps(o.Burstiness, o.Seed)
	return &arrivals{draw: func(int) float64 {
		sum += gaps.draw()
		return sum * scale
	}}
}

// RampOptions describe arrivals at a changing rate.
type RampOptions struct {
	From, To float64 // requests a second
	// Exponential: the rate grows by equal factors, so both must be above zero.
	// Otherwise it grows linearly.
	Exponential bool
	// Over is how many seconds the ramp takes; afterwards the rate stays at To.
	Over float64
	// Requests, when Over is zero, makes the rate a function of the request's
	// number instead of the time, as vLLM does: the first goes out after a gap at
	// From, and number Requests after a gap at To.
	Requests   int
	Burstiness float64 // as in OpenOptions
	Seed       uint64
}

// Ramp sends at a rate that goes from one value to another.
func Ramp(o RampOptions) Schedule {
	gap := func() float64 { return 1 }
	if !constant(o.Burstiness) {
		gap = newGaps(o.Burstiness, o.Seed).draw
	}
	if o.Over <= 0 {
		sum := 0.0
		return &arrivals{draw: func(k int) float64 {
			p := min(1, float64(k)/float64(max(1, o.Requests-1)))
			sum += gap() / o.rate(p)
			return sum
		}}
	}
	// Time is stretched such that the arrivals of a process with rate 1 come at
	// the wanted rate: the k-th comes when the rate's integral reaches its time.
	sum := 0.0
	return &arrivals{draw: func(k int) float64 {
		if k > 0 || !constant(o.Burstiness) {
			sum += gap()
		}
		return o.when(sum)
	}}
}

// rate at progress p in [0,1].
func (o RampOptions) rate(p float64) float64 {
	if o.Exponential {
		return o.From * math.Pow(o.To/o.From, p)
	}
	return o.From + (o.To-o.From)*p
}

// when is the time at which n arrivals are due: the inverse of the integral of
// the rate.
func (o RampOptions) when(n float64) float64 {
	total := o.Over * (o.From + o.To) / 2
	growth := math.Log(o.To / o.From)
	if o.Exponential && growth != 0 {
		total = o.Over * (o.To - o.From) / growth
	}
	if n > total {
		return o.Over + (n-total)/o.To
	}
	if o.From == o.To {
		return n / o.From
	}
	if o.Exponential {
		return o.Over / growth * math.Log1p(n*growth/(o.From*o.Over))
	}
	// n = From·t + slope·t²/2, in the form that does not lose its digits when
	// the slope is small.
	slope := (o.To - o.From) / o.Over
	root := math.Sqrt(max(0, o.From*o.From+2*slope*n))
	if d := o.From + root; d > 0 {
		return 2 * n / d
	}
	return 0
}

// arrivals is a schedule whose times do not depend on the engine. draw is
// called once for each k, in order.
type arrivals struct {
	draw  func(k int) float64
	drawn int
	step  Step
}

func (a *arrivals) Next(st State) Step {
	for a.drawn <= st.Issued {
		a.step.At = max(a.step.At, seconds(a.draw(a.drawn)))
		a.drawn++
	}
	return a.step
}

func constant(burstiness float64) bool {
	return !(burstiness > 0) || math.IsInf(burstiness, 1)
}

// gaps are gamma distributed with mean 1.
type gaps struct {
	shape float64
	rng   *rand.Rand
}

func newGaps(shape float64, seed uint64) gaps {
	return gaps{shape: shape, rng: rand.New(rand.NewPCG(seed, 0x6c6f6164))}
}

func (g gaps) draw() float64 {
	switch {
	case g.shape == 1:
		return g.rng.ExpFloat64()
	case g.shape < 1:
		// Gamma(a) is Gamma(a+1) times U^(1/a).
		u := 1 - g.rng.Float64()
		return g.gamma(g.shape+1) * math.Pow(u, 1/g.shape) / g.shape
	}
	return g.gamma(g.shape) / g.shape
}

// gamma draws from Gamma(shape, 1) for shape ≥ 1 by the method of Marsaglia
// and Tsang (2000).
func (g gaps) gamma(shape float64) float64 {
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := g.rng.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if u := 1 - g.rng.Float64(); math.Log(u) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}
