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
	if s.DurationNS <= 0 {
		return s
	}
	asked := s.DurationNS
	if s.Kind == assay.LoadOpen {
		s = settled(s, done)
	} else {
		need := needed(s, done)
		s = lengthened(s, need)
		if s.GraceNS > 0 {
			// What the drain breaks off is missing in the steady window too.
			s.GraceNS = max(s.GraceNS, 2*need/stepE2Es)
		}
	}
	return lengthened(s, min(enough(s, done), longestStep*asked))
}

// longestStep is how many times the asked duration a step lasts at the most for
// the sake of its statistics.
const longestStep = 8

// lengthened makes a step at least so long, with its ramp in proportion.
func lengthened(s assay.Stage, ns int64) assay.Stage {
	if ns > s.DurationNS {
		s.RampUpNS = int64(float64(s.RampUpNS) * float64(ns) / float64(s.DurationNS))
		s.DurationNS = ns
	}
	return s
}

// enough is how long a further step at a load must be for the level to be
// decided by its last stage, going by what its stages so far lack. A level that
// something speaks against decides itself.
func enough(s assay.Stage, done []Outcome) int64 {
	for _, l := range stat.Levels(probes(done)) {
		counted := len(l.Stages)
		if l.Load != loadOf(s) || l.Leans || counted < 2 || counted >= stat.LevelStages {
			continue
		}
		seen := int64(0)
		for _, i := range l.Stages {
			seen += done[i].Stage.DurationNS
		}
		return tenths(l.Lacks * float64(seen) / 1e9 / float64(max(1, stat.LevelStages-2-counted)))
	}
	return 0
}

// needed is how long a closed step must be in nanoseconds: its time in the
// system rises with its streams, so that of the nearest load below is taken, and
// what a step too short at this very load showed.
func needed(s assay.Stage, done []Outcome) int64 {
	e2e, from, least := 0.0, 0.0, int64(0)
	for _, d := range done {
		at, load := loadOf(d.Stage), loadOf(s)
		if at == load && d.Short != "" && d.E2E == 0 {
			least = max(least, longerBy*d.Stage.DurationNS)
		}
		if d.E2E > 0 && (e2e == 0 ||
			at == from && d.E2E > e2e && d.Short != "" ||
			from > load && at < from || at <= load && at > from) {
			e2e, from = d.E2E, at
		}
	}
	return max(least, tenths(stepE2Es*e2e))
}

// settleSteps is how many settling times an open step lasts, of which settleRamp
// are its ramp.
const (
	settleSteps = 6
	settleRamp  = 1.5
)

// settled makes an open step long enough to settle. An engine that shares its
// time moves towards the number of requests in flight that belongs to a rate
// with a time constant of R²/R₀, with R the time in the system at that rate and
// R₀ of a request alone: near capacity, where the answer often is, many times
// R. A step that ends before that shows latencies that are too good.
func settled(s assay.Stage, done []Outcome) assay.Stage {
	alone, e2e, from, least := math.Inf(1), 0.0, 0.0, int64(0)
	for _, d := range done {
		at := loadOf(d.Stage)
		if at == s.Rate && d.Short != "" && d.E2E == 0 {
			least = max(least, longerBy*d.Stage.DurationNS)
		}
		if !(d.E2E > 0) {
			continue
		}
		alone = min(alone, d.E2E)
		if at <= s.Rate && at >= from {
			e2e, from = max(d.E2E, onlyIf(at == from)*e2e), at
		}
	}
	if e2e == 0 && !math.IsInf(alone, 1) {
		e2e = alone
	}
	asked, ramp := s.DurationNS, s.RampUpNS
	need := max(least, tenths(settleSteps*e2e*max(1, e2e/alone)))
	if s.DurationNS = max(asked, min(need, longestStep*asked)); s.DurationNS > asked {
		s.RampUpNS = max(ramp, int64(float64(s.DurationNS)*settleRamp/settleSteps))
	}
	return s
}

// tenths of a second, as a step in whole ones reads better.
func tenths(seconds float64) int64 {
	return int64(math.Ceil(seconds*10)) * int64(time.Second/10)
}

func onlyIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
