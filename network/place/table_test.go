package place

import (
	"os"
	"testing"
	"time"
)

func TestDistances(t *testing.T) {
	var all []float64
	began := time.Now()
	for seed := range uint64(25) {
		size := []struct{ nodes, models int }{{10, 2}, {20, 4}, {50, 5}, {100, 10}, {200, 10}}[seed%5]
		n := generate(seed, size.nodes, size.models, 0.5)
		b := time.Now()
		got, err := Place(n.nodes, n.request)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(size, got.Distance, got.Unmet, got.UnmetBound, got.Optimal, time.Since(b))
		all = append(all, got.Distance)
	}
	t.Log(quantile(all, 0.5), quantile(all, 0.9), quantile(all, 1), time.Since(began))
	if os.Getenv("BIG") != "" {
		n := generate(1, 1000, 20, 0.5)
		b := time.Now()
		got, _ := Place(n.nodes, n.request)
		t.Log(got.Distance, got.Unmet, time.Since(b))
	}
}
