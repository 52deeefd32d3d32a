package verify

// pattern is what the memory check writes and expects. The word at place i
// (counted over all chunks, so that two chunks on the same cells are noticed):
//
//   - address: the low half of i, xor the high half times 0x9E3779B9, xor arg
//     (0, then all ones: each bit is seen both ways);
//   - walk: one bit set, at (i + arg) mod 32; with arg from 0 to 31 it walks
//     through every bit of every word;
//   - random: a hash of i and arg.
//
// kernels.cl and internal/cuda/kernels.ptx compute the same.
type pattern struct {
	name string
	mode uint32
	arg  uint32
}

const (
	modeAddress uint32 = iota
	modeWalk
	modeRandom
)

func patterns(seed uint32) []pattern {
	all := []pattern{{"address in address", modeAddress, 0}, {"address inverted", modeAddress, ^uint32(0)}}
	for i := range uint32(32) {
		all = append(all, pattern{"walking ones", modeWalk, i})
	}
	return append(all, pattern{"random", modeRandom, seed})
}
