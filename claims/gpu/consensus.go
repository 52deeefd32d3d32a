package gpu

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/opencl"
)

// The ballot: 100 voters with a key each, four proposals, and the quorum of
// Byzantine agreement, two thirds and one: with 33 malicious voters of 100 the 67
// honest ones just reach it.
const (
	voters    = 100
	malicious = 33
	proposals = 4
	quorum    = 2*voters/3 + 1
	undecided = 1<<32 - 1
)

// What is said of a vote, as in kernels_consensus.cl.
const (
	voteAccepted = 1 + iota
	voteStranger
	voteForged
	voteStale
	voteSenseless
	voteTwofaced
	voteRepeated
)

type gpuVote struct {
	voter, round uint32
	value, code  uint64
}

// words are the two that the code is taken of.
func (v gpuVote) words() (uint64, uint64) { return uint64(v.round)<<32 | uint64(v.voter), v.value }

type ballot struct {
	keys      [voters][2]uint64
	proposals [proposals]uint64
}

func newBallot(r *rand.Rand) *ballot {
	b := &ballot{}
	for i := range b.keys {
		b.keys[i] = [2]uint64{r.Uint64(), r.Uint64()}
	}
	for i := range b.proposals {
		b.proposals[i] = r.Uint64()
	}
	return b
}

// sign makes a vote as its voter would.
func (b *ballot) sign(voter, round uint32, value uint64) gpuVote {
	v := gpuVote{voter: voter, round: round, value: value}
	m0, m1 := v.words()
	v.code = sipHash(b.keys[voter], m0, m1)
	return v
}

// honestVotes are one good vote of everybody; a part of them is for another
// proposal, so that a round is sometimes decided and sometimes not.
func honestVotes(b *ballot, r *rand.Rand, round uint32) []gpuVote {
	favourite, loyal := r.IntN(proposals), 55+r.IntN(voters-55+1)
	var votes []gpuVote
	for i, voter := range r.Perm(voters) {
		p := favourite
		if i >= loyal {
			p = r.IntN(proposals)
		}
		votes = append(votes, b.sign(uint32(voter), round, b.proposals[p]))
	}
	return votes
}

// byzantineVotes are 67 honest votes for one proposal and 33 malicious ones: 12 in
// another's name with a code that is one bit off, 11 replayed from an earlier round,
// and 10 by five voters who each vote for two proposals.
func byzantineVotes(b *ballot, r *rand.Rand, round uint32) []gpuVote {
	who, favourite := r.Perm(voters), r.IntN(proposals)
	next := func() uint32 { v := who[0]; who = who[1:]; return uint32(v) }
	other := func() uint64 { return b.proposals[(favourite+1+r.IntN(proposals-1))%proposals] }
	var votes []gpuVote
	for range voters - malicious {
		votes = append(votes, b.sign(next(), round, b.proposals[favourite]))
	}
	for range 12 {
		v := b.sign(next(), round, other())
		v.code ^= 1 << r.IntN(64)
		votes = append(votes, v)
	}
	for range 11 {
		votes = append(votes, b.sign(next(), round-1-uint32(r.IntN(3)), other()))
	}
	for range 5 {
		v := next()
		votes = append(votes, b.sign(v, round, other()), b.sign(v, round, b.proposals[favourite]))
	}
	r.Shuffle(len(votes), func(i, j int) { votes[i], votes[j] = votes[j], votes[i] })
	return votes
}

// sipHash is SipHash-2-4 of a message of sixteen bytes.
func sipHash(key [2]uint64, m0, m1 uint64) uint64 {
	v := [4]uint64{key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573}
	mix := func(rounds int) {
		for range rounds {
			v[0] += v[1]
			v[2] += v[3]
			v[1] = bits.RotateLeft64(v[1], 13) ^ v[0]
			v[3] = bits.RotateLeft64(v[3], 16) ^ v[2]
			v[0] = bits.RotateLeft64(v[0], 32)
			v[2] += v[1]
			v[0] += v[3]
			v[1] = bits.RotateLeft64(v[1], 17) ^ v[2]
			v[3] = bits.RotateLeft64(v[3], 21) ^ v[0]
			v[2] = bits.RotateLeft64(v[2], 32)
		}
	}
	for _, m := range []uint64{m0, m1, 16 << 56} {
		v[3] ^= m
		mix(2)
		v[0] ^= m
	}
	v[2] ^= 0xff
	mix(4)
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

// judge looks at one vote by itself; the proposal is that of a vote that is good.
func (b *ballot) judge(v gpuVote, round uint32) (verdict uint32, proposal int) {
	if v.voter >= voters {
		return voteStranger, 0
	}
	if m0, m1 := v.words(); sipHash(b.keys[v.voter], m0, m1) != v.code {
		return voteForged, 0
	}
	if v.round != round {
		return voteStale, 0
	}
	for p, value := range b.proposals {
		if v.value == value {
			return voteAccepted, p
		}
	}
	return voteSenseless, 0
}

// tally is the reference of the kernel of that name.
func (b *ballot) tally(votes []gpuVote, round uint32) []uint32 {
	values := map[uint32]map[uint64]bool{} // what each voter voted for
	verdicts := make([]uint32, len(votes))
	for i, v := range votes {
		if verdicts[i], _ = b.judge(v, round); verdicts[i] == voteAccepted {
			if values[v.voter] == nil {
				values[v.voter] = map[uint64]bool{}
			}
			values[v.voter][v.value] = true
		}
	}
	var counts [proposals]uint32
	counted := map[uint32]bool{}
	for i, v := range votes {
		switch {
		case verdicts[i] != voteAccepted:
		case len(values[v.voter]) > 1:
			verdicts[i] = voteTwofaced
		case counted[v.voter]:
			verdicts[i] = voteRepeated
		default:
			counted[v.voter] = true
			_, p := b.judge(v, round)
			counts[p]++
		}
	}
	return append(append(counts[:], winner(counts)), verdicts...)
}

func winner(counts [proposals]uint32) uint32 {
	for p, n := range counts {
		if n >= quorum {
			return uint32(p)
		}
	}
	return undecided
}

func voteBytes(votes ...gpuVote) []byte {
	var b []byte
	for _, v := range votes {
		m0, m1 := v.words()
		for _, w := range []uint64{m0, m1, v.code} {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
	}
	return b
}

// onDevice puts keys and proposals there.
func (b *ballot) onDevice(d *gpuDevice) (keys, values *opencl.Buffer, err error) {
	var buf []byte
	for _, k := range b.keys {
		buf = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(buf, k[0]), k[1])
	}
	if keys, err = d.buffer(buf); err != nil {
		return nil, nil, fmt.Errorf("put the keys on the device: %w", err)
	}
	buf = nil
	for _, p := range b.proposals {
		buf = binary.LittleEndian.AppendUint64(buf, p)
	}
	if values, err = d.buffer(buf); err != nil {
		return nil, nil, fmt.Errorf("put the proposals on the device: %w", err)
	}
	return keys, values, nil
}

func uint32s(b []byte) []uint32 {
	w := make([]uint32, len(b)/4)
	for i := range w {
		w[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return w
}

func uint32Bytes(w []uint32) []byte {
	b := make([]byte, 0, 4*len(w))
	for _, x := range w {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return b
}

// differ says at which word a result is not the reference.
func differ(what string, got, want []uint32) error {
	if len(got) != len(want) {
		return fmt.Errorf("%w: %s: %d words from the device, %d by the CPU", claims.ErrWrong, what, len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("%w: %s: word %d is %#x from the device and %#x by the CPU", claims.ErrWrong, what, i, got[i], want[i])
		}
	}
	return nil
}
