package place

import (
	"os"
	"testing"
	"time"
)

// sizes of the networks of which the distance is measured.
var sizes = []struct{ nodes, models int }{{10, 2}, {20, 4}, {50, 5}, {100, 10}, {200, 10}}

// The answer's distance from the bound on generated networks. In long mode there
// are a hundred, the table of docs/benchmarks.md; else those that take little time.
func TestDistanceFromTheBound(t *testing.T) {
	networks, largest := uint64(100), 200
	if os.Getenv("ASSAY_LONG") != "1" {
		networks, largest = 10, 50
	}
	var all, nets []float64
	optimal, unmet := 0, 0
	for seed := range networks {
		size := sizes[seed%uint64(len(sizes))]
		if size.nodes > largest {
			continue
		}
		n := generate(seed, size.nodes, size.models, 0.5)
		began := time.Now()
		got := place(t, n)
		took := time.Since(began)
		audit(t, n, got)
		all, nets = append(all, got.Distance), append(nets, took.Seconds())
		if got.Optimal {
			optimal++
		}
		if got.Unmet > 0 {
			unmet++
		}
	}
	t.Logf("%d networks, %d searched to the end, %d not met in full: distance median %.4f, p90 %.4f, worst %.4f; seconds median %.2f, worst %.2f",
		len(all), optimal, unmet, quantile(all, 0.5), quantile(all, 0.9), quantile(all, 1), quantile(nets, 0.5), quantile(nets, 1))
	if quantile(all, 0.5) > 0.05 || quantile(all, 1) > 0.25 {
		t.Error("the distance is above what docs/benchmarks.md says")
	}
}

// A network of 1,000 nodes and 20 models.
func TestThousandNodes(t *testing.T) {
	if os.Getenv("ASSAY_LONG") != "1" {
		t.Skip("half a minute: in long mode")
	}
	n := generate(1, 1000, 20, 0.5)
	began := time.Now()
	got := place(t, n)
	t.Logf("1,000 nodes × 20 models: distance %.4f in %s", got.Distance, time.Since(began))
	if audit(t, n, got); got.Distance > 0.1 {
		t.Error("the distance is above what docs/benchmarks.md says")
	}
}
