package compare

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Series is a figure over the time of a run, thinned to what a chart can show.
type Series struct {
	At     []float64 `json:"at_s"` // seconds since the run began, rising
	Values []float64 `json:"values"`
}

// The series that a sample may have.
const (
	SeriesMemory    = "memory_bytes"     // resident memory of the engine's processes
	SeriesGPUMemory = "gpu_memory_bytes" // in use on the GPU that uses most
)

// maxPoints is how many points of a series are kept.
const maxPoints = 240

// Thinned keeps at most so many points as a chart can show: the highest of each
// stretch, so that the peak stays.
func (s Series) Thinned() Series {
	n := min(len(s.At), len(s.Values))
	if n <= maxPoints {
		return Series{s.At[:n:n], s.Values[:n:n]}
	}
	var out Series
	for i := range maxPoints {
		from, to := i*n/maxPoints, (i+1)*n/maxPoints
		most := from
		for k := from; k < to; k++ {
			if s.Values[k] > s.Values[most] {
				most = k
			}
		}
		out.At, out.Values = append(out.At, s.At[most]), append(out.Values, s.Values[most])
	}
	return out
}

// check refuses a series that no run has.
func (s Series) check() error {
	if len(s.At) != len(s.Values) || len(s.At) > maxPoints {
		return fmt.Errorf("a series of %d times and %d values; at most %d can be read", len(s.At), len(s.Values), maxPoints)
	}
	for i := range s.At {
		if !finite(s.At[i]) || !finite(s.Values[i]) || s.Values[i] < 0 || i > 0 && s.At[i] < s.At[i-1] {
			return fmt.Errorf("a series with %v at %v", s.Values[i], s.At[i])
		}
	}
	return nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Load says how a workload loads an engine.
type Load struct {
	Workload string `json:"workload"`
	// Concurrency is the number of requests under way of a closed loop; 0: requests
	// arrive at a rate, or in another way.
	Concurrency int `json:"concurrency,omitempty"`
	// Work is equal for workloads that differ by nothing but their concurrency and
	// how long they go on.
	Work string `json:"work"`
}

// scaled are the loads that differ by nothing but their concurrency, in its order:
// one list for each work of which there are two or more.
func scaled(loads []Load) [][]Load {
	var works []string
	of := map[string][]Load{}
	for _, l := range loads {
		if l.Concurrency <= 0 || l.Work == "" || slices.ContainsFunc(of[l.Work], func(o Load) bool { return o.Concurrency == l.Concurrency }) {
			continue
		}
		if of[l.Work] == nil {
			works = append(works, l.Work)
		}
		of[l.Work] = append(of[l.Work], l)
	}
	var out [][]Load
	for _, w := range works {
		if g := of[w]; len(g) > 1 {
			slices.SortFunc(g, func(a, b Load) int { return a.Concurrency - b.Concurrency })
			out = append(out, g)
		}
	}
	return out
}

// checkExtras refuses series and counters that no run has.
func (s *Sample) checkExtras() error {
	if len(s.Series) > maxSeries {
		return fmt.Errorf("%d series; at most %d can be read", len(s.Series), maxSeries)
	}
	for _, v := range s.Series {
		if err := v.check(); err != nil {
			return err
		}
	}
	return checkCounters(s.Counters)
}

// maxSeries is how many series a sample may have, with room for later ones.
const maxSeries = 16

// WorkOf names a work by what it is made of: a hash of its JSON.
func WorkOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "" // what a configuration is made of can be encoded
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:8])
}
