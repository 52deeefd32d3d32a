package compare

import (
	"math"

	"github.com/assay-bench/assay/stat"
)

// LookRounds are the rounds after which a plan may look at the verdict and
// stop, evenly spaced; the last is the plan's end. A plan with one look has
// only its end.
func LookRounds(p Plan) []int {
	looks, rounds := max(1, p.Looks), max(1, p.Rounds)
	var at []int
	for k := 1; k <= looks; k++ {
		n := int(math.Ceil(float64(rounds) * float64(k) / float64(looks)))
		if len(at) == 0 || n > at[len(at)-1] {
			at = append(at, n)
		}
	}
	return at
}

// lookLevels share the level out over the looks in sums, most of it to the
// last. Sums are right for any test, any dependence and each member of a
// family at once, which levels that count on the looks' correlation are not:
// divided by the size of a family, they are used further out in the tails,
// where looks depend on each other less.
func lookLevels(level float64, at []int) []float64 {
	return stat.Looks{At: at, Alpha: level}.Levels()
}

// lookNow is the look, from 1, that an experiment of so many rounds has come
// to, and its level. One that was interrupted between looks, for a reason that
// is not its verdict, takes the next one early: no look has used that yet.
func lookNow(f Family, planned, done int) (look int, level float64) {
	at := LookRounds(Plan{Looks: f.Looks, Rounds: planned})
	levels := lookLevels(f.Level, at)
	for k, n := range at {
		if n >= done || k == len(at)-1 {
			return k + 1, levels[k]
		}
	}
	return 1, f.Level
}

// PlanRounds is how many rounds the plan needs when paired log-ratios of the
// primary metric vary with standard deviation sd: at the level of its last
// look, divided by its tests. 0: there is no answer.
func PlanRounds(sd float64, p Plan) int {
	level := within(p.Level, defaultLevel)
	if p.Looks > 1 {
		levels := lookLevels(level, LookRounds(Plan{Looks: p.Looks, Rounds: 1000}))
		level = levels[len(levels)-1]
	}
	return stat.RoundsFor(sd, within(p.Effect, defaultEffect), level/float64(max(1, p.Tests)), within(p.Power, defaultPower), stat.TwoSided)
}

// Decided reports whether the experiment, at the look that it has come to,
// shows a difference in the primary metric between all engines that can be
// compared, so that more rounds would not change the answer to its question.
// It is the only verdict that an experiment may stop for.
func Decided(e Experiment) bool {
	b := newBench(e)
	all, f := b.judged()
	asked := false
	for _, c := range all {
		if c.Metric != f.Primary || c.Verdict == NotComparable {
			continue
		}
		if !c.Verdict.Shown() {
			return false
		}
		asked = true
	}
	return asked
}
