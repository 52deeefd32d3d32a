// Kernels of program synthesis: matching of patterns, expansion of templates,
// rewriting of trees. serve_match.go, serve_expand.go and serve_rewrite.go have
// each of them again, for the CPU.

#define POSITIONS 64 // where in the text a pattern may begin
#define LONGEST 12   // symbols of a pattern

// match holds each pattern against each position of the text. A pattern is up to
// twelve symbols of a byte, zero standing for any; its length is in its last byte.
// An operation is one symbol that was looked at, and it is counted where it is
// done. out has, for each pattern, the first position at which it fits in the upper
// half and the number of positions in the lower one; operations has a sum for each
// group.
__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void match(__global const ulong *patterns, __global const uchar *text,
	__global uint *out, __global uint *operations, const uint count)
{
	__local uchar t[POSITIONS + LONGEST];
	__local uint sums[64];
	const uint me = get_local_id(0), i = get_global_id(0);
	for (uint p = me; p < POSITIONS + LONGEST; p += 64)
		t[p] = text[p];
	barrier(CLK_LOCAL_MEM_FENCE);
	uint done = 0;
	if (i < count) {
		const ulong low = patterns[i], high = patterns[count + i];
		const uint length = min((uint)(high >> 56), (uint)LONGEST);
		uint first = 0xFFFF, fits = 0;
		for (uint p = 0; p < POSITIONS; p++) {
			uint k = 0;
			while (k < length) {
				const uint symbol = (uint)((k < 8 ? low >> (8 * k) : high >> (8 * (k - 8))) & 0xFF);
				done++;
				if (symbol != 0 && symbol != t[p + k])
					break;
				k++;
			}
			if (k == length) {
				fits++;
				first = min(first, p);
			}
		}
		out[i] = first << 16 | fits;
	}
	sums[me] = done;
	barrier(CLK_LOCAL_MEM_FENCE);
	for (uint rest = 32; rest > 0; rest /= 2) {
		if (me < rest)
			sums[me] += sums[me + rest];
		barrier(CLK_LOCAL_MEM_FENCE);
	}
	if (me == 0)
		operations[get_group_id(0)] = sums[0];
}

// A template is TOKENS tokens. A token is a length in its upper half and a place
// in the pool of literals in its lower one, or, with the highest bit, the number
// of a variable, whose length and place in the pool of values are in bindings.
#define TOKENS 16
#define VARIABLE 0x80000000u

uint resolve(uint token, __global const uint *bindings)
{
	return token & VARIABLE ? bindings[token & 0xFF] : token;
}

__kernel void expand_lengths(__global const uint *templates, __global const uint *bindings,
	__global uint *lengths, const uint count)
{
	const uint i = get_global_id(0);
	if (i >= count)
		return;
	uint sum = 0;
	for (uint k = 0; k < TOKENS; k++)
		sum += resolve(templates[k * count + i], bindings) >> 16;
	lengths[i] = sum;
}

// expand_offsets turns lengths into places, in one group of 256: offsets[0] is the
// length of everything, and the places follow.
__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void expand_offsets(__global const uint *lengths, __global uint *offsets, const uint count)
{
	__local uint sums[256];
	const uint me = get_local_id(0), each = (count + 255) / 256;
	const uint from = min(me * each, count), to = min(from + each, count);
	uint sum = 0;
	for (uint i = from; i < to; i++)
		sum += lengths[i];
	sums[me] = sum;
	barrier(CLK_LOCAL_MEM_FENCE);
	for (uint step = 1; step < 256; step *= 2) {
		const uint before = me >= step ? sums[me - step] : 0;
		barrier(CLK_LOCAL_MEM_FENCE);
		sums[me] += before;
		barrier(CLK_LOCAL_MEM_FENCE);
	}
	uint at = sums[me] - sum;
	for (uint i = from; i < to; i++) {
		offsets[1 + i] = at;
		at += lengths[i];
	}
	if (me == 255)
		offsets[0] = sums[255];
}

// expand_write copies the text, a group of 64 for each template.
__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void expand_write(__global const uint *templates, __global const uint *bindings,
	__global const uchar *literals, __global const uchar *values,
	__global const uint *offsets, __global uchar *out, const uint count)
{
	const uint i = get_group_id(0), me = get_local_id(0);
	uint at = offsets[1 + i];
	for (uint k = 0; k < TOKENS; k++) {
		const uint token = templates[k * count + i];
		const uint piece = resolve(token, bindings);
		const uint length = piece >> 16, from = piece & 0xFFFF;
		for (uint b = me; b < length; b += 64)
			out[at + b] = token & VARIABLE ? values[from + b] : literals[from + b];
		at += length;
	}
}

// A tree is 31 nodes: node n has the children 2n+1 and 2n+2. A node is a kind in
// the upper four bits, and below it a constant or a variable's number, or two
// children of eight bits. Arithmetic is modulo 2^28. Node n of all trees lies
// together, so that neighbours read neighbours.
#define NODES 31
#define PAYLOAD 0x0FFFFFFFu
#define CONSTANT 1u
#define NAME 2u
#define ADD 3u
#define SUBTRACT 4u
#define MULTIPLY 5u
#define SAME 6u // as the node whose number is the payload

#define KIND(x) ((x) >> 28)
#define NODE(kind, payload) ((kind) << 28 | ((payload) & PAYLOAD))
#define AT(n) nodes[(n) * trees + t]

// rewrite simplifies each tree from its leaves upwards, one work-item a tree:
// constants are folded and moved to the left, neutral elements and x-x removed,
// x-c becomes -c+x, and nested sums and products with constants are joined.
__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void rewrite(__global uint *nodes, __global uint *steps, const uint trees)
{
	const uint t = get_global_id(0);
	if (t >= trees)
		return;
	uint done = 0;
	for (uint left = NODES; left > 0; left--) {
		const uint n = left - 1;
		uint x = AT(n);
		uint kind = KIND(x);
		if (kind < ADD || kind > MULTIPLY)
			continue;
		uint l = 2 * n + 1, r = 2 * n + 2;
		if (KIND(AT(l)) == SAME)
			l = AT(l) & PAYLOAD;
		if (KIND(AT(r)) == SAME)
			r = AT(r) & PAYLOAD;
		uint a = AT(l), b = AT(r);
		if (KIND(a) == CONSTANT && KIND(b) == CONSTANT) {
			const uint v = kind == ADD ? a + b : kind == SUBTRACT ? a - b : (a & PAYLOAD) * (b & PAYLOAD);
			AT(n) = NODE(CONSTANT, v);
			done++;
			continue;
		}
		if (kind == SUBTRACT && KIND(b) == CONSTANT) { // x-c is -c+x
			b = NODE(CONSTANT, 0u - b);
			AT(r) = b;
			kind = ADD;
			done++;
		}
		if (kind != SUBTRACT && KIND(b) == CONSTANT) {
			uint swap = l; l = r; r = swap;
			swap = a; a = b; b = swap;
			done++;
		}
		if (kind == SUBTRACT && KIND(a) == NAME && a == b) {
			AT(n) = NODE(CONSTANT, 0u);
			done++;
			continue;
		}
		if (kind != SUBTRACT && KIND(a) == CONSTANT && KIND(b) == kind) {
			const uint inner = b >> 8 & 0xFF;
			if (KIND(AT(inner)) == CONSTANT) {
				const uint c = AT(inner);
				a = NODE(CONSTANT, kind == ADD ? a + c : (a & PAYLOAD) * (c & PAYLOAD));
				AT(l) = a;
				r = b & 0xFF;
				done++;
			}
		}
		if (kind == ADD && a == NODE(CONSTANT, 0u) || kind == MULTIPLY && a == NODE(CONSTANT, 1u)) {
			AT(n) = NODE(SAME, r);
			done++;
		} else if (kind == MULTIPLY && a == NODE(CONSTANT, 0u)) {
			AT(n) = NODE(CONSTANT, 0u);
			done++;
		} else {
			AT(n) = NODE(kind, l << 8 | r);
		}
	}
	steps[t] = done;
}
