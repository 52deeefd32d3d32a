package stat

import "math/rand/v2"

// BlockIndices are those of one resample of a series of n: blocks of neighbours
// that begin anywhere and run around the end (the circular block bootstrap),
// the last cut so that there are n. Neighbours stay together, so that a
// resample is as correlated as the series within a block; every sample is as
// likely as any other, which the moving blocks that stop at the end do not
// give.
//
// A block should be several autocorrelation times long (see [Blocking]); 1 is
// the ordinary bootstrap. It is held to [1,n]. Even so the intervals of a
// strongly correlated series come out narrow: see "Statistics" in the design.
func BlockIndices(rng *rand.Rand, n, block int) []int {
	if n < 1 {
		return nil
	}
	block = min(n, max(1, block))
	starts := make([]int, (n+block-1)/block)
	for i := range starts {
		starts[i] = rng.IntN(n)
	}
	return fromStarts(starts, n, block)
}

func fromStarts(starts []int, n, block int) []int {
	indices := make([]int, 0, n)
	for _, s := range starts {
		for k := 0; k < block && len(indices) < n; k++ {
			indices = append(indices, (s+k)%n)
		}
	}
	return indices
}
