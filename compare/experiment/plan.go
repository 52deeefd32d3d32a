package experiment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/assay-bench/assay/compare"
	"github.com/assay-bench/assay/stat"
)

// order is the order of the engines in a round: a pure function of the seed, so
// that a resumed experiment goes on in the same. Without it, an engine that is
// always second would always find the machine warmed up by the first.
func order(seed uint64, round, pass, engines int) []int {
	rng := rand.New(rand.NewPCG(seed, uint64(round)<<32|uint64(pass)))
	return rng.Perm(engines)
}

// pilotConfidence is how sure the plan wants to be that the true variation is not
// above what it plans with: a pilot of three passes sees too little of it, as
// often as not.
const pilotConfidence = 0.8

// plan fixes what the experiment does, by what the pilot has shown.
func (x *trial) plan() {
	c := x.cfg.Experiment
	p := compare.Plan{
		Seed: c.Seed, Primary: c.PrimaryMetric, Effect: c.Effect, Level: c.Level, Power: c.Power,
		Test: x.cfg.Analysis.SignificanceTest, Adjust: x.cfg.Analysis.Adjust, Looks: c.Looks,
	}
	x.exp.Plan = p
	p.Tests = compare.Tests(*x.exp)
	sd, upper, ok := x.pilotSD()
	if ok {
		p.PilotSD = sd
		p.Needed = compare.PlanRounds(upper, p)
	}
	p.Rounds = p.Needed
	switch {
	case c.Rounds > 0:
		p.Rounds, p.Why = c.Rounds, "as asked"
	case !ok:
		p.Rounds, p.Why = stat.MinRounds, "the pilot has no two passes of two engines to see the variation in: the least number"
	case p.Needed == 0:
		p.Rounds, p.Why = c.MaxRounds, "the pilot varies so much that no number of rounds would do"
	default:
		p.Why = fmt.Sprintf("paired log-ratios of %s varied by %.2g from pass to pass, up to %.2g with %d %% confidence", p.Primary, sd, upper, int(100*pilotConfidence))
	}
	if p.Rounds > c.MaxRounds {
		p.Rounds = c.MaxRounds
		p.Why += fmt.Sprintf("; cut to max_rounds, %d", c.MaxRounds)
	}
	each := x.roundTime()
	if budget := time.Duration(c.TimeBudget); budget > 0 && each > 0 {
		if fit := max(1, int((budget-x.spent())/each)); fit < p.Rounds {
			p.Rounds = fit
			p.Why += fmt.Sprintf("; cut to what a time budget of %s allows, %d", budget, fit)
		}
	}
	x.exp.Plan = p
	x.say("plan: %d rounds (%s), %s", p.Rounds, p.Why, x.planWords(each))
	if p.Needed > p.Rounds {
		x.note("the plan has %d rounds, and finding a difference of %.3g %% would take %d: expect \"not enough data\"", p.Rounds, 100*p.Effect, p.Needed)
	}
}

func (x *trial) planWords(each time.Duration) string {
	p := x.exp.Plan
	over := ""
	if p.Tests > 0 { // none are known before a pilot has shown what there is to compare
		over = fmt.Sprintf(" over %d tests", p.Tests)
	}
	s := fmt.Sprintf("to find %.3g %% in %s with power %.2g at level %.2g%s (%s, %s)",
		100*p.Effect, p.Primary, p.Power, p.Level, over, p.Test, p.Adjust)
	if p.Looks > 1 {
		s += fmt.Sprintf(", with looks after rounds %v", compare.LookRounds(p))
	}
	if each > 0 {
		s += fmt.Sprintf("; about %s", (time.Duration(p.Rounds) * each).Round(time.Second))
	}
	return s
}

// pilotSD is the standard deviation of the pilot's paired log-ratios of the
// primary metric, pooled over pairs with the first engine, of the workload that
// varies most; and the upper end of what it may truly be.
func (x *trial) pilotSD() (sd, upper float64, ok bool) {
	for _, w := range x.cfg.Workloads {
		of := x.pilotValues(w.Name)
		first := of[x.engines[0].Name]
		squares, freedom := 0.0, 0
		for _, e := range x.engines[1:] {
			var ratios []float64
			for pass, v := range of[e.Name] {
				if base, there := first[pass]; there {
					ratios = append(ratios, math.Log(v/base))
				}
			}
			if len(ratios) < 2 {
				continue
			}
			mean := 0.0
			for _, r := range ratios {
				mean += r / float64(len(ratios))
			}
			for _, r := range ratios {
				squares += (r - mean) * (r - mean)
			}
			freedom += len(ratios) - 1
		}
		if freedom == 0 {
			continue
		}
		s := math.Sqrt(squares / float64(freedom))
		// StddevInterval has two ends, and only the upper one is asked for.
		_, hi := stat.StddevInterval(s, freedom+1, 2*pilotConfidence-1)
		if !ok || hi > upper {
			sd, upper, ok = s, hi, true
		}
	}
	return sd, upper, ok
}

// pilotValues are the primary metric's in the pilot, by engine and pass. A value
// that has no logarithm is left out.
func (x *trial) pilotValues(workload string) map[string]map[int]float64 {
	of := map[string]map[int]float64{}
	for _, s := range x.exp.Samples {
		v, there := s.Metrics[x.cfg.Experiment.PrimaryMetric]
		if s.Round != 0 || s.Workload != workload || s.Failed != "" || !there || !(v > 0) {
			continue
		}
		if of[s.Engine] == nil {
			of[s.Engine] = map[int]float64{}
		}
		of[s.Engine][(s.Order-1)/len(x.engines)] = v
	}
	return of
}

// roundTime is the longest that a round or a pass took, its cool-downs included
// as far as they lie within; 0: there was none.
func (x *trial) roundTime() time.Duration {
	type span struct{ from, to, ran int64 }
	spans := map[int]span{}
	for _, s := range x.exp.Samples {
		n := s.Round
		if n == 0 {
			n = -1 - (s.Order-1)/len(x.engines)
		}
		r, seen := spans[n]
		if !seen || s.Started < r.from {
			r.from = s.Started
		}
		r.to = max(r.to, s.Ended)
		r.ran += s.Ended - s.Started
		spans[n] = r
	}
	var most time.Duration
	for _, r := range spans {
		took := r.to - r.from
		// A round that was interrupted and resumed would look as long as the break.
		if r.from < x.began.UnixNano() {
			took = r.ran
		}
		most = max(most, time.Duration(took))
	}
	return most
}
