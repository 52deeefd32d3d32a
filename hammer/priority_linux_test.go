package hammer

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/journal"
	"github.com/assay-bench/assay/simulate"
)

// The client has its priority while it measures, run.json says so, and neither a
// child nor what comes after the run has any of it.
func TestPriorityIsWhatTheRunSays(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("priorities need root")
	}
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil || before.Nice < 0 || before.Policy != unix.SCHED_NORMAL {
		t.Skipf("this process is at %+v already: %v", before, err)
	}
	url := engine(t, simulate.Config{TTFT: 20 * time.Millisecond, ITL: 5 * time.Millisecond})
	for asked, want := range map[Priority]struct {
		nice   int32
		policy uint32
	}{
		"": {before.Nice, unix.SCHED_NORMAL}, PriorityNormal: {before.Nice, unix.SCHED_NORMAL},
		PriorityHigh: {-10, unix.SCHED_NORMAL}, PriorityRealtime: {before.Nice, unix.SCHED_RR},
	} {
		t.Run("asked "+string(asked), func(t *testing.T) {
			cfg := short(url, "openai")
			cfg.Priority, cfg.Telemetry.Interval = asked, 0
			cfg.Load = Load{Mode: ModeClosed, Concurrency: 2, Duration: assay.Duration(2 * time.Second), Grace: assay.Duration(time.Second)}
			dir := filepath.Join(t.TempDir(), "run")
			looked := 0
			_, err := Run(t.Context(), cfg, dir, Options{Progress: func(cp assay.Checkpoint) {
				if cp.Status != assay.StatusRunning {
					return
				}
				looked++
				threads, _ := filepath.Glob("/proc/self/task/*")
				raised := 0
				for _, tid := range threads {
					a, err := unix.SchedGetAttr(atoi(t, filepath.Base(tid)), 0)
					if err == nil && a.Policy == want.policy && (a.Nice == want.nice || a.Policy == unix.SCHED_RR) {
						raised++
					}
				}
				if raised < len(threads)-2 { // one or two may be new
					t.Errorf("%d of %d threads have the priority", raised, len(threads))
				}
				out, err := exec.Command("sh", "-c", "nice; chrt -p $$ 2>/dev/null || true").Output()
				if err != nil || !strings.HasPrefix(string(out), "0\n") && before.Nice == 0 || strings.Contains(string(out), "SCHED_RR") {
					t.Errorf("a child has %q, %v", out, err)
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			if looked == 0 {
				t.Fatal("nobody looked")
			}
			rd, err := journal.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			got := rd.Manifest().Client
			said := asked
			if said == "" {
				said = PriorityNormal
			}
			if got == nil || got.Priority != string(said) || got.Nice != int(want.nice) || got.Why != "" {
				t.Errorf("run.json says %+v", got)
			}
			after, err := unix.SchedGetAttr(0, 0)
			if err != nil || after.Nice != before.Nice || after.Policy != before.Policy {
				t.Errorf("afterwards the process is at %+v, %v", after, err)
			}
		})
	}
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n := 0
	for _, c := range s {
		n = 10*n + int(c-'0')
	}
	return n
}
