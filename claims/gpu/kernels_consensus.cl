// Tallying of votes. A vote is three words: the voter's number with the round in
// the upper half, the value that is voted for, and a SipHash-2-4 of the two under
// the voter's own key of 128 bits. A vote counts when its code is right, it is of
// this round, its value is one of the proposals, and its voter has voted for
// nothing else. serve_consensus.go has the same rules again, for the CPU.

#define PROPOSALS 4
#define MAX_VOTERS 128
#define NOTHING 0xFFFFFFFFu

#define ACCEPTED 1
#define STRANGER 2   // no such voter
#define FORGED 3     // the code is wrong
#define STALE 4      // right, but of another round: replayed
#define SENSELESS 5  // for a value that nobody proposed
#define TWOFACED 6   // the voter has voted for two values
#define REPEATED 7   // the voter said the same before

#define SIPROUND \
	a += b; b = rotate(b, 13ul); b ^= a; a = rotate(a, 32ul); \
	c += d; d = rotate(d, 16ul); d ^= c; \
	a += d; d = rotate(d, 21ul); d ^= a; \
	c += b; b = rotate(b, 17ul); b ^= c; c = rotate(c, 32ul);

ulong siphash(ulong k0, ulong k1, ulong m0, ulong m1)
{
	ulong a = k0 ^ 0x736f6d6570736575ul, b = k1 ^ 0x646f72616e646f6dul;
	ulong c = k0 ^ 0x6c7967656e657261ul, d = k1 ^ 0x7465646279746573ul;
	const ulong end = 16ul << 56; // the length of the message
	d ^= m0; SIPROUND SIPROUND a ^= m0;
	d ^= m1; SIPROUND SIPROUND a ^= m1;
	d ^= end; SIPROUND SIPROUND a ^= end;
	c ^= 0xff; SIPROUND SIPROUND SIPROUND SIPROUND
	return a ^ b ^ c ^ d;
}

// judge looks at one vote by itself. The proposal's number comes back in which.
uint judge(__global const ulong *vote, __global const ulong *keys, __global const ulong *proposals,
	uint voters, uint turn, uint *which)
{
	const uint voter = (uint)vote[0];
	*which = NOTHING;
	if (voter >= voters)
		return STRANGER;
	if (siphash(keys[2 * voter], keys[2 * voter + 1], vote[0], vote[1]) != vote[2])
		return FORGED;
	if ((uint)(vote[0] >> 32) != turn)
		return STALE;
	for (uint p = 0; p < PROPOSALS; p++)
		if (vote[1] == proposals[p])
			*which = p;
	return *which == NOTHING ? SENSELESS : ACCEPTED;
}

uint decide(uint c0, uint c1, uint c2, uint c3, uint quorum)
{
	return c0 >= quorum ? 0 : c1 >= quorum ? 1 : c2 >= quorum ? 2 : c3 >= quorum ? 3 : NOTHING;
}

// tally counts a whole batch in one group of 64. The result is a count for each
// proposal, the number of the one that has the quorum, and a word for each vote.
__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void tally(__global const ulong *votes, __global const ulong *keys, __global const ulong *proposals,
	__global uint *result, const uint n, const uint voters, const uint turn, const uint quorum)
{
	__local uint first[MAX_VOTERS]; // the voter's first good vote
	__local uint twofaced[MAX_VOTERS];
	__local uint counts[PROPOSALS];
	const uint me = get_local_id(0);
	for (uint v = me; v < MAX_VOTERS; v += 64) {
		first[v] = NOTHING;
		twofaced[v] = 0;
	}
	if (me < PROPOSALS)
		counts[me] = 0;
	barrier(CLK_LOCAL_MEM_FENCE);
	__global uint *verdict = result + PROPOSALS + 1;
	uint which;
	// Each work-item sees the same votes in every step: what it wrote to the
	// verdicts is read by itself alone.
	for (uint i = me; i < n; i += 64) {
		verdict[i] = judge(votes + 3 * i, keys, proposals, voters, turn, &which);
		if (verdict[i] == ACCEPTED)
			atomic_min(&first[(uint)votes[3 * i]], i);
	}
	barrier(CLK_LOCAL_MEM_FENCE);
	for (uint i = me; i < n; i += 64) {
		const uint voter = (uint)votes[3 * i];
		if (verdict[i] == ACCEPTED && votes[3 * first[voter] + 1] != votes[3 * i + 1])
			atomic_or(&twofaced[voter], 1u);
	}
	barrier(CLK_LOCAL_MEM_FENCE);
	for (uint i = me; i < n; i += 64) {
		const uint voter = (uint)votes[3 * i];
		if (verdict[i] != ACCEPTED)
			continue;
		if (twofaced[voter]) {
			verdict[i] = TWOFACED;
		} else if (first[voter] != i) {
			verdict[i] = REPEATED;
		} else {
			for (uint p = 0; p < PROPOSALS; p++)
				if (votes[3 * i + 1] == proposals[p])
					atomic_inc(&counts[p]);
		}
	}
	barrier(CLK_LOCAL_MEM_FENCE);
	if (me < PROPOSALS)
		result[me] = counts[me];
	if (me == 0)
		result[PROPOSALS] = decide(counts[0], counts[1], counts[2], counts[3], quorum);
}

// vote takes one vote into a tally that stays on the device: state has the counts
// and what each voter has said (0 nothing, 1 + proposal, NOTHING: two things).
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void vote(__global const ulong *cast, __global const ulong *keys, __global const ulong *proposals,
	__global uint *state, __global uint *result, const uint voters, const uint turn, const uint quorum)
{
	uint which;
	uint verdict = judge(cast, keys, proposals, voters, turn, &which);
	__global uint *said = state + PROPOSALS;
	if (verdict == ACCEPTED) {
		const uint voter = (uint)cast[0];
		const uint before = said[voter];
		if (before == 0) {
			said[voter] = 1 + which;
			state[which]++;
		} else if (before == 1 + which) {
			verdict = REPEATED;
		} else {
			verdict = TWOFACED;
			if (before != NOTHING)
				state[before - 1]--; // the first vote is taken back
			said[voter] = NOTHING;
		}
	}
	for (uint p = 0; p < PROPOSALS; p++)
		result[p] = state[p];
	result[PROPOSALS] = decide(state[0], state[1], state[2], state[3], quorum);
	result[PROPOSALS + 1] = verdict;
}
