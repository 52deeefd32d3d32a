package trend

import (
	"math"
	"slices"
	"time"

	"github.com/assay-bench/assay/stat"
)

// Sample is how many requests were under way at a moment.
type Sample struct {
	At      time.Time
	Running float64
}

// Peak is a day's demand: the highest of its hours' means, since capacity has to be
// there when it is needed most.
type Peak struct {
	Day   time.Time
	Value float64
}

// minHours is how many hours of a day must have been seen for its peak to count.
const minHours = 12

// Peaks reduces samples to days. The day under way is left out: its peak may come.
func Peaks(samples []Sample, now time.Time) []Peak {
	hours := map[time.Time]*stat.Moments{}
	for _, s := range samples {
		if h := s.At.UTC().Truncate(time.Hour); s.Running >= 0 && !math.IsInf(s.Running, 0) {
			if hours[h] == nil {
				hours[h] = &stat.Moments{}
			}
			hours[h].Add(s.Running)
		}
	}
	type one struct {
		peak  float64
		hours int
	}
	days := map[time.Time]one{}
	for h, m := range hours {
		d := days[h.Truncate(day)]
		days[h.Truncate(day)] = one{max(d.peak, m.Mean()), d.hours + 1}
	}
	var out []Peak
	for d, v := range days {
		if v.hours >= minHours && v.peak > 0 && d.Before(now.UTC().Truncate(day)) {
			out = append(out, Peak{d, v.peak})
		}
	}
	slices.SortFunc(out, func(a, b Peak) int { return a.Day.Compare(b.Day) })
	return out
}

// Lengths of histories in days: what a forecast learns from at least and at most,
// how much is held out to try it, and how far it looks.
const (
	minLearn = 28
	maxLearn = 91
	heldOut  = 14
	maxAhead = 90
	tryAhead = 28
)

// Outlook is how demand goes on, and until when a capacity holds it.
type Outlook struct {
	Unknown string // why there is no forecast; empty: there is one
	Days    int    // of history
	Peak    float64
	// Growth is that of a week, as a share, with its 95 % interval.
	Growth, GrowthLow, GrowthHigh float64
	Ahead                         []Ahead
	// Earliest, Expected and Latest are the first days on which the upper end, the
	// middle and the lower end of the forecast exceed the capacity; zero: not within
	// the days that it looks ahead.
	Earliest, Expected, Latest time.Time
	// Tries are forecasts of days that were held out.
	Tries []Try
}

// Ahead is the forecast for a day: its peak lies between Low and High 19 times of
// twenty.
type Ahead struct {
	Day              time.Time
	Low, Value, High float64
}

// Try is how forecasts from within the history did, so many days ahead.
type Try struct {
	Days    int
	N       int
	Error   float64 // the median of absolute errors, as a share
	Covered float64 // the share that lay within the interval
}

// Forecast says how peaks go on and when they exceed a capacity. It learns growth and
// the week's shape from up to 13 weeks, tries itself on the last weeks, and widens
// its intervals by what it sees there.
func Forecast(peaks []Peak, capacity float64) Outlook {
	peaks = peaks[max(0, len(peaks)-maxLearn):]
	o := Outlook{Days: len(peaks)}
	if len(peaks) < minLearn+heldOut {
		o.Unknown = lacks(len(peaks), minLearn+heldOut, "days of demand")
		return o
	}
	widen := o.try(peaks)
	m, ok := learn(peaks)
	if !ok {
		o.Unknown = "the days of demand do not show a trend that can be told from noise"
		return o
	}
	last := peaks[len(peaks)-1].Day
	for _, p := range peaks[len(peaks)-7:] {
		o.Peak = max(o.Peak, p.Value)
	}
	o.Growth, o.GrowthLow, o.GrowthHigh = math.Expm1(7*m.slope.Slope), math.Expm1(7*m.slope.Lo), math.Expm1(7*m.slope.Hi)
	for h := 1; h <= maxAhead; h++ {
		d := last.Add(time.Duration(h) * day)
		y, half := m.at(d)
		half *= widen
		a := Ahead{d, math.Exp(y - half), math.Exp(y), math.Exp(y + half)}
		o.Ahead = append(o.Ahead, a)
		exceeds(&o.Earliest, d, a.High, capacity)
		exceeds(&o.Expected, d, a.Value, capacity)
		exceeds(&o.Latest, d, a.Low, capacity)
	}
	return o
}

func exceeds(when *time.Time, d time.Time, v, capacity float64) {
	if when.IsZero() && v > capacity {
		*when = d
	}
}

// try forecasts what is known, from each day of the second half on, and says by how
// much the intervals have to be wider to hold 95 of 100.
func (o *Outlook) try(peaks []Peak) (widen float64) {
	var ratios []float64
	errors, inside := map[int][]float64{}, map[int]int{}
	for n := minLearn; n < len(peaks); n++ {
		m, ok := learn(peaks[:n])
		if !ok {
			continue
		}
		for i := n; i < min(len(peaks), n+tryAhead); i++ {
			y, half := m.at(peaks[i].Day)
			e := math.Abs(math.Log(peaks[i].Value) - y)
			ratios = append(ratios, e/half)
			h := i - n + 1
			errors[h] = append(errors[h], e)
			if e <= half {
				inside[h]++
			}
		}
	}
	slices.Sort(ratios)
	if widen = 1; len(ratios) > 0 {
		widen = max(1, stat.Quantile(ratios, 95))
	}
	for _, h := range []int{1, 7, 14, tryAhead} {
		if n := len(errors[h]); n > 0 {
			o.Tries = append(o.Tries, Try{Days: h, N: n, Error: math.Expm1(stat.Median(errors[h])), Covered: float64(inside[h]) / float64(n)})
		}
	}
	return widen
}

// model is a straight line through logarithms, with the week's shape.
type model struct {
	origin time.Time
	slope  stat.Slope
	center float64 // of the days
	level  float64 // there
	sd     float64 // of one day around it
	n      float64
	week   [7]float64
}

func learn(peaks []Peak) (m model, ok bool) {
	m.origin, m.n = peaks[0].Day, float64(len(peaks))
	x, y := make([]float64, len(peaks)), make([]float64, len(peaks))
	for i, p := range peaks {
		x[i], y[i] = m.days(p.Day), math.Log(p.Value)
	}
	// The week's shape first, around a rough line, then the line without it.
	rough := stat.Line(x, y, 0.95)
	for d := range m.week {
		var around []float64
		for i, p := range peaks {
			if int(p.Day.Weekday()) == d {
				around = append(around, y[i]-rough.Intercept-rough.Slope*x[i])
			}
		}
		if n := float64(len(around)); n > 1 {
			m.week[d] = stat.Median(around) * n / (n + 1)
		}
	}
	for i, p := range peaks {
		y[i] -= m.week[p.Day.Weekday()]
	}
	m.slope = stat.Line(x, y, 0.95)
	if math.IsNaN(m.slope.Lo) || math.IsNaN(m.slope.Hi) {
		return m, false
	}
	m.center = stat.Median(x)
	r := make([]float64, len(y))
	for i := range y {
		r[i] = y[i] - m.slope.Slope*(x[i]-m.center)
	}
	m.level, m.sd = robust(r)
	return m, m.sd >= 0
}

func (m model) days(t time.Time) float64 { return t.Sub(m.origin).Hours() / 24 }

// at is the forecast of a day, as a logarithm, and half of its 95 % interval: noise
// of the day, and what the slope may be wrong by.
func (m model) at(d time.Time) (y, half float64) {
	x := m.days(d) - m.center
	q := stat.StudentQuantile(0.975, max(3, m.n-9))
	slope := (m.slope.Hi - m.slope.Lo) / 2 * x
	return m.level + m.slope.Slope*x + m.week[d.Weekday()], math.Hypot(q*m.sd*math.Sqrt(1+1/m.n), slope)
}
