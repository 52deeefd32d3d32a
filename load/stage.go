package load

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/assay-bench/assay"
)

// Options are what a stage does not say of itself.
type Options struct {
	Seed uint64
	// VLLM makes open arrivals as vLLM's benchmark does when the number of
	// requests is given: their times are stretched such that the last goes out at
	// exactly Requests ÷ Rate.
	VLLM bool
	// Trace is what a stage of kind replay sends, as Replay says.
	Trace  []Arrival
	Replay ReplayOptions
}

// fastest is the highest rate that makes sense to ask of one process. It keeps
// a slip of the pen from filling the disk with never-sent requests.
const fastest = 1e6

// Of gives the schedule that a stage asks for.
//
// Requests of a stage are those that are judged: Warmups go out before them. In
// a closed loop they are simply the first ones; otherwise they are sent and
// waited for, and the schedule and the stage's duration begin afterwards.
func Of(stage assay.Stage, o Options) (Schedule, error) {
	s, err := shape(stage, o)
	if err != nil {
		return nil, fmt.Errorf("stage %q: %w", stage.Name, err)
	}
	duration := time.Duration(stage.DurationNS)
	if stage.Kind == assay.LoadClosed {
		requests := stage.Requests
		if requests > 0 {
			requests += max(0, stage.Warmups)
		}
		return Limit(&marked{inner: s, n: stage.Warmups}, requests, duration), nil
	}
	streams := stage.Concurrency
	if streams <= 0 {
		streams = stage.Warmups
	}
	return Warmup(Limit(s, stage.Requests, duration), stage.Warmups, streams), nil
}

func shape(stage assay.Stage, o Options) (Schedule, error) {
	if stage.Requests <= 0 && stage.DurationNS <= 0 && stage.Kind != assay.LoadReplay {
		return nil, errors.New("it would never end: give a number of requests or a duration")
	}
	rampUp := time.Duration(max(0, stage.RampUpNS))
	switch stage.Kind {
	case assay.LoadClosed:
		if stage.Concurrency < 1 {
			return nil, errors.New("a closed loop needs at least one stream")
		}
		return Closed(stage.Concurrency, rampUp), nil
	case assay.LoadBatch:
		if stage.Batch < 1 {
			return nil, errors.New("a batch needs at least one request")
		}
		return Batch(stage.Batch), nil
	case assay.LoadReplay:
		if len(o.Trace) == 0 {
			return nil, errors.New("the trace has no requests")
		}
		return Replay(o.Trace, o.Replay), nil
	case assay.LoadOpen:
		return openStage(stage, rampUp, o)
	case assay.LoadRamp:
		return rampStage(stage, o)
	}
	return nil, fmt.Errorf("%q is not a kind of load", stage.Kind)
}

func openStage(stage assay.Stage, rampUp time.Duration, o Options) (Schedule, error) {
	if stage.Rate <= 0 || math.IsInf(stage.Rate, 1) {
		if stage.Requests <= 0 {
			return nil, errors.New("requests all at once need a number of requests, or a rate")
		}
		return Open(OpenOptions{}), nil
	}
	if err := checkRate(stage.Rate); err != nil {
		return nil, err
	}
	if rampUp > 0 {
		return &marked{before: rampUp, inner: Ramp(RampOptions{
			To: stage.Rate, Over: rampUp.Seconds(), Burstiness: stage.Burstiness, Seed: o.Seed,
		})}, nil
	}
	open := OpenOptions{Rate: stage.Rate, Burstiness: stage.Burstiness, Seed: o.Seed}
	if o.VLLM {
		open.Normalise = stage.Requests
	}
	return Open(open), nil
}

// rampStage rises over the stage's duration, or, when it has none, over its
// requests.
func rampStage(stage assay.Stage, o Options) (Schedule, error) {
	ramp := RampOptions{
		From: stage.RateFrom, To: stage.RateTo, Exponential: stage.Ramp == RampExponential,
		Burstiness: stage.Burstiness, Seed: o.Seed,
	}
	if err := errors.Join(checkRate(ramp.From), checkRate(ramp.To)); err != nil {
		return nil, err
	}
	if stage.DurationNS > 0 {
		ramp.Over = time.Duration(stage.DurationNS).Seconds()
	} else {
		ramp.Requests = stage.Requests
	}
	switch {
	case stage.Ramp != "" && stage.Ramp != RampLinear && stage.Ramp != RampExponential:
		return nil, fmt.Errorf("%q is not a ramp; there are %s and %s", stage.Ramp, RampLinear, RampExponential)
	case ramp.Exponential && !(ramp.From > 0 && ramp.To > 0):
		return nil, errors.New("an exponential ramp needs rates above zero at both ends")
	case ramp.Over == 0 && !(ramp.From > 0 && ramp.To > 0):
		return nil, errors.New("a ramp over a number of requests needs rates above zero: the first gap would never end")
	case !(ramp.From > 0 || ramp.To > 0):
		return nil, errors.New("a ramp needs a rate above zero at one end")
	}
	return Ramp(ramp), nil
}

// The forms of a ramp, in a stage's Ramp. Empty is linear.
const (
	RampLinear      = "linear"
	RampExponential = "exponential"
)

func checkRate(r float64) error {
	if !(r >= 0 && r <= fastest) {
		return fmt.Errorf("a rate of %g requests a second: it must lie between 0 and %.0f", r, fastest)
	}
	return nil
}
