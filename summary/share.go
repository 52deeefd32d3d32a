package summary

import (
	"math"
	"math/bits"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/stat"
)

// Bounds of a share.
const (
	maxShareStages = 32
	maxShareCells  = 512
	maxShareName   = 100
)

// Share is what one run gives to a joint result: enough to add what happened at the
// same time and to merge distributions, and small enough to be kept for each node.
type Share struct {
	Stages []StageShare `json:"stages"`
}

// StageShare is one stage of a run.
type StageShare struct {
	Name    string `json:"name"`
	Streams int    `json:"streams"`
	Started int64  `json:"started_ns"` // by the run's own clock, as all times here
	// The steady window; without one both are zero, and Why says why.
	From int64  `json:"from_ns,omitempty"`
	To   int64  `json:"to_ns,omitempty"`
	Why  string `json:"why,omitempty"`

	Requests int `json:"requests"` // judged
	Failed   int `json:"failed"`

	// Cells are tokens that arrived and requests that succeeded in equal cells of
	// Width from Origin on.
	Origin int64        `json:"origin_ns,omitempty"`
	Width  int64        `json:"width_ns,omitempty"`
	Cells  [][2]float64 `json:"cells,omitempty"`

	TTFT Counted `json:"ttft"`
	TPOT Counted `json:"tpot"`
	E2E  Counted `json:"e2e"`
}

// Counted is a distribution that can be merged with others: how many requests had
// which value, in microseconds (of TPOT nanoseconds), rounded to within 0.4 %.
type Counted struct {
	Effective float64    `json:"effective"` // independent samples
	Counts    [][2]int64 `json:"counts"`
}

// WithShare summarises a run as Of does, and gives its share of a joint result too.
func WithShare(run Source) (assay.Summary, Share, error) {
	o, err := reduce(run)
	if err != nil {
		return assay.Summary{}, Share{}, err
	}
	sum := o.summary(run)
	out := Share{Stages: []StageShare{}}
	for i, s := range o.stages[:min(len(o.stages), maxShareStages)] {
		out.Stages = append(out.Stages, s.share(&sum.Stages[i]))
	}
	return sum, out, nil
}

func (s *stage) share(sum *assay.StageSummary) StageShare {
	out := StageShare{
		Name: foreign.Line(sum.Name, maxShareName), Streams: s.plan.Concurrency, Started: sum.Started, Why: foreign.Line(sum.WindowWhy, 300),
		Requests: sum.Requests, Failed: sum.Failed, TTFT: countedOf(&s.ttft), TPOT: countedOf(&s.tpot), E2E: countedOf(&s.e2e),
	}
	if !sum.Windowed() || sum.SteadyTo <= sum.SteadyFrom || s.loading.line == nil {
		return out
	}
	out.From, out.To = sum.SteadyFrom, sum.SteadyTo
	line := s.loading.line
	for int64(len(line.cells)) > maxShareCells {
		line.double()
	}
	out.Origin, out.Width = line.anchor+line.first*line.width, line.width
	for _, m := range line.cells {
		out.Cells = append(out.Cells, [2]float64{round(m.tokens), round(m.ok)})
	}
	return out
}

// round keeps a thousandth of a token: the rest is noise of the shares in which a
// request counts.
func round(v float64) float64 { return math.Round(v*1e3) / 1e3 }

func countedOf(s *sample) Counted {
	out := Counted{Effective: s.series.Effective(), Counts: [][2]int64{}}
	if s.counts.N() == 0 {
		out.Effective = 0
	}
	for c := range s.counts.All() {
		v := coarse(c.Value)
		if k := len(out.Counts); k > 0 && out.Counts[k-1][0] == v {
			out.Counts[k-1][1] += c.N
		} else {
			out.Counts = append(out.Counts, [2]int64{v, c.N})
		}
	}
	return out
}

// coarse rounds a value to the middle of one of 128 steps between two powers of
// two: it is off by 0.4 % at most, and values below 256 are exact.
func coarse(v int64) int64 {
	n := bits.Len64(uint64(max(0, v)))
	if n <= 8 {
		return max(0, v)
	}
	step := int64(1) << (n - 8)
	return v/step*step + step/2
}

// in adds up what a stage did in a period of its own clock. A cell that lies across
// an edge counts by its share.
func (s *StageShare) in(p span) (tokens, ok float64) {
	for i, c := range s.Cells {
		from := s.Origin + int64(i)*s.Width
		if a, b := max(from, p.from), min(from+s.Width, p.to); a < b {
			share := float64(b-a) / float64(s.Width)
			tokens += c[0] * share
			ok += c[1] * share
		}
	}
	return tokens, ok
}

// merged is the distribution of several.
func merged(parts []Counted, scale float64) assay.Dist {
	var counts stat.Counts
	effective := 0.0
	for _, p := range parts {
		for _, c := range p.Counts {
			counts.AddN(c[0], c[1])
		}
		if p.Effective > 0 {
			effective += p.Effective
		}
	}
	m := counts.Moments()
	return distOf(&counts, &m, min(effective, float64(counts.N())), jointLevels, scale)
}

var jointLevels = []float64{50, 90, 99}
