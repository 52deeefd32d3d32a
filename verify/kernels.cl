// Kernels of the verification. Each sum runs over k upwards; the inputs are such
// that every partial sum is exact, so neither the order nor a fused operation
// changes a bit.

// For GPUs. A group of 16x16 work-items makes a tile of 80x80, each item 5x5 of
// it at a distance of 16, through local memory in steps of 16.
__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void multiply(__global const float *a, __global const float *b, __global float *c, const uint n)
{
	__local float ta[16][81]; // padded against bank conflicts
	__local float tb[16][80];
	const uint tx = get_local_id(0), ty = get_local_id(1);
	const uint row = get_group_id(1) * 80 + ty, col = get_group_id(0) * 80 + tx;
	float s[5][5];
	for (int i = 0; i < 5; i++)
		for (int j = 0; j < 5; j++)
			s[i][j] = 0;
	for (uint k0 = 0; k0 < n; k0 += 16) {
		for (int i = 0; i < 5; i++) {
			ta[tx][ty + 16 * i] = a[(row + 16 * i) * n + k0 + tx];
			tb[ty][tx + 16 * i] = b[(k0 + ty) * n + col + 16 * i];
		}
		barrier(CLK_LOCAL_MEM_FENCE);
		for (int k = 0; k < 16; k++) {
			float x[5], y[5];
			for (int i = 0; i < 5; i++) {
				x[i] = ta[k][ty + 16 * i];
				y[i] = tb[k][tx + 16 * i];
			}
			for (int i = 0; i < 5; i++)
				for (int j = 0; j < 5; j++)
					s[i][j] = fma(x[i], y[j], s[i][j]);
		}
		barrier(CLK_LOCAL_MEM_FENCE);
	}
	for (int i = 0; i < 5; i++)
		for (int j = 0; j < 5; j++)
			c[(row + 16 * i) * n + col + 16 * j] = s[i][j];
}

// For implementations on a CPU, in tests: 4 rows of 16 columns in vectors.
__kernel void multiply_rows(__global const float *a, __global const float *b, __global float *c, const uint n)
{
	const uint col = get_global_id(0) * 16, row = get_global_id(1) * 4;
	float16 s0 = 0, s1 = 0, s2 = 0, s3 = 0;
	__global const float *r = a + row * n;
	for (uint k = 0; k < n; k++) {
		const float16 y = vload16(0, b + k * n + col);
		s0 += r[k] * y;
		s1 += r[n + k] * y;
		s2 += r[2 * n + k] * y;
		s3 += r[3 * n + k] * y;
	}
	vstore16(s0, 0, c + row * n + col);
	vstore16(s1, 0, c + (row + 1) * n + col);
	vstore16(s2, 0, c + (row + 2) * n + col);
	vstore16(s3, 0, c + (row + 3) * n + col);
}

// The pattern's word at place i; pattern.go says what the patterns are.
uint word(ulong i, uint mode, uint arg)
{
	const uint lo = (uint)i, hi = (uint)(i >> 32);
	uint x = lo ^ hi * 0x9E3779B9u;
	if (mode == 1)
		return 1u << ((lo + arg) & 31);
	if (mode == 2) {
		x += arg * 0x85EBCA6Bu;
		x ^= x >> 16;
		x *= 0x7FEB352Du;
		x ^= x >> 15;
		x *= 0x846CA68Bu;
		return x ^ x >> 16;
	}
	return x ^ arg;
}

__kernel void fill(__global uint *words, const uint count, const ulong base, const uint mode, const uint arg)
{
	const uint stride = get_global_size(0);
	for (uint i = get_global_id(0); i < count; i += stride)
		words[i] = word(base + i, mode, arg);
}

// found: how many words are wrong, and the first one's place.
__kernel void inspect(__global const uint *words, const uint count, const ulong base, const uint mode, const uint arg, __global uint *found)
{
	const uint stride = get_global_size(0);
	for (uint i = get_global_id(0); i < count; i += stride)
		if (words[i] != word(base + i, mode, arg)) {
			atomic_inc(found);
			atomic_min(found + 1, i);
		}
}
