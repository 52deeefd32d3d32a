package trend

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// world is how generated nodes behave. Its noise is meant to be worse than that of
// a hall: heavy tails, a daily cycle, reports that are missing, one that depends on
// the last.
type world struct {
	every    time.Duration // between reports
	missing  float64       // share of reports that never came
	sd       float64       // scale of the noise, Student's t with three degrees of freedom
	cycle    float64       // amplitude of the daily cycle
	rho      float64       // of the slow part of the noise, from one report to the next
	slow     float64       // its standard deviation
	spread   float64       // between nodes of one kind
	upgrades float64       // changes of the engine's version a year, each by up to 10 %
}

// usual is a node that reports every six hours: its rate varies by 1.5 %, with a
// daily cycle of 2 % and a slow part of 0.5 %.
func usual() world {
	return world{every: 6 * time.Hour, missing: 0.1, sd: 0.015, cycle: 0.02, rho: 0.7, slow: 0.005, spread: 0.015, upgrades: 4}
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// fault is by which factor a node is slower at a time; 1: it is not.
type fault func(time.Time) float64

func none(time.Time) float64 { return 1 }

// drop is a loss that stays.
func drop(at time.Time, share float64) fault {
	return func(t time.Time) float64 {
		if t.Before(at) {
			return 1
		}
		return 1 - share
	}
}

// drift is a loss of so much a quarter of a year.
func drift(at time.Time, share float64) fault {
	return func(t time.Time) float64 {
		return math.Exp(math.Log1p(-share) * max(0, t.Sub(at).Hours()) / (91 * 24))
	}
}

// flapping is a loss that comes and goes, each about so long.
func flapping(rng *rand.Rand, at time.Time, share float64, dwell time.Duration) fault {
	var turns []time.Time
	for t := at; t.Before(at.Add(year)); t = t.Add(time.Duration(float64(dwell) * (0.5 + rng.Float64()))) {
		turns = append(turns, t)
	}
	return func(t time.Time) float64 {
		n := 0
		for _, turn := range turns {
			if !t.Before(turn) {
				n++
			}
		}
		if n%2 == 1 {
			return 1 - share
		}
		return 1
	}
}

// history is a node's, of a metric of which more is better.
func (w world) history(rng *rand.Rand, length time.Duration, f fault) []Point {
	var out []Point
	level := 1000 * math.Exp(w.spread*rng.NormFloat64())
	phase, slow, version := rng.Float64()*2*math.Pi, w.slow*rng.NormFloat64(), 1
	factor := 1.0
	for at := time.Duration(0); at < length; at += w.every {
		slow = w.rho*slow + w.slow*math.Sqrt(1-w.rho*w.rho)*rng.NormFloat64()
		noise := w.sd * student3(rng)
		if rng.Float64() < w.upgrades*float64(w.every)/float64(year) {
			version++
			factor = math.Exp(0.1 * (2*rng.Float64() - 1))
		}
		jitter := time.Duration((rng.Float64() - 0.5) * 0.4 * float64(w.every))
		if rng.Float64() < w.missing {
			continue
		}
		t := epoch.Add(at + jitter)
		angle := 2*math.Pi*float64(t.Sub(t.Truncate(day)))/float64(day) + phase
		v := level * factor * f(t) * math.Exp(noise+slow+w.cycle*math.Sin(angle))
		out = append(out, Point{At: t, Value: v, Low: math.NaN(), High: math.NaN(), Report: fmt.Sprintf("r%d", len(out)), Config: fmt.Sprintf("v%d", version)})
	}
	return out
}

// student3 is Student's t with three degrees of freedom.
func student3(rng *rand.Rand) float64 {
	c := 0.0
	for range 3 {
		v := rng.NormFloat64()
		c += v * v
	}
	return rng.NormFloat64() / math.Sqrt(c/3)
}
