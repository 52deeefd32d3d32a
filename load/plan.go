package load

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/assay-bench/assay"
)

// Plan chooses the next stage from what the stages before it showed. It is a
// pure function of them: a resumed run is given the outcomes that were recorded
// and goes on where it was.
type Plan interface {
	// Next gives the next stage; ok is false when there is none. done holds the
	// outcomes of the plan's own stages in order.
	Next(done []Outcome) (stage assay.Stage, ok bool)
}

// Fixed runs the stages in order.
func Fixed(stages ...assay.Stage) Plan { return fixed(stages) }

type fixed []assay.Stage

func (f fixed) Next(done []Outcome) (assay.Stage, bool) {
	if len(done) >= len(f) {
		return assay.Stage{}, false
	}
	return f[len(done)], true
}

// Sweep makes a stage of each level, like the given one: streams of a closed
// loop, the rate of an open one, the size of a batch.
func Sweep(like assay.Stage, levels ...float64) []assay.Stage {
	var stages []assay.Stage
	for _, v := range levels {
		s := like
		switch s.Kind {
		case assay.LoadOpen:
			s.Rate = v
		case assay.LoadBatch:
			s.Batch = int(math.Round(v))
		default:
			s.Concurrency = int(math.Round(v))
		}
		s.Name = Name(s)
		stages = append(stages, s)
	}
	return distinct(stages)
}

// Repeat runs all stages so many times: round by round, so that what drifts
// meets every stage alike.
func Repeat(runs int, stages ...assay.Stage) []assay.Stage {
	if runs <= 1 {
		return distinct(stages)
	}
	var out []assay.Stage
	for run := 1; run <= runs; run++ {
		for _, s := range distinct(stages) {
			s.Run = run
			if run > 1 {
				s.Name += "#" + strconv.Itoa(run)
			}
			out = append(out, s)
		}
	}
	return out
}

// distinct gives a second stage of one name another one: c8, c8-b, c8-c.
func distinct(stages []assay.Stage) []assay.Stage {
	out := make([]assay.Stage, len(stages))
	seen := map[string]bool{}
	for i, s := range stages {
		name := s.Name
		for n := 'b'; seen[name]; n++ {
			name = fmt.Sprintf("%s-%c", s.Name, n)
			if n > 'z' {
				name = fmt.Sprintf("%s-%d", s.Name, i+1)
			}
		}
		seen[name] = true
		s.Name = name
		out[i] = s
	}
	return out
}

// Name is what a stage is called by what it does: c8 for 8 streams, r12.5 for a
// rate, r12.5c64 for a rate under a cap, b4 for batches, ramp1-10, replay.
func Name(s assay.Stage) string {
	name := ""
	num := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	switch s.Kind {
	case assay.LoadClosed:
		return "c" + strconv.Itoa(s.Concurrency)
	case assay.LoadBatch:
		name = "b" + strconv.Itoa(s.Batch)
	case assay.LoadOpen:
		name = "all"
		if s.Rate > 0 && !math.IsInf(s.Rate, 1) {
			name = "r" + num(s.Rate)
		}
		if s.Utilization > 0 {
			name = fmt.Sprintf("sustain%s%%", num(round(100*s.Utilization, 4)))
		}
	case assay.LoadRamp:
		name = "ramp" + num(s.RateFrom) + "-" + num(s.RateTo)
	default:
		name = strings.ToLower(string(s.Kind))
	}
	if s.Concurrency > 0 {
		name += "c" + strconv.Itoa(s.Concurrency)
	}
	return name
}

// round to so many significant digits.
func round(v float64, digits int) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	return r
}
