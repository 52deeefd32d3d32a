package gpu

import (
	"fmt"
	"math/rand/v2"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/opencl"
)

// batch tallies one batch of votes: they go to the device, are judged and counted
// there, and the outcome comes back.
type batch struct {
	ballot                        *ballot
	make                          func(*ballot, *rand.Rand, uint32) []gpuVote
	kernel                        *opencl.Kernel
	votes, keys, proposed, result *opencl.Buffer
	seed                          uint64
	out                           []byte
}

func newBatch(make func(*ballot, *rand.Rand, uint32) []gpuVote) func(*gpuDevice, uint64) (gpuWork, error) {
	return func(d *gpuDevice, seed uint64) (gpuWork, error) {
		b := &batch{ballot: newBallot(gpuRandom(seed, 0)), make: make, seed: seed, out: filled(4 * (proposals + 1 + voters))}
		var err error
		if b.kernel, err = d.program.Kernel("tally"); err != nil {
			return nil, err
		}
		if b.keys, b.proposed, err = b.ballot.onDevice(d); err != nil {
			return nil, err
		}
		mem, err := d.buffers(24*voters, len(b.out))
		if err != nil {
			return nil, fmt.Errorf("memory for the votes: %w", err)
		}
		b.votes, b.result = mem[0], mem[1]
		return b, nil
	}
}

func (b *batch) sample(number uint64) (claims.Measurement, error) {
	// Rounds begin high enough for votes to be replayed from before.
	round := uint32(number) + 8
	votes := b.make(b.ballot, gpuRandom(b.seed, number+1), round)
	p := voteBytes(votes...)
	if err := b.result.Write(filled(len(b.out))); err != nil {
		return claims.Measurement{}, fmt.Errorf("overwrite the result: %w", err)
	}
	wall, device, err := timed(func() ([]*opencl.Event, error) {
		if err := b.votes.Write(p); err != nil {
			return nil, err
		}
		e, err := b.kernel.Launch([]int{64}, []int{64}, b.votes, b.keys, b.proposed, b.result, uint32(len(votes)), uint32(voters), round, uint32(quorum))
		if err != nil {
			return nil, err
		}
		return []*opencl.Event{e}, b.result.Read(b.out)
	})
	if err != nil {
		return claims.Measurement{}, fmt.Errorf("tally %d votes: %w", len(votes), err)
	}
	got := uint32s(b.out)
	if err := differ("the tally", got, b.ballot.tally(votes, round)); err != nil {
		return claims.Measurement{}, err
	}
	refused := 0.0
	for _, verdict := range got[proposals+1:] {
		if verdict != voteAccepted {
			refused++
		}
	}
	return claims.Measurement{Value: wall.Seconds(), Extra: map[string]float64{
		"device_s": device.Seconds(), "votes": float64(len(votes)), "refused": refused,
	}}, nil
}

// singleVote takes the votes of a Byzantine ballot one by one into a tally that
// stays on the device: each sample is one vote there, judged, counted, and the new
// count back.
type singleVote struct {
	ballot                               *ballot
	kernel                               *opencl.Kernel
	vote, keys, proposed, state, outcome *opencl.Buffer
	seed                                 uint64
	out                                  []byte

	// The reference's own tally of the round.
	round  uint32
	votes  []gpuVote // still to come
	counts [proposals]uint32
	said   map[uint32]int // proposal, or -1 for two
}

func newSingleVote(d *gpuDevice, seed uint64) (gpuWork, error) {
	s := &singleVote{ballot: newBallot(gpuRandom(seed, 0)), seed: seed, round: 8, out: filled(4 * (proposals + 2))}
	var err error
	if s.kernel, err = d.program.Kernel("vote"); err != nil {
		return nil, err
	}
	if s.keys, s.proposed, err = s.ballot.onDevice(d); err != nil {
		return nil, err
	}
	mem, err := d.buffers(24, 4*(proposals+voters), len(s.out))
	if err != nil {
		return nil, fmt.Errorf("memory for the votes: %w", err)
	}
	s.vote, s.state, s.outcome = mem[0], mem[1], mem[2]
	return s, nil
}

func (s *singleVote) sample(number uint64) (claims.Measurement, error) {
	if len(s.votes) == 0 {
		s.round++
		s.votes = byzantineVotes(s.ballot, gpuRandom(s.seed, number+1), s.round)
		s.counts, s.said = [proposals]uint32{}, map[uint32]int{}
		if err := s.state.Write(make([]byte, 4*(proposals+voters))); err != nil {
			return claims.Measurement{}, fmt.Errorf("begin a round: %w", err)
		}
	}
	v := s.votes[0]
	s.votes = s.votes[1:]
	p := voteBytes(v)
	if err := s.outcome.Write(filled(len(s.out))); err != nil {
		return claims.Measurement{}, fmt.Errorf("overwrite the result: %w", err)
	}
	wall, device, err := timed(func() ([]*opencl.Event, error) {
		if err := s.vote.Write(p); err != nil {
			return nil, err
		}
		e, err := s.kernel.Launch([]int{1}, []int{1}, s.vote, s.keys, s.proposed, s.state, s.outcome, uint32(voters), s.round, uint32(quorum))
		if err != nil {
			return nil, err
		}
		return []*opencl.Event{e}, s.outcome.Read(s.out)
	})
	if err != nil {
		return claims.Measurement{}, fmt.Errorf("take a vote: %w", err)
	}
	verdict := s.take(v)
	want := append(append(s.counts[:0:0], s.counts[:]...), winner(s.counts), verdict)
	if err := differ("the tally after a vote", uint32s(s.out), want); err != nil {
		return claims.Measurement{}, err
	}
	return claims.Measurement{Value: wall.Seconds(), Extra: map[string]float64{"device_s": device.Seconds()}}, nil
}

// take is the reference of the kernel vote.
func (s *singleVote) take(v gpuVote) uint32 {
	verdict, p := s.ballot.judge(v, s.round)
	if verdict != voteAccepted {
		return verdict
	}
	before, voted := s.said[v.voter]
	switch {
	case !voted:
		s.said[v.voter] = p
		s.counts[p]++
		return voteAccepted
	case before == p:
		return voteRepeated
	case before >= 0:
		s.counts[before]-- // the first vote is taken back
	}
	s.said[v.voter] = -1
	return voteTwofaced
}
