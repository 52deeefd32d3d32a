package stat

import "math"

// MaxExactPairs is the largest number of differences, zeros left out, for
// which [SignedRank] and [HodgesLehmann] use the exact distribution. It takes a
// fraction of a millisecond there, and the normal approximation is off by 0.3 %
// of a p-value of 0.06, and on the safe side by a quarter of one of 0.0003.
const MaxExactPairs = 100

// SignedRank is Wilcoxon's test that paired differences (log-ratios of two
// engines, round by round) lie symmetrically around zero.
//
// The distribution is that of all 2ⁿ ways to set the signs, given the ranks
// that were seen: exact with ties too, and whatever the distribution of the
// differences. Zeros are ranked with the others and then left out, as Pratt
// says: leaving them out first, as Wilcoxon did, can turn more evidence for
// "no difference" into a smaller p. Beyond [MaxExactPairs] it is the normal
// approximation with the ties' variance and a correction for continuity.
//
// NaN differences are absent and not counted in N; infinities have the largest
// ranks. P is NaN without differences, and 1 when all are zero. Five
// differences cannot reject at 0.05: see [SignedRankNeeds].
func SignedRank(differences []float64, o TestOptions) RankTest {
	d := present(differences)
	t := RankTest{N: len(d), Statistic: math.NaN(), P: math.NaN(), Z: math.NaN()}
	if len(d) == 0 {
		return t
	}
	size := make([]float64, len(d))
	for i, x := range d {
		size[i] = math.Abs(x)
	}
	all, whole := doubledRanks(size)
	used, plus, sum, squares := all[:0], 0, 0, 0.0
	for i, r := range all { // writes behind what it reads
		if d[i] == 0 {
			t.Zeros++
			continue
		}
		if d[i] > 0 {
			plus += r
		}
		sum += r
		squares += float64(r) * float64(r)
		used = append(used, r)
	}
	t.Statistic = float64(plus) / 2
	if o.Normal || len(used) > MaxExactPairs {
		t.byNormal(float64(2*plus-sum)/4, math.Sqrt(squares)/4, o.Side)
		return t
	}
	t.Exact = true
	switch o.Side {
	case Greater: // the distribution is symmetric
		t.P = signedRankCDF(used, whole, sum, sum-plus)
	case Less:
		t.P = signedRankCDF(used, whole, sum, plus)
	default:
		t.P = min(1, 2*signedRankCDF(used, whole, sum, min(plus, sum-plus)))
	}
	return t
}

// signedRankCDF is the share of all ways to set the signs in which the doubled
// ranks with a plus, out of sum, come to k or less.
func signedRankCDF(doubled []int, whole bool, sum, k int) float64 {
	switch {
	case k >= sum:
		return 1
	case k < 0:
		return 0
	case 2*k > sum:
		return 1 - signedRankCDF(doubled, whole, sum, sum-k-1)
	}
	unit := 1
	if whole {
		unit = 2
	}
	total := 0.0
	for _, c := range signCounts(doubled, unit, k/unit) {
		total += c
	}
	return math.Ldexp(total, -len(doubled))
}

// signCounts says for each s up to most how many subsets of the ranks, in units
// of unit, have the sum s. 2^100 of them still fit a float64's range, and its
// digits are lost no faster than the additions lose them.
func signCounts(doubled []int, unit, most int) []float64 {
	counts := make([]float64, most+1)
	counts[0] = 1
	top := 0
	for _, r := range doubled {
		r /= unit
		top = min(most, top+r)
		for s := top; s >= r; s-- {
			counts[s] += counts[s-r]
		}
	}
	return counts
}

// signedRankTail is the largest k for which k−1 or less has a chance of at most
// tail for T⁺ of n differences without ties, and that chance; 0 when even
// T⁺ = 0 is likelier.
func signedRankTail(n int, tail float64) (k int, chance float64) {
	f := float64(n)
	if n > MaxExactPairs {
		mean, deviation := f*(f+1)/4, math.Sqrt(f*(f+1)*(2*f+1)/24)
		k = int(max(0, math.Floor(mean+NormalQuantile(tail)*deviation+0.5)))
		return k, normalCDF((float64(k) - 0.5 - mean) / deviation)
	}
	doubled := make([]int, n)
	for i := range doubled {
		doubled[i] = 2 * (i + 1)
	}
	for _, c := range signCounts(doubled, 2, n*(n+1)/4) {
		next := chance + math.Ldexp(c, -n)
		if next > tail*(1+1e-9) {
			break
		}
		k, chance = k+1, next
	}
	return k, chance
}

// SignedRankNeeds is the smallest number of differences with which
// [SignedRank] can reject at the level at all, when all have the same sign: 6
// at 0.05 on two sides. It is 0 for a level outside (0,1), and for one below
// 1e-30, which no exact test of ours reaches.
func SignedRankNeeds(level float64, side Side) int {
	if !(level >= 1e-30 && level < 1) {
		return 0
	}
	p := 1.0
	if side == TwoSided {
		p = 2
	}
	n := 0
	for p > level {
		p, n = p/2, n+1
	}
	return n
}
