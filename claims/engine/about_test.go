package engine

import (
	"testing"

	"github.com/assay-bench/assay"
)

// There is one table of metrics, and it is the root's.
func TestMetricsAreTheRoots(t *testing.T) {
	for _, p := range Probes() {
		name := p.Name[len("inference/"):]
		of, ok := assay.MetricOf(name)
		if !ok {
			of, ok = assay.MetricOf(name + "_ms")
		}
		unit := of.Unit
		if unit == "ms" {
			unit = "s"
		}
		if !ok || p.Unit == "" || p.Unit != unit || p.Better != of.Better {
			t.Errorf("%s: %s, %s is better; the root has %+v, %v", p.Name, p.Unit, p.Better, of, ok)
		}
	}
}
