// Memory of the device. serve_memory.go has the word of a place again, for the CPU.

// word is a mixture of seed and place (SplitMix64): no two places hold the same,
// and none holds what an earlier seed left there.
ulong word(ulong seed, ulong place)
{
	ulong x = seed + (place + 1) * 0x9E3779B97F4A7C15ul;
	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ul;
	x = (x ^ x >> 27) * 0x94D049BB133111EBul;
	return x ^ x >> 31;
}

__kernel void fill(__global ulong *words, const ulong count, const ulong seed)
{
	for (ulong i = get_global_id(0); i < count; i += get_global_size(0))
		words[i] = word(seed, i);
}

// touch writes the first word of every page of 4 KiB.
__kernel void touch(__global ulong *words, const ulong pages, const ulong seed)
{
	for (ulong i = get_global_id(0); i < pages; i += get_global_size(0))
		words[512 * i] = word(seed, i);
}
