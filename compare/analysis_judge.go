package compare

import (
	"math"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/stat"
)

// adjust sets the adjusted p of every comparison that was tested, and gives the
// number of tests.
func adjust(all []Comparison, f Family) int {
	var which []int
	var p []float64
	for i, c := range all {
		if c.tested {
			which, p = append(which, i), append(p, *c.P)
		}
	}
	adjusted := stat.Holm(p)
	if f.Adjust == adjustBonf {
		adjusted = stat.Bonferroni(p)
	}
	for k, i := range which {
		// What a look may use of the level is brought into p, so that p is
		// always compared with the whole level.
		all[i].Adjusted = known(min(1, adjusted[k]*f.Level/f.LevelNow))
		all[i].estimate(1-f.LevelNow/float64(len(p)), &all[i].Simultaneous)
	}
	for i, c := range all {
		if c.hopeless && c.P != nil {
			one := 1.0
			all[i].Adjusted = &one
		}
	}
	return len(p)
}

// judge sets the verdict, if there is none yet.
func (c *Comparison) judge(f Family) {
	if c.Verdict != "" {
		return
	}
	m := metricOf(c.Metric)
	if c.Adjusted != nil && *c.Adjusted <= f.Level {
		up := c.Change.Est > 1
		if c.Scale == "difference" {
			up = c.Change.Est > 0
		}
		c.Verdict, c.Better = LowerIs, c.Against
		if up {
			c.Verdict = HigherIs
		}
		good := up == (m.Better == assay.Higher)
		if good {
			c.Better = c.Engine
		}
		if m.speed() {
			c.Verdict = Slower
			if good {
				c.Verdict = Faster
			}
		}
		return
	}
	n := min(c.N, c.NAgainst)
	if need := c.needs(f); n < need {
		c.Verdict, c.More = NotEnough, need-n
		return
	}
	c.Verdict = NoDifference
}

// speed says that the metric is a time or a rate, of which faster and slower
// are the words.
func (m Metric) speed() bool { return m.Unit == "ms" || m.Unit == "1/s" }

// needs is about how many runs it takes to find the wanted effect, with the
// spread that was seen and at the level that the last test of a Holm family
// gets at worst. The rounds of a plan are simulated (stat.RoundsFor); for "about
// so many more" the normal approximation is near enough, and costs nothing.
func (c *Comparison) needs(f Family) int {
	level := f.LevelNow / float64(max(1, f.Tests))
	least := stat.MinRounds
	if c.Paired {
		least = max(least, stat.SignedRankNeeds(level, stat.TwoSided))
	} else {
		for least < 1000 && 2/binomial(2*least, least) > level {
			least++
		}
	}
	if c.Scale != "ratio" || math.IsNaN(c.sd) || !c.spread() {
		return least
	}
	const efficiency = 3 / math.Pi // of the rank tests against Student's, normal noise
	z := stat.NormalQuantile(1-level/2) + stat.NormalQuantile(f.Power)
	n := math.Ceil(math.Pow(z*c.sd/math.Log1p(f.Effect), 2) / efficiency)
	return max(least, int(min(n, stat.MaxRounds)))
}

func binomial(n, k int) float64 {
	out := 1.0
	for i := range k {
		out *= float64(n-i) / float64(i+1)
	}
	return out
}
