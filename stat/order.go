package stat

import "slices"

// nth is the value that would be at index k if v were sorted. It reorders v so
// that nothing before k is greater and nothing after k is less: the next
// smaller or larger index can then be looked for in one side. v must hold no
// NaN and k must lie inside.
//
// The pairs of two hundred points are twenty thousand slopes of which three
// are wanted; sorting them all was nine tenths of the time.
func nth(v []float64, k int) float64 {
	lo, hi := 0, len(v)-1
	for budget := 64; lo < hi; budget-- {
		if hi-lo < 16 || budget == 0 { // unlucky pivots end in a sort, not in n²
			slices.Sort(v[lo : hi+1])
			break
		}
		p := median3(v[lo], v[lo+(hi-lo)/2], v[hi])
		i, j := lo, hi
		for i <= j {
			for v[i] < p {
				i++
			}
			for v[j] > p {
				j--
			}
			if i <= j {
				v[i], v[j] = v[j], v[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return v[k]
		}
	}
	return v[k]
}

func median3(a, b, c float64) float64 { return max(min(a, b), min(max(a, b), c)) }

// middle is the usual median of at least one value, which it reorders. Unlike
// [Median] it is the mean of the middle two when there are two: the estimators
// here are defined so.
func middle(v []float64) float64 {
	n := len(v)
	hi := nth(v, n/2)
	if n%2 == 1 {
		return hi
	}
	return slices.Max(v[:n/2])/2 + hi/2
}

// middleOf is middle of a copy.
func middleOf(v []float64) float64 { return middle(slices.Clone(v)) }
