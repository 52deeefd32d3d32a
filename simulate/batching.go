package simulate

import (
	"errors"
	"math"
	"time"
)

// Batching is the law of one engine loop, as vLLM runs without chunked
// prefill. A waiting request is admitted, first come first served, while a
// slot is free; its prefill takes in/PrefillRate of the engine's whole time
// and ends with its first token. When nobody can be admitted, a decode step
// gives every running sequence one token and takes
//
//	s(b) = StepBase + StepPerSeq·b + SwapPerToken·E
//
// with b running sequences, of which each reserves in+out tokens of KV cache,
// and E the tokens reserved beyond KVTokens. The sequences that do not fit
// count as preempted: they are swapped, which is what SwapPerToken pays for.
//
// Its methods are the closed form for a closed loop of n equal requests.
type Batching struct {
	Slots        int           // sequences that run at once; 0: 256
	PrefillRate  float64       // prompt tokens a second; 0: prefill takes no time
	StepBase     time.Duration // a
	StepPerSeq   time.Duration // c
	KVTokens     int           // K; 0: unlimited
	SwapPerToken time.Duration // w
}

// DefaultBatching is roughly an 8B model on one large GPU.
func DefaultBatching() Batching {
	return Batching{
		Slots:       256,
		PrefillRate: 20000,
		StepBase:    8 * time.Millisecond,
		StepPerSeq:  100 * time.Microsecond,
	}
}

func (b Batching) resolve() (Batching, error) {
	if b.Slots == 0 {
		b.Slots = 256
	}
	switch {
	case b.Slots < 0 || b.KVTokens < 0:
		return b, errors.New("batching: slots and KV tokens cannot be negative")
	case !(b.PrefillRate >= 0) || math.IsInf(b.PrefillRate, 0):
		return b, errors.New("batching: prefill rate must be a number of tokens a second")
	case b.StepBase < 0 || b.StepPerSeq < 0 || b.SwapPerToken < 0:
		return b, errors.New("batching: step times cannot be negative")
	}
	return b, nil
}

// prefill is the engine time of a prompt, in nanoseconds.
func (b Batching) prefill(tokens int) float64 {
	if b.PrefillRate == 0 {
		return 0
	}
	return float64(tokens) / b.PrefillRate * 1e9
}

// step is the time of one decode step, in nanoseconds.
func (b Batching) step(running, reserved float64) float64 {
	s := float64(b.StepBase) + float64(b.StepPerSeq)*running
	if b.KVTokens > 0 && reserved > float64(b.KVTokens) {
		s += float64(b.SwapPerToken) * (reserved - float64(b.KVTokens))
	}
	return s
}

func (b Batching) slots() float64 {
	if b.Slots == 0 {
		return 256
	}
	return float64(b.Slots)
}

// share is T(n), the engine's seconds for each request when n are under way:
// in/P + (out−1)·s(n)/n.
func (b Batching) share(n float64, in, out int) float64 {
	n = math.Min(n, b.slots())
	return (b.prefill(in) + float64(out-1)*b.step(n, n*float64(in+out))/n) / 1e9
}

// Throughput is X(n), requests a second, with n requests always under way.
func (b Batching) Throughput(n float64, in, out int) float64 { return 1 / b.share(n, in, out) }

// Latency is R(n), seconds from sending a request to its last token,
// waiting for a slot included.
func (b Batching) Latency(n float64, in, out int) float64 { return n * b.share(n, in, out) }

// Peak is the number of requests under way at which throughput is highest:
// where the KV cache is just full, if swapping costs more than batching
// gains, and all slots otherwise.
func (b Batching) Peak(in, out int) float64 {
	s := b.slots()
	if b.KVTokens == 0 || float64(b.StepBase) >= float64(b.SwapPerToken)*float64(b.KVTokens) {
		return s
	}
	return math.Max(1, math.Min(s, float64(b.KVTokens)/float64(in+out)))
}

// Knee is N* = X_max·R_min, the ceiling of throughput times the latency of
// one request alone.
func (b Batching) Knee(in, out int) float64 {
	return b.Throughput(b.Peak(in, out), in, out) * b.Latency(1, in, out)
}

// Cliff is the number of requests under way at which throughput has fallen
// to 0.9 of its peak; false when it never does. Beyond the peak T is linear
// in 1/n, so there is one solution.
func (b Batching) Cliff(in, out int) (float64, bool) {
	peak := b.Peak(in, out)
	if peak >= b.slots() || out < 2 {
		return 0, false
	}
	steps := float64(out-1) / 1e9
	w := float64(b.SwapPerToken)
	flat := b.prefill(in)/1e9 + steps*(float64(b.StepPerSeq)+w*float64(in+out))
	slope := steps * (float64(b.StepBase) - w*float64(b.KVTokens)) // < 0, by Peak
	inverse := (b.share(peak, in, out)/0.9 - flat) / slope
	if inverse <= 0 || 1/inverse > b.slots() {
		return 0, false
	}
	return 1 / inverse, true
}
