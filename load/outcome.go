package load

import (
	"math"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// Outcome is what a plan may know of a stage that is over.
type Outcome struct {
	Stage assay.Stage
	// Goodput is good requests a second in the steady window; NaN counts as none.
	Goodput float64
	// E2E is the mean time in the system in seconds, of warm-ups where no judged
	// request ended; zero: none ended at all.
	E2E float64
	// Trials are what the stage showed about each objective.
	Trials []stat.Trial
	// Behind: an open stage whose requests piled up, or were not all sent.
	Behind bool
	// Short says why the stage was too short to say anything, as when every
	// request was a warm-up; empty: it was not.
	Short string
	// NoWindow says why there is no steady window, and so no goodput; empty:
	// there is one.
	NoWindow string
}

func (o Outcome) goodput() float64 {
	if !(o.Goodput > 0) {
		return 0
	}
	return o.Goodput
}

// probes are the outcomes as the levels of a search take them.
func probes(done []Outcome) []stat.Probe {
	out := make([]stat.Probe, len(done))
	for i, d := range done {
		out[i] = stat.Probe{Load: loadOf(d.Stage), Trials: d.Trials, Behind: d.Behind, Void: d.Short != ""}
	}
	return out
}

func loadOf(s assay.Stage) float64 {
	if s.Kind == assay.LoadOpen {
		return s.Rate
	}
	return float64(s.Concurrency)
}

// stepE2Es is how many times the mean time in the system a step lasts at least,
// ramp-up included: a stream then ends some requests after the ramp, and a
// window is steady.
const stepE2Es = 5

// longerBy is how much longer a step gets in which nothing ended at all.
const longerBy = 4

// step makes the next stage of a search: with a name of its own, and long
// enough for the requests that the stages before it saw.
func step(s assay.Stage, done []Outcome) assay.Stage {
	s.Probe = true
	s.Name = Name(s)
	taken := make([]assay.Stage, 0, len(done)+1)
	for _, d := range done {
		taken = append(taken, d.Stage)
	}
	taken = distinct(append(taken, s))
	s.Name = taken[len(taken)-1].Name
	if need := needed(s, done); s.DurationNS > 0 && need > s.DurationNS {
		s.RampUpNS = int64(float64(s.RampUpNS) * float64(need) / float64(s.DurationNS))
		s.DurationNS = need
	}
	return s
}

// needed is how long a step must be in nanoseconds, by what is known: a closed
// loop's time in the system rises with its streams, so the nearest load below
// is taken, and what a step too short at this very load showed; an open loop's
// beyond capacity is as long as the step itself, so the shortest is taken.
func needed(s assay.Stage, done []Outcome) int64 {
	e2e, from, least := 0.0, 0.0, int64(0)
	for _, d := range done {
		at, load := loadOf(d.Stage), loadOf(s)
		if at == load && d.Short != "" && d.E2E == 0 {
			least = max(least, longerBy*d.Stage.DurationNS)
		}
		if !(d.E2E > 0) {
			continue
		}
		switch {
		case e2e == 0,
			s.Kind == assay.LoadOpen && d.E2E < e2e,
			s.Kind != assay.LoadOpen && at == from && d.E2E > e2e && d.Short != "",
			s.Kind != assay.LoadOpen && (from > load && at < from || at <= load && at > from):
			e2e, from = d.E2E, at
		}
	}
	need := math.Ceil(stepE2Es*e2e*10) / 10 // a step in tenths of a second reads better
	return max(least, int64(need*float64(time.Second)))
}
