package summary

import "github.com/assay-bench/assay"

// chunksOf is the number of token chunks of a request.
func chunksOf(r *assay.Request) int64 {
	if r.First == 0 {
		return 0
	}
	return int64(len(r.Gaps)) + 1
}

// tokensOf is the number of output tokens that arrived: the count of the
// request, or what its chunks held where it was interrupted before anybody
// counted.
func tokensOf(r *assay.Request) float64 {
	switch {
	case r.First == 0:
		return 0
	case r.OutputTokens > 0:
		return float64(tokenCount(r.OutputTokens))
	}
	if said := chunkSum(r); said > 0 {
		return said
	}
	return float64(chunksOf(r))
}

// tokenCount bounds a count that an engine claimed, so that sums of absurd ones
// do not overflow.
func tokenCount(n int) int64 { return int64(min(max(0, n), 1<<31)) }

// chunkSum is the number of tokens in the chunks where that is on record for
// each; 0: it is not.
func chunkSum(r *assay.Request) float64 {
	if len(r.ChunkTokens) != len(r.Gaps)+1 {
		return 0
	}
	said := 0.0
	for _, n := range r.ChunkTokens {
		if n < 0 { // nonsense: nobody said anything
			return 0
		}
		said += float64(n)
	}
	return said
}

// spread counts the tokens of a request where they arrived: each chunk has the
// tokens that the engine said, scaled to the request's count, or an equal share.
// edge gives the end of the cell that a time is in; count is called once for the
// chunks of a cell. A gap costs an addition and a comparison: runs have many
// more tokens than anything else.
func spread(r *assay.Request, edge func(int64) int64, count func(at int64, tokens float64)) {
	total := tokensOf(r)
	if total == 0 || !sane(r.First) {
		return
	}
	at := r.First
	end := edge(at)
	if r.Last >= at && r.Last < end {
		count(at, total)
		return
	}
	from := at // a time in the cell that is being filled
	said := chunkSum(r)
	if said == 0 {
		each := total / float64(chunksOf(r))
		n := 1
		for _, v := range r.Gaps {
			if v < 0 {
				v = -1 - v
			}
			at += int64(v) * 1000
			if at >= end {
				count(from, each*float64(n))
				from, n, end = at, 0, edge(at)
			}
			n++
		}
		count(from, each*float64(n))
		return
	}
	each := total / said
	in := float64(r.ChunkTokens[0])
	for i, v := range r.Gaps {
		us, _ := assay.Gap(v)
		at += int64(us) * 1000
		if at >= end {
			count(from, in*each)
			from, in, end = at, 0, edge(at)
		}
		in += float64(r.ChunkTokens[i+1])
	}
	count(from, in*each)
}
