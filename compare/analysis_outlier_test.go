package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/assay-bench/assay/stat"
)

// A common rule drops what lies beyond two standard deviations. On times
// with the tails that servers have, that takes away the slow requests which a
// 99th percentile is there to show; docs/adr/010 quotes the figures.
func TestWhatDroppingBeyondTwoSigmaDoesToATail(t *testing.T) {
	for _, test := range []struct {
		name string
		draw func(*rand.Rand) float64
		off  float64 // p99 after ÷ p99 before is below this
	}{
		{"log-normal, σ = 1", func(r *rand.Rand) float64 { return 50 * math.Exp(r.NormFloat64()) }, 0.8},
		{"50 ms with 2 % stalls of 1 to 2 s", func(r *rand.Rand) float64 {
			if r.Float64() < 0.02 {
				return 1000 + 1000*r.Float64()
			}
			return 50 * math.Exp(0.1*r.NormFloat64())
		}, 0.1},
		{"normal, as the rule assumes", func(r *rand.Rand) float64 { return 50 + 5*r.NormFloat64() }, 1},
	} {
		rng := rand.New(rand.NewPCG(3, 4))
		var all []float64
		var m stat.Moments
		for range 10_000 {
			v := test.draw(rng)
			all = append(all, v)
			m.Add(v)
		}
		var left []float64
		for _, v := range all {
			if math.Abs(v-m.Mean()) <= 2*m.Stddev() {
				left = append(left, v)
			}
		}
		var after stat.Moments
		for _, v := range left {
			after.Add(v)
		}
		slices.Sort(all)
		slices.Sort(left)
		before, now := stat.Quantile(all, 99), stat.Quantile(left, 99)
		t.Logf("%s: the filter drops %d of 10,000, p99 goes from %.1f to %.1f ms (%+.0f %%), the mean from %.1f to %.1f ms (%+.0f %%)",
			test.name, len(all)-len(left), before, now, 100*(now/before-1), m.Mean(), after.Mean(), 100*(after.Mean()/m.Mean()-1))
		if !(now/before < test.off) {
			t.Errorf("%s: p99 is %.2f of what it was; the decision not to drop rests on less than %.2f", test.name, now/before, test.off)
		}
	}
}
