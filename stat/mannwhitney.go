package stat

import "math"

// MaxExactProduct is the largest product of two samples' sizes for which
// [MannWhitney] and [HodgesLehmann2] use the exact distribution: 50 against
// 50, or 10 against 250. With ties it takes at most some thirty milliseconds
// and 2 MB, without them next to nothing.
const MaxExactProduct = 2500

// MannWhitney is the test that two independent samples come from one
// distribution, against one of them being greater (Wilcoxon's rank sum).
//
// Statistic is U of x: how many pairs have the greater value in x, ties
// counting a half. The distribution is that of all ways to share the pooled
// values out: exact with ties too. With ties it may be lopsided; a two-sided P
// is twice the smaller side. Beyond [MaxExactProduct] it is the normal
// approximation with the ties' variance and a correction for continuity.
//
// NaN values are absent and not counted; infinities have the extreme ranks. P
// is NaN when a sample is empty, and 1 when all values are equal.
func MannWhitney(x, y []float64, o TestOptions) RankTest {
	x, y = present(x), present(y)
	t := RankTest{N: len(x), M: len(y), Statistic: math.NaN(), P: math.NaN(), Z: math.NaN()}
	if t.N == 0 || t.M == 0 {
		return t
	}
	doubled, _ := doubledRanks(append(x, y...))
	u := -t.N * (t.N + 1) // twice U
	for _, r := range doubled[:t.N] {
		u += r
	}
	t.Statistic = float64(u) / 2
	product := t.N * t.M
	if o.Normal || product > MaxExactProduct {
		t.byNormal(float64(u-product)/2, rankSumDeviation(doubled, t.N, t.M), o.Side)
		return t
	}
	t.Exact = true
	var less, more float64
	if untied(doubled) {
		less, more = untiedTails(t.N, t.M, u/2)
	} else {
		less, more = tiedTails(doubled, t.N, t.M, u)
	}
	switch o.Side {
	case Less:
		t.P = less
	case Greater:
		t.P = more
	default:
		t.P = min(1, 2*min(less, more))
	}
	return t
}

// untied says that no two of the ranks are equal. Midranks of three are whole
// numbers too, but any tie takes something from the sum of squares.
func untied(doubled []int) bool {
	n, sum := len(doubled), 0
	for _, r := range doubled {
		sum += r * r
	}
	return sum == 2*n*(n+1)*(2*n+1)/3
}

// tiedTails are the chances of u or less and of u or more for twice U.
func tiedTails(doubled []int, n, m, u int) (less, more float64) {
	if m < n { // the smaller sample makes the smaller table
		more, less = tiedTails(doubled, m, n, 2*n*m-u)
		return less, more
	}
	all := 0.0
	for k, c := range choiceCounts(doubled, n) {
		all += c
		if k <= u {
			less += c
		}
		if k >= u {
			more += c
		}
	}
	return less / all, more / all
}

// untiedTails is tiedTails for U of values without ties, which is symmetric.
func untiedTails(n, m, u int) (less, more float64) {
	if 2*u > n*m {
		more, less = untiedTails(n, m, n*m-u)
		return less, more
	}
	all := choices(n, m)
	counts := untiedCounts(n, m, u)
	for _, c := range counts {
		less += c / all
	}
	return less, 1 - less + counts[u]/all
}

// rankSumDeviation is the standard deviation of U, from the ranks themselves,
// so that ties need no term of their own.
func rankSumDeviation(doubled []int, n, m int) float64 {
	total := n + m
	sum := 0.0
	for _, r := range doubled {
		d := float64(r-total-1) / 2
		sum += d * d
	}
	if total < 2 {
		return 0
	}
	return math.Sqrt(float64(n) * float64(m) * sum / (float64(total) * float64(total-1)))
}

// choiceCounts says for each u how many choices of m of the pooled values have
// u = 2U. A choice of j values has a doubled rank sum of at least j(j+1): each
// row of the table counts from there, and so is as long as 2U can be.
func choiceCounts(doubled []int, m int) []float64 {
	total := len(doubled)
	rows := make([][]float64, m+1)
	for j := range rows {
		rows[j] = make([]float64, 2*j*(total-j)+1)
	}
	rows[0][0] = 1
	for i, r := range doubled {
		for j := min(m, i+1); j >= 1; j-- { // a value is chosen at most once
			from, to := rows[j-1], rows[j]
			shift := r - 2*j
			// Where the ends would pass the row there is nothing to be moved.
			for u := max(0, -shift); u < min(len(from), len(to)-shift); u++ {
				to[u+shift] += from[u]
			}
		}
	}
	return rows[m]
}

// untiedCounts says for each u up to most, at most half of n·m, how many
// choices of n of n+m values without ties have U = u: the coefficients of
// ∏ (1−q^(m+i))/(1−q^i), which is much quicker than the table. No coefficient
// needs those of higher powers, and they rise up to the middle, so that the
// subtractions lose no digits.
func untiedCounts(n, m, most int) []float64 {
	if m < n {
		n, m = m, n
	}
	counts := make([]float64, most+1)
	counts[0] = 1
	for i := 1; i <= n; i++ {
		for u := most; u >= m+i; u-- {
			counts[u] -= counts[u-m-i]
		}
		for u := i; u <= most; u++ {
			counts[u] += counts[u-i]
		}
	}
	return counts
}

// choices is how many choices of n of n+m there are.
func choices(n, m int) float64 {
	c := 1.0
	for i := 1; i <= min(n, m); i++ {
		c *= float64(max(n, m)+i) / float64(i)
	}
	return c
}

// rankSumTail is signedRankTail for U of n and m values without ties.
func rankSumTail(n, m int, tail float64) (k int, chance float64) {
	if n*m > MaxExactProduct {
		fn, fm := float64(n), float64(m)
		mean, deviation := fn*fm/2, math.Sqrt(fn*fm*(fn+fm+1)/12)
		k = int(max(0, math.Floor(mean+NormalQuantile(tail)*deviation+0.5)))
		return k, normalCDF((float64(k) - 0.5 - mean) / deviation)
	}
	all := choices(n, m)
	for _, c := range untiedCounts(n, m, n*m/2) {
		next := chance + c/all
		if next > tail*(1+1e-9) {
			break
		}
		k, chance = k+1, next
	}
	return k, chance
}
