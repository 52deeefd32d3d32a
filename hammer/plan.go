package hammer

import (
	"fmt"
	"os"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/load"
)

// plan turns the load that is asked for into stages.
func (c *Config) plan(trace []load.Arrival) (load.Plan, error) {
	l := c.Load
	like := assay.Stage{
		Concurrency: l.Concurrency, Burstiness: l.Burstiness,
		DurationNS: int64(l.Duration), RampUpNS: int64(l.RampUp), Requests: l.Requests,
		GraceNS: int64(l.Grace), Warmups: l.Warmups,
	}
	switch l.Mode {
	case ModeClosed:
		like.Kind = assay.LoadClosed
	case ModeOpen:
		like.Kind, like.Rate = assay.LoadOpen, l.Rate
	case ModeRamp:
		like.Kind, like.Ramp, like.RateFrom, like.RateTo = assay.LoadRamp, l.Ramp, l.RateFrom, l.RateTo
	case ModeReplay:
		like.Kind = assay.LoadReplay
		if like.Requests == 0 {
			like.Requests = len(trace)
		}
	case ModeSweep, ModeBatch:
		return load.Fixed(load.Repeat(c.NumRuns, c.levels(like)...)...), nil
	case ModeSaturate:
		return load.Saturate(load.SaturateOptions{Like: searched(like), MaxConcurrency: l.Concurrency}), nil
	case ModeFindMax:
		o := load.FindMaxOptions{Like: searched(like), Max: float64(l.Concurrency)}
		o.Like.Kind = assay.LoadClosed
		if l.FindMax == "rate" {
			o.Like.Kind, o.Like.Concurrency, o.Max = assay.LoadOpen, l.Concurrency, l.RateTo
		}
		return load.FindMax(o), nil
	case ModeSustain:
		hold := like
		hold.DurationNS, hold.Requests, hold.Concurrency = int64(l.Hold), 0, 0
		return load.Sustain(load.SustainOptions{
			Utilization: l.Utilization, Hold: hold,
			Capacity: load.SaturateOptions{Like: searched(like), MaxConcurrency: l.Concurrency},
		}), nil
	default:
		return nil, fmt.Errorf("unknown load mode %q", l.Mode)
	}
	like.Name = load.Name(like)
	return load.Fixed(load.Repeat(c.NumRuns, like)...), nil
}

// searched is a stage of a search. Its streams start spread over a part of its
// time, so that they do not march in step, and what they do meanwhile is not
// judged.
func searched(like assay.Stage) assay.Stage {
	if like.RampUpNS == 0 && like.DurationNS > 0 {
		like.RampUpNS = like.DurationNS / 10
	}
	return like
}

func (c *Config) levels(like assay.Stage) []assay.Stage {
	var levels []float64
	like.Kind = assay.LoadClosed
	if c.Load.Mode == ModeBatch {
		like.Kind, like.Concurrency = assay.LoadBatch, 0
		if c.Load.BatchMode == "request" {
			// One request carries the batch, and the next follows it.
			like.Kind = assay.LoadClosed
			var stages []assay.Stage
			for _, b := range c.Load.Levels {
				s := like
				s.Concurrency, s.Batch, s.Name = 1, b, fmt.Sprintf("b%d", b)
				stages = append(stages, s)
			}
			return stages
		}
	}
	for _, n := range c.Load.Levels {
		levels = append(levels, float64(n))
	}
	stages := load.Sweep(like, levels...)
	if len(c.Load.Rates) > 0 {
		like.Kind = assay.LoadOpen
		stages = append(stages, load.Sweep(like, c.Load.Rates...)...)
	}
	for i, s := range stages {
		// The first request of each stream finds the others starting too.
		if s.Kind == assay.LoadClosed && s.Requests == 0 {
			stages[i].Warmups = max(s.Warmups, s.Concurrency)
		}
	}
	return stages
}

// stageCount is the number of stages, 0 for a search, which cannot know.
func (c *Config) stageCount() int {
	switch c.Load.Mode {
	case ModeSweep, ModeBatch:
		return c.NumRuns * (len(c.Load.Levels) + len(c.Load.Rates))
	case ModeSaturate, ModeFindMax, ModeSustain:
		return 0
	}
	return c.NumRuns
}

// ahead is how many prompts are made before they are needed: enough for every
// stream to start at once, within reason.
func (c *Config) ahead() int {
	n := max(c.Load.Concurrency, 64)
	for _, v := range c.Load.Levels {
		n = max(n, v)
	}
	if c.Load.Mode == ModeOpen && c.Load.Rate == 0 {
		n = max(n, c.Load.Requests)
	}
	// 64 MB of prompts at the most.
	return max(16, min(2*n, 64<<20/(8*max(1, c.Data.InputTokens+c.Data.PrefixTokens))))
}

func readTrace(l Load) ([]load.Arrival, error) {
	f, err := os.Open(l.Trace)
	if err != nil {
		return nil, fmt.Errorf("the trace: %w", err)
	}
	defer f.Close()
	trace, err := load.ReadTrace(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Trace, err)
	}
	if l.Requests > 0 && l.Requests < len(trace) {
		trace = trace[:l.Requests]
	}
	return trace, nil
}

// Length estimates how long the run takes; ok is false when nobody can know.
func (c *Config) Length() (time.Duration, bool) {
	if n := c.stageCount(); n > 0 && c.Load.Duration > 0 {
		return time.Duration(n) * time.Duration(c.Load.Duration), true
	}
	return 0, false
}
