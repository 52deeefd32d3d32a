package trust

import (
	"math"
	"math/bits"
	"slices"
)

// maxWindows bounds what is judged at once: each half of the windows has 2^15 subsets
// at most.
const maxWindows = 30

// chanceBelow is the share of all choices of as many windows as were probed whose
// values sum up to no more than those of the probed ones: the chance of such a sum,
// or a lower one, where the values do not depend on which windows were probed. It is
// exact. values are at most maxWindows.
func chanceBelow(values []int64, probed []bool) float64 {
	k, sum := 0, int64(0)
	for i, p := range probed {
		if p {
			k++
			sum += values[i]
		}
	}
	half := len(values) / 2
	a, b := sums(values[:half]), sums(values[half:])
	n := 0.0
	for i := range a {
		if j := k - i; j >= 0 && j < len(b) {
			n += pairsBelow(a[i], b[j], sum)
		}
	}
	return n / choose(len(values), k)
}

// sums are the sums of all subsets, by the number of their members, in order.
func sums(values []int64) [][]int64 {
	out := make([][]int64, len(values)+1)
	all := make([]int64, 1<<len(values))
	out[0] = []int64{0}
	for set := uint(1); set < uint(len(all)); set++ {
		low := bits.TrailingZeros(set)
		all[set] = all[set&(set-1)] + values[low]
		size := bits.OnesCount(set)
		out[size] = append(out[size], all[set])
	}
	for _, s := range out {
		slices.Sort(s)
	}
	return out
}

// pairsBelow counts the pairs whose sum is at most a limit. Both are in order.
func pairsBelow(a, b []int64, limit int64) float64 {
	n, j := 0.0, len(b)
	for _, v := range a {
		for j > 0 && v+b[j-1] > limit {
			j--
		}
		n += float64(j)
	}
	return n
}

func choose(n, k int) float64 {
	v := 1.0
	for i := range k {
		v = v * float64(n-i) / float64(i+1)
	}
	return math.Round(v)
}

// signTail is the chance that at most k of n coins fall on one side.
func signTail(n, k int) float64 {
	p := 0.0
	for i := 0; i <= k && i <= n; i++ {
		p += choose(n, i)
	}
	return p / math.Exp2(float64(n))
}
