package stat

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// MinRounds is the smallest number of rounds that [RoundsFor] plans: fewer
// leave the exact test next to no choice of levels.
const MinRounds = 10

// MaxRounds is the largest number of rounds that [RoundsFor] plans.
const MaxRounds = 1_000_000

// maxSimulated is how many rounds the power is simulated for; it takes half a
// second there. Beyond, the normal approximation, which promises about one part
// in twenty too much, gets that part as a margin.
const (
	maxSimulated = 100
	margin       = 1.05
)

// The same numbers for the same question, on every machine.
const (
	simulations    = 3000
	simulationSeed = 0x90e4
)

// efficiency of the signed-rank test against Student's for normal noise.
const efficiency = 3 / math.Pi

// RoundsFor is the number of paired rounds after which [SignedRank] at the
// level finds a true effect with the given power (0.9), when log-ratios vary
// from round to round with standard deviation sd and normal noise. The effect
// is a ratio less one: 0.05 for 5 %. For one of k tests of a family take the
// level divided by k, which is the worst that [Holm] can ask.
//
// It starts from a normal approximation and looks around it for the number with
// which a simulation of fixed seed shows the power with two standard errors to
// spare. It is never below [MinRounds] nor below [SignedRankNeeds]; 0 says
// that there is no answer: an sd that is negative or not finite, no effect, a
// level or a power outside (0,1), or more than about [MaxRounds].
//
// Noise of another shape and the same sd changes the power: plans for 0.9 had
// 0.86 to 0.88 with uniform noise, and 0.87 to 1.00 with heavy tails, where only
// few rounds at a small level fell short. And a pilot's sd is itself a guess:
// [StddevInterval] says how far off it may be.
func RoundsFor(sd, effect, level, power float64, side Side) int {
	shift := math.Abs(math.Log1p(effect))
	needs := SignedRankNeeds(level, side)
	if !(sd >= 0) || math.IsInf(sd, 0) || !(shift > 0) || math.IsInf(shift, 0) || needs == 0 || !(power > 0 && power < 1) {
		return 0
	}
	least := max(MinRounds, needs)
	if sd == 0 {
		return least
	}
	approximate := zs(level, power, side) * sd / shift
	approximate *= approximate / efficiency
	if !(approximate <= MaxRounds) {
		return 0
	}
	enough := func(n int) bool { return detectable(n, level, power, side)*sd <= shift }
	low, high := least, max(least, int(approximate))
	for high <= maxSimulated && !enough(high) {
		low, high = high+1, high+1+high/8
	}
	if high > maxSimulated {
		return max(least, int(math.Ceil(margin*approximate)))
	}
	return int(search(int64(low), int64(high-1), func(n int64) bool { return enough(int(n)) }))
}

// zs is how many standard errors lie between no effect and one that is found
// with the power, for a normal test.
func zs(level, power float64, side Side) float64 {
	return NormalQuantile(1-tailOf(level, side)) + NormalQuantile(power)
}

func tailOf(level float64, side Side) float64 {
	if side == TwoSided {
		return level / 2
	}
	return level
}

// detectable is the smallest shift, in units of sd, that n paired rounds find with
// the power, by simulation.
//
// The test rejects a shift exactly when the lower end of the Hodges–Lehmann
// interval, which moves with the data, comes to lie above zero. So one set of
// simulated samples without a shift gives the whole curve of power: the shift
// that is found in 90 % is the 90th percentile of how far below zero the ends
// lie. (Rejections on the wrong side are not counted.)
func detectable(n int, level, power float64, side Side) float64 {
	k, _ := signedRankTail(n, tailOf(level, side))
	if k < 1 {
		return math.Inf(1)
	}
	rng := rand.New(rand.NewPCG(uint64(n), simulationSeed))
	d, w := make([]float64, n), make([]float64, 0, n*(n+1)/2)
	needed := make([]float64, simulations)
	for i := range needed {
		for j := range d {
			d[j] = rng.NormFloat64()
		}
		needed[i] = -nth(walsh(w[:0], d), k-1)
	}
	slices.Sort(needed)
	at := power*simulations + 2*math.Sqrt(simulations*power*(1-power))
	return needed[min(simulations, int(math.Ceil(at)))-1]
}

// StddevInterval is what the true standard deviation may be when n independent
// normal samples have shown sd. Ten samples leave it open by a factor of more
// than two; a plan made from a pilot's sd should say which end it took. NaN
// with fewer than two samples.
func StddevInterval(sd float64, n int, confidence float64) (lo, hi float64) {
	if n < 2 || !(sd >= 0) || math.IsInf(sd, 0) || !(confidence > 0 && confidence < 1) {
		return math.NaN(), math.NaN()
	}
	half, t := float64(n-1)/2, (1-confidence)/2
	return sd * math.Sqrt(half/mathext.GammaIncRegInv(half, 1-t)), sd * math.Sqrt(half/mathext.GammaIncRegInv(half, t))
}
