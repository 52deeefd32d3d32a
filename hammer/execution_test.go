package hammer

import (
	"testing"
	"time"

	"github.com/assay-bench/assay"
)

// Weights that a single GPU does not hold, while its power stays idle, are not
// computed on it. Without their size nobody can tell, and of several GPUs each
// may hold a part.
func TestTheWeightsMustBeOnTheGPU(t *testing.T) {
	checks := func(modelBytes int64, devices ...string) []assay.Check {
		var w witness
		memory, power := 100.0*(1<<20), 60.0
		for _, p := range []phase{phaseIdle, phaseLoad} {
			w.enter(p)
			for range 20 {
				for _, d := range devices {
					w.see(assay.Reading{Name: assay.GPUMemoryUsed, Device: d, Value: &memory})
					w.see(assay.Reading{Name: assay.GPUPower, Device: d, Value: &power})
				}
			}
		}
		return w.checks(time.Unix(1, 0), modelBytes)
	}
	for _, c := range []struct {
		bytes   int64
		devices []string
		want    assay.Verdict
	}{
		{4 << 30, []string{"GPU-a"}, assay.Fail},
		{0, []string{"GPU-a"}, assay.Unknown},
		{4 << 30, []string{"GPU-a", "GPU-b"}, assay.Unknown},
	} {
		got := checks(c.bytes, c.devices...)
		if len(got) != len(c.devices) || got[0].Verdict != c.want {
			t.Errorf("%d bytes on %v: %+v, want %s", c.bytes, c.devices, got, c.want)
		}
	}
}
