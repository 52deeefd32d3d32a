package plot

import (
	"fmt"
	"math"
	"strconv"
)

// scale maps values to positions between from and to on the sheet.
type scale struct {
	low, high float64
	from, to  float64
	log       bool
}

// place needs a value that the axis holds: see report's Drawable.
func (s scale) place(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		v, low, high = math.Log10(v), math.Log10(low), math.Log10(high)
	}
	return s.from + (s.to-s.from)*(v-low)/(high-low)
}

func (s scale) holds(v float64) bool { return v >= s.low && v <= s.high }

type tick struct {
	at    float64
	label string
}

// reach is the range of values seen. Its zero value has seen none.
type reach struct {
	low, high float64
	any       bool
}

func (r *reach) see(values ...float64) {
	for _, v := range values {
		switch {
		case math.IsNaN(v):
		case !r.any:
			r.low, r.high, r.any = v, v, true
		default:
			r.low, r.high = min(r.low, v), max(r.high, v)
		}
	}
}

// apart widens a range so narrow that its ends could not be told apart.
func (r reach) apart() reach {
	const least = 1e-290 // below it, floating point has no digits left for steps
	if size := max(math.Abs(r.low), math.Abs(r.high)); r.high-r.low <= max(size*1e-9, least) {
		d := size * 0.05
		if size < least {
			d = 1
		}
		r.low, r.high = r.low-d, r.high+d
	}
	return r
}

// steps are ticks at round values, between three and about n of them. The
// range is widened to the next tick when whole is asked for.
func steps(r reach, n float64, whole bool) (reach, []tick) {
	step := roundStep((r.high - r.low) / n)
	first, last := math.Ceil(r.low/step-1e-9), math.Floor(r.high/step+1e-9)
	if whole {
		first, last = math.Floor(r.low/step+1e-9), math.Ceil(r.high/step-1e-9)
		r.low, r.high = first*step, last*step
	}
	return r, ticksOf(first, last, step, func(v float64) string { return roundLabel(v, step, max(math.Abs(r.low), math.Abs(r.high))) })
}

func ticksOf(first, last, step float64, label func(float64) string) []tick {
	const most = 64 // whatever rounding did
	var out []tick
	for i := range min(int(last-first)+1, most) {
		v := (first + float64(i)) * step
		out = append(out, tick{v, label(v)})
	}
	return out
}

// roundStep is the next of 1, 2, 5 times a power of ten.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*power*(1+1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// roundLabel writes a tick with the digits that its step needs, in thousands or
// millions when the axis goes that far.
func roundLabel(v, step, most float64) string {
	unit, word := 1.0, ""
	switch {
	case most >= 1e13 || step < 1e-6:
		return strconv.FormatFloat(v, 'g', 6, 64)
	case most >= 1e10:
		unit, word = 1e9, " G"
	case most >= 1e6:
		unit, word = 1e6, " M"
	case most >= 1e4:
		unit, word = 1e3, " k"
	}
	digits := max(0, -int(math.Floor(math.Log10(step/unit)+1e-9)))
	s := strconv.FormatFloat(v/unit, 'f', digits, 64)
	if v == 0 {
		return "0"
	}
	return s + word
}

// powers are the ticks of a logarithmic axis: 1, 2 and 5 times each power of
// ten, or fewer when there are many powers. The range grows to the next tick.
func powers(r reach) (reach, []tick) {
	first, last := int(math.Floor(math.Log10(r.low)+1e-9)), int(math.Ceil(math.Log10(r.high)-1e-9))
	every, factors := 1, []float64{1, 2, 5}
	if n := last - first; n > 3 {
		every, factors = (n+7)/8, []float64{1}
	}
	var all []tick
	for e := first; e <= last+every; e += every {
		for _, f := range factors {
			if v := f * math.Pow(10, float64(e)); v > 0 && !math.IsInf(v, 0) {
				all = append(all, tick{v, short(v)})
			}
		}
	}
	out := reach{low: r.low, high: r.high, any: true}
	for _, t := range all { // they rise
		if t.at <= r.low*(1+1e-9) {
			out.low = t.at
		}
		if t.at >= r.high*(1-1e-9) {
			out.high = t.at
			break
		}
	}
	if out.low == out.high {
		out.low, out.high = out.low/2, out.high*2
	}
	return out, all
}

// timeSteps are the steps of a clock, in seconds.
var timeSteps = []float64{0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400}

func times(r reach, n float64) []tick {
	for _, step := range timeSteps {
		if (r.high-r.low)/step <= n {
			return ticksOf(math.Ceil(r.low/step-1e-9), math.Floor(r.high/step+1e-9), step, clock)
		}
	}
	_, out := steps(reach{r.low / 86400, r.high / 86400, true}, n, false)
	for i := range out {
		out[i] = tick{out[i].at * 86400, out[i].label + " d"}
	}
	return out
}

// clock writes seconds since the start as m:ss.
func clock(v float64) string {
	if v < 0 {
		return "−" + clock(-v)
	}
	tenths := int64(math.Round(v * 10))
	s := fmt.Sprintf("%d:%02d", tenths/600, tenths/10%60)
	if tenths%10 != 0 {
		s += fmt.Sprintf(".%d", tenths%10)
	}
	return s
}

// short writes a value alone, with four digits.
func short(v float64) string {
	word := ""
	switch a := math.Abs(v); {
	case a >= 1e13 || a > 0 && a < 1e-4:
		return strconv.FormatFloat(v, 'g', 4, 64)
	case a >= 1e6:
		v, word = v/1e6, " M"
	case a >= 1e4:
		v, word = v/1e3, " k"
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil {
		rounded = v
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64) + word
}
