package trend

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// demand makes daily peaks: growth a week, the week's shape, noise with heavy tails
// that depends on the day before, and now and then a day that nobody saw.
func demand(rng *rand.Rand, days int, growth float64) (seen []Peak, truth []float64) {
	slow := 0.0
	for d := range days {
		at := epoch.Add(time.Duration(d) * day)
		slow = 0.5*slow + 0.03*rng.NormFloat64()
		y := math.Log(100) + float64(d)/7*math.Log1p(growth) + slow
		if wd := at.Weekday(); wd == time.Saturday || wd == time.Sunday {
			y -= 0.25
		}
		y += 0.02 * student3(rng)
		truth = append(truth, math.Exp(y))
		if rng.Float64() > 0.03 {
			seen = append(seen, Peak{at, math.Exp(y)})
		}
	}
	return seen, truth
}

// Of days that were not shown, the interval holds about as many as it says, and the
// day on which the capacity is exceeded lies between the earliest and the latest.
func TestForecastHolds(t *testing.T) {
	t.Parallel()
	networks := 24
	if long() {
		networks = 300
	}
	rng := rand.New(rand.NewPCG(9, 44))
	inside, all, within, crossed := map[int]int{}, map[int]int{}, 0, 0
	var errors []float64
	for i := range networks {
		growth := []float64{0, 0.01, 0.03}[i%3]
		peaks, truth := demand(rng, 91+28, growth)
		split := 0
		for split < len(peaks) && peaks[split].Day.Before(epoch.Add(91*day)) {
			split++
		}
		capacity := 100 * math.Exp((91.0+14)/7*math.Log1p(growth)+0.05)
		o := Forecast(peaks[:split], capacity)
		if o.Unknown != "" {
			t.Fatal(o.Unknown)
		}
		first := time.Time{}
		for _, a := range o.Ahead {
			d := int(a.Day.Sub(epoch) / day)
			if d >= len(truth) {
				break
			}
			h := d - 90
			if all[h]++; truth[d] >= a.Low && truth[d] <= a.High {
				inside[h]++
			}
			if h == 28 {
				errors = append(errors, math.Abs(truth[d]/a.Value-1))
			}
			if first.IsZero() && truth[d] > capacity {
				first = a.Day
			}
		}
		if !first.IsZero() && growth == 0.03 {
			if crossed++; !o.Earliest.IsZero() && !first.Before(o.Earliest) && (o.Latest.IsZero() || !first.After(o.Latest)) {
				within++
			}
		}
	}
	sum, n := 0, 0
	for h := range all {
		sum, n = sum+inside[h], n+all[h]
	}
	covered := float64(sum) / float64(n)
	var total float64
	for _, e := range errors {
		total += e
	}
	t.Logf("seed 9: %d networks, 28 days ahead: %.1f %% of %d days within the 95 %% interval (day 28: %.1f %%), mean error on day 28 %.1f %%; of %d that exceeded it, %d between the earliest and the latest day",
		networks, 100*covered, n, 100*float64(inside[28])/float64(all[28]), 100*total/float64(len(errors)), crossed, within)
	if !(covered >= 0.9 && covered <= 0.995) {
		t.Errorf("the 95 %% interval holds %.1f %%", 100*covered)
	}
	if within < crossed*8/10 {
		t.Errorf("of %d networks that exceeded their capacity, %d did between the earliest and the latest day", crossed, within)
	}
}

func TestForecastNeedsSixWeeks(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 44))
	peaks, _ := demand(rng, 40, 0.01)
	if o := Forecast(peaks, 100); o.Unknown == "" || len(o.Ahead) != 0 || !o.Expected.IsZero() {
		t.Errorf("of %d days: %+v", len(peaks), o)
	}
}

// A day's peak is the highest mean of an hour; a day that was hardly seen, and the
// day under way, have none.
func TestPeaks(t *testing.T) {
	var samples []Sample
	for h := range 60 {
		running := 10.0
		if h == 30 {
			running = 40
		}
		for q := range 4 {
			samples = append(samples, Sample{epoch.Add(time.Duration(h)*time.Hour + time.Duration(q)*15*time.Minute), running + float64(q)})
		}
	}
	got := Peaks(samples[4*20:], epoch.Add(60*time.Hour))
	if len(got) != 1 || !got[0].Day.Equal(epoch.Add(day)) || got[0].Value != 41.5 {
		t.Errorf("%+v", got)
	}
}
