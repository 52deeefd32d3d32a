package stat

import (
	"fmt"
	"math"
	"slices"
)

// Direction is what [Drift] found. Its zero value is unknown.
type Direction uint8

const (
	DirectionUnknown Direction = iota // the points do not say
	DirectionNone                     // no trend of the size asked for
	Rising
	Falling
)

func (d Direction) String() string {
	return [...]string{"unknown", "none", "rising", "falling"}[min(d, Falling)]
}

// TrendOptions say which trend is worth an alarm, and how rarely an alarm may
// be false. The zero value asks about any slope at all.
type TrendOptions struct {
	// MinEffect is the smallest slope worth an alarm, in units of y for each
	// Per seconds: {MinEffect: 0.5e6, Per: 60} is 0.5 MB a minute.
	MinEffect float64
	// Per is the time that MinEffect and the slopes of the answer speak of, in
	// seconds. 0: 60.
	Per float64
	// Relative makes MinEffect, Find and the slopes of the answer shares of
	// the median of y: {MinEffect: 0.02, Per: 600, Relative: true} is 2 % in
	// ten minutes.
	Relative bool
	// Find is the slope that a run must be able to find before DirectionNone
	// may be said of it; a shorter or noisier one is unknown, and Needs says
	// how long it should be. 0: none is said of any run, and Sees says what it
	// is worth.
	Find float64
	// Level is the most chance of any false alarm in all tests of a run. 0: 0.01.
	Level float64
	// Tests is how many trends the caller tests in a run; each gets an equal
	// share of Level (Bonferroni). 0: 1.
	Tests int
}

// familyOfRun is how many trends one run is tested for: memory, tokens a
// second, time to the first token.
const familyOfRun = 3

// DefaultLeak asks about memory in bytes: 0.5 MB a minute is worth an alarm, and
// none is said only where 1 MB a minute would have been found.
//
// A leak of 1 MB/min is found in at least 95 of 100 runs of 20 minutes in 120
// windows with noise (standard deviation of a window) of 4 MB when windows are
// independent and 2 MB at ρ = 0.5; at ρ = 0.8, noise of 2 MB takes 40 minutes
// in 240 windows. Only the windows' number and noise ÷ leak in the run count:
// a tenth of the time at ten times the leak, asked for with a tenth of Per, is
// the same question.
func DefaultLeak() TrendOptions {
	return TrendOptions{MinEffect: 0.5e6, Find: 1e6, Per: 60, Tests: familyOfRun}
}

// DefaultDrift asks about a rate or a latency: 2 % of its median in ten minutes is
// worth an alarm, and none is said only where 5 % would have been found.
//
// A drift of 5 % in ten minutes is found in at least 95 of 100 runs of 30
// minutes in 180 windows with noise of 4 % when windows are independent and 2 %
// at ρ = 0.5; at ρ = 0.8, noise of 2 % takes 40 minutes in 240 windows.
func DefaultDrift() TrendOptions {
	return TrendOptions{MinEffect: 0.02, Find: 0.05, Per: 600, Relative: true, Tests: familyOfRun}
}

func (o TrendOptions) filled() TrendOptions {
	if !(o.Per > 0) {
		o.Per = 60
	}
	if !(o.Level > 0 && o.Level < 1) {
		o.Level = 0.01
	}
	o.Tests = max(1, o.Tests)
	o.MinEffect = max(0, o.MinEffect)
	return o
}

// TrendVerdict is what [Drift] answers. Slopes are in the unit of the options:
// y (or a share of its median) for each Per seconds. What is not known is NaN.
type TrendVerdict struct {
	Direction Direction
	Slope     Slope   // interval corrected for autocorrelation and for Tests
	P         float64 // Mann–Kendall, two-sided, with the same correction
	// Ratio is the autocorrelation time used: by how much the variance of the
	// slope exceeds that of independent noise. At least 1.
	Ratio float64
	// Sees is the slope that a run like this finds nineteen times of twenty.
	Sees float64
	// Needs is how many windows of this kind would answer; 0 when the run
	// answers, or when more of it would not help.
	Needs int
	// Stepped tells that the values stepped from one level to another, the
	// largest step being at StepAt seconds, and that only the longest level,
	// from From to To, was judged. Where exactly it stepped is for
	// [ChangePoints].
	Stepped  bool
	StepAt   float64
	From, To float64
	Why      string // in words, for a person
}

const (
	// minWindows is the shortest series that is looked at.
	minWindows = 20
	// minEffective is how many independent samples it must be worth: below,
	// the autocorrelation itself cannot be told from a trend.
	minEffective = 4
	// maxWindows bounds the work; more are thinned.
	maxWindows = 720
	// decisive is the log-likelihood ratio, doubled, from which a step is
	// believed rather than a line.
	decisive = 6
	// maxSteps bounds how often a series is cut.
	maxSteps = 4
)

// Drift decides whether y rises or falls steadily over time by more than a
// stated effect. at is in seconds, in rising order, one window a value, with
// the warm-up left out; points with NaN are passed over.
//
// A series that steps from one level to another (an allocation, a change of
// clocks) is no trend: where a step explains the values decisively better than
// a line, only the longer of its two sides is judged, and so on.
//
// The alarm is raised when all of these hold:
//   - the Theil–Sen interval lies wholly beyond MinEffect;
//   - Mann–Kendall's p is below Level ÷ Tests;
//   - the later half alone moves by MinEffect in the same direction: what has
//     settled was a warm-up, not a trend.
//
// Interval and p are corrected for autocorrelation by the larger of Hamed and
// Rao's variance ratio and the autocorrelation time of an AR(1) noise whose ρ
// is corrected for what removing a line takes from it, and use Student's t of
// the effective number of windows instead of the normal. Hamed and Rao's alone
// is not enough for windows that are correlated: at ρ = 0.8 and 60 to 180
// windows it is wrong ten times in a hundred where a third of one was allowed.
//
// More than 720 windows are thinned by means of neighbours first.
func Drift(at, y []float64, o TrendOptions) TrendVerdict {
	o = o.filled()
	v := TrendVerdict{Slope: noSlope(), P: math.NaN(), Ratio: math.NaN(), Sees: math.NaN(), StepAt: math.NaN(), From: math.NaN(), To: math.NaN()}
	at, y, ok := finite(at, y)
	if !ok {
		v.Why = "there are not as many times as values"
		return v
	}
	if !slices.IsSorted(at) {
		v.Why = "the times are not in order"
		return v
	}
	if len(at) == 0 {
		v.Needs, v.Why = minWindows, fmt.Sprintf("no windows; at least %d are needed", minWindows)
		return v
	}
	at, y = thin(at, y, maxWindows)
	for cuts := 0; cuts < maxSteps && len(at) >= minWindows; cuts++ {
		k, ok := split(at, y)
		if !ok {
			break
		}
		if !v.Stepped {
			v.Stepped, v.StepAt = true, at[k]
		}
		if k > len(at)-k {
			at, y = at[:k], y[:k]
		} else {
			at, y = at[k:], y[k:]
		}
	}
	v.From, v.To = at[0], at[len(at)-1]
	judge(&v, at, y, o)
	if v.Stepped {
		v.Why = fmt.Sprintf("a step at %.4g s; judged from %.4g s to %.4g s: %s", v.StepAt, v.From, v.To, v.Why)
	}
	return v
}

// judge decides about one level.
func judge(v *TrendVerdict, at, y []float64, o TrendOptions) {
	if len(at) < minWindows {
		v.Needs = minWindows
		v.Why = fmt.Sprintf("%d windows; at least %d are needed", len(at), minWindows)
		return
	}
	unit := o.Per
	if o.Relative {
		m := math.Abs(middleOf(y))
		if !(m > 0) {
			v.Why = "the median is zero: there is no share of it"
			return
		}
		unit /= m
	}
	level := o.Level / float64(o.Tests)
	l := fitLine(at, y, level)
	v.Slope, v.P, v.Ratio = l.scaled(unit), l.p, l.ratio
	if l.N == 0 {
		v.Why = "all windows have the same time"
		return
	}
	if math.IsNaN(l.Lo) {
		v.Needs = wholeWindows(max(float64(l.N+1), 2*minEffective*l.ratio))
		v.Why = fmt.Sprintf("%d windows are worth %.1f independent ones, too few; %s may do", l.N, float64(l.N)/l.ratio, about(v.Needs))
		return
	}
	reach := (v.Slope.Hi - v.Slope.Lo) / 2 * (1 + NormalQuantile(0.95)/l.quantile)
	v.Sees = o.MinEffect + reach

	if (v.Slope.Lo > o.MinEffect || v.Slope.Hi < -o.MinEffect) && l.p < level {
		half := len(at) / 2
		later := math.NaN() // all times of the half may be the same
		if s := pairSlopes(at[half:], y[half:]); len(s) > 0 {
			later = middle(s) * unit
		}
		if !(later*v.Slope.Slope > 0 && math.Abs(later) >= o.MinEffect) {
			v.Direction = DirectionNone
			v.Why = fmt.Sprintf("it has settled: the later half moves by %s", o.say(later))
			return
		}
		v.Direction = Rising
		if v.Slope.Slope < 0 {
			v.Direction = Falling
		}
		v.Why = fmt.Sprintf("%s by %s (%s to %s), p = %.2g", v.Direction, o.say(v.Slope.Slope), o.say(v.Slope.Lo), o.say(v.Slope.Hi), v.P)
		return
	}
	if o.Find > o.MinEffect && v.Sees > o.Find {
		// Half the width takes 2^(2/3) times the windows: there are more
		// points, and the lever is longer.
		v.Needs = wholeWindows(float64(l.N) * math.Pow(reach/(o.Find-o.MinEffect), 2.0/3))
		v.Why = fmt.Sprintf("%d windows with this noise find %s; %s would find %s", l.N, o.say(v.Sees), about(v.Needs), o.say(o.Find))
		return
	}
	v.Direction = DirectionNone
	v.Why = fmt.Sprintf("between %s and %s; %s would have been found", o.say(v.Slope.Lo), o.say(v.Slope.Hi), o.say(v.Sees))
}

// wholeWindows rounds up what is needed; 0 when it is more than anyone would run.
func wholeWindows(n float64) int {
	if !(n <= 1e6) {
		return 0
	}
	return int(math.Ceil(n))
}

func about(needs int) string {
	if needs == 0 {
		return "no run of a bearable length"
	}
	return fmt.Sprintf("about %d", needs)
}

// say writes a slope in the unit of the options.
func (o TrendOptions) say(slope float64) string {
	if o.Relative {
		return fmt.Sprintf("%.3g %% in %g s", 100*slope, o.Per)
	}
	return fmt.Sprintf("%.4g in %g s", slope, o.Per)
}
