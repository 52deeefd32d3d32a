package telemetry

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/nvml/nvmltest"
)

// processSeconds is the CPU time of a process, to the nanosecond: the sum over
// its threads.
func processSeconds(tb testing.TB, pid int) float64 {
	tb.Helper()
	files, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/schedstat")
	if err != nil || len(files) == 0 {
		tb.Skipf("the kernel does not give the CPU time of process %d: %v", pid, err)
	}
	var sum float64
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		ns, err := strconv.ParseFloat(strings.Fields(string(b))[0], 64)
		if err != nil {
			tb.Fatal(err)
		}
		sum += ns / 1e9
	}
	return sum
}

// Eight GPUs sampled every 100 ms must cost below one hundredth of a core, the
// child and our side of it together. The stub's calls are cheap: what a real
// driver takes for them is its own and comes on top.
func TestNVMLCostOfSampling(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	c := newStub(t, nvmltest.Today, nvmltest.Scenario(t, "eight_one_bad"), ChildOptions{})
	if _, err := readAll(t, c); err != nil { // it is started, and everything was read once
		t.Fatal(err)
	}
	pid, _ := c.kept.PID()
	// What else runs on the machine can only add: the least of three counts. The
	// meter of the machine's stillness would be counted with this process.
	var share float64
	for range 3 {
		child, own := processSeconds(t, pid), processSeconds(t, os.Getpid())
		began, readings := time.Now(), 0
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		Poll(ctx, 100*time.Millisecond, func() int64 { return 0 }, []Source{c}, func(assay.Reading) { readings++ }, func(err error) { t.Error(err) })
		cancel()
		took := time.Since(began).Seconds()
		child, own = processSeconds(t, pid)-child, processSeconds(t, os.Getpid())-own
		share = 100 * (child + own) / took
		t.Logf("8 GPUs every 100 ms: %.2f %% of one core (child %.2f %%, parent %.2f %%); %.0f readings a second", share, 100*child/took, 100*own/took, float64(readings)/took)
		if float64(readings) < 8*9*8*took {
			t.Errorf("only %d readings in %.1f s", readings, took)
		}
		if share < 1 {
			return
		}
	}
	if !raceDetector {
		t.Errorf("%.2f %% of a core; the limit is 1 %%", share)
	}
}

// One reading of eight GPUs through the child, both sides.
func BenchmarkNVMLChildRead(b *testing.B) {
	c := newStub(b, nvmltest.Today, nvmltest.Scenario(b, "eight_one_bad"), ChildOptions{})
	emit := func(assay.Reading) {}
	if err := c.Read(b.Context(), emit); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Read(b.Context(), emit); err != nil {
			b.Fatal(err)
		}
	}
}
