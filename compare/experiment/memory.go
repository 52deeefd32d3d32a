package experiment

import (
	"context"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/compare"
	"github.com/assay-bench/assay/internal/proc"
	"github.com/assay-bench/assay/journal"
)

// memoryEvery is how often a tree's memory is looked at: without a cgroup it
// takes a walk through /proc, which should stay far below a hundredth of a core.
const memoryEvery = 500 * time.Millisecond

// memoryPoint is the memory of something at a moment.
type memoryPoint struct {
	at    int64 // Unix nanoseconds
	bytes float64
}

// watchMemory looks at the tree's memory until ctx ends; then seen gives what it
// was, from the first look to the last.
func watchMemory(ctx context.Context, p *proc.Process) (seen func() []memoryPoint) {
	var points []memoryPoint
	done := make(chan struct{})
	look := func() {
		if rss, ok := p.RSS(); ok {
			points = append(points, memoryPoint{time.Now().UnixNano(), float64(rss)})
		}
	}
	go func() {
		defer close(done)
		tick := time.NewTicker(memoryEvery)
		defer tick.Stop()
		for {
			look()
			select {
			case <-ctx.Done():
				look()
				return
			case <-tick.C:
			}
		}
	}()
	return func() []memoryPoint {
		<-done
		return points
	}
}

// addMemory puts what was seen into a sample: the peak, and its course.
func addMemory(s *compare.Sample, points []memoryPoint) {
	for _, p := range points {
		s.Metrics["memory_peak_bytes"] = max(s.Metrics["memory_peak_bytes"], p.bytes)
	}
	addSeries(s, compare.SeriesMemory, points)
}

// addSeries puts a course into a sample, by seconds since its start.
func addSeries(s *compare.Sample, name string, points []memoryPoint) {
	var c compare.Series
	last := 0.0
	for _, p := range points {
		// The first look is before the first request, which is where a sample starts.
		last = max(last, float64(p.at-s.Started)/1e9)
		c.At, c.Values = append(c.At, last), append(c.Values, p.bytes)
	}
	if len(c.At) == 0 {
		return
	}
	if s.Series == nil {
		s.Series = map[string]compare.Series{}
	}
	s.Series[name] = c.Thinned()
}

// gpuMemory is the memory in use on that GPU, among those that the engine may use,
// on which it came to most.
func gpuMemory(rd *journal.Run, gpus []assay.GPUSummary) ([]memoryPoint, error) {
	device, most := "", 0.0
	for _, g := range gpus {
		if u, ok := g.Stats[assay.GPUMemoryUsed]; ok && u.N > 0 && u.Max > most {
			device, most = g.UUID, u.Max
		}
	}
	if device == "" {
		return nil, nil
	}
	var points []memoryPoint
	for r, err := range rd.Readings() {
		if err != nil {
			return nil, err
		}
		if r.Name == assay.GPUMemoryUsed && r.Device == device && r.Value != nil {
			points = append(points, memoryPoint{r.At, *r.Value})
		}
	}
	return points, nil
}
