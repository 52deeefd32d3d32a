package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/nvml/nvmltest"
)

// onGPU is the environment in which the driver's library is the stub, playing a
// scenario. The program itself has no switch for it: the system's own search
// path for libraries leads there.
func onGPU(t *testing.T, scenario string) []string {
	t.Helper()
	return append(os.Environ(), "LD_LIBRARY_PATH="+nvmltest.Build(t), nvmltest.Variable+"="+scenario)
}

// node runs assay hammer beside the stub and reads what it says of the node.
func node(t *testing.T, s *simulator, scenario string, args ...string) (result, assay.Summary, assay.Health) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), fmt.Sprint("run", time.Now().UnixNano()))
	cmd := exec.Command(program(t, "assay"), append([]string{"hammer", "--base-url", s.url, "--out", dir, "--quiet", "--format", "json", "--allow-invalid",
		"--input-len", "16"}, args...)...)
	cmd.Env = onGPU(t, scenario)
	r := runCommand(t, cmd, nil)
	var sum assay.Summary
	if err := json.Unmarshal([]byte(r.stdout), &sum); err != nil {
		t.Fatalf("exit %d, no summary: %v\n%s", r.exit, err, r.stderr)
	}
	b, err := os.ReadFile(filepath.Join(dir, "health.json"))
	if err != nil {
		t.Fatal(err)
	}
	var h assay.Health
	if err := json.Unmarshal(b, &h); err != nil {
		t.Fatal(err)
	}
	return r, sum, h
}

// room is a limit in the long run, and with room for a noisy machine otherwise.
func room(strict, loose float64) float64 {
	if long() {
		return strict
	}
	return loose
}

func finding(h assay.Health, rule string) *assay.Finding {
	for i := range h.Findings {
		if h.Findings[i].Rule == rule {
			return &h.Findings[i]
		}
	}
	return nil
}

// Must show 1: a GPU that overheats slows the engine down, and the report says
// so: how long, and that it is the cause.
func TestThrottlingIsNamed(t *testing.T) {
	light(t)
	// A drift that an invalid client saw is the client's own, and is not judged.
	best(t, "throttling", func() error {
		if !throttlingIsNamed(t) {
			return errors.New("the client was the bottleneck")
		}
		return nil
	})
}

// throttlingIsNamed reports whether the client was good enough to tell.
func throttlingIsNamed(t *testing.T) bool {
	t.Helper()
	start := time.Now()
	// Scripted second 35, at which the hardware steps in, is second 17.5.
	scenario := nvmltest.Scenario(t, "thermal", "scale 2", fmt.Sprintf("epoch_unix_ms %d", start.UnixMilli()))
	s := startSimulator(t, "--ttft", "20ms", "--itl", "5ms", "--slow-at", (17500 * time.Millisecond).String(), "--slow-by", "2.5")
	defer s.stop()
	r, sum, h := node(t, s, scenario, "--sweep", "4", "--duration", "45s", "--output-len", "64")
	if sum.Client.Certificate == assay.Invalid {
		return false
	}
	hot := finding(h, "hw_thermal_slowdown")
	if r.exit != 3 || h.Verdict != assay.Fail || hot == nil {
		t.Fatalf("exit %d, verdict %s (%s): %s", r.exit, h.Verdict, h.Because, r.stderr)
	}
	st := sum.Stages[0]
	began := start.Add(17500 * time.Millisecond).UnixNano()
	want := float64(st.Ended-began) / float64(st.Ended-st.Started)
	say(t, "%s; expected %.1f %%", hot.Text, 100*want)
	if !(math.Abs(hot.Values["share"]-want) <= 0.05) {
		t.Errorf("throttled for %.3f of the time, want %.3f", hot.Values["share"], want)
	}
	cause := finding(h, "throttling")
	if cause == nil || !strings.Contains(cause.Text, "the cause is throttling") || !strings.Contains(cause.Text, "hw_thermal") {
		t.Errorf("throttling is not named as the cause: %+v", h.Findings)
	} else {
		say(t, "%s", cause.Text)
	}
	return true
}

// Must show 1 and 2: one bad GPU of eight degrades the node and is named, and
// reading all eight costs little.
func TestOneBadGPUOfEight(t *testing.T) {
	s := startSimulator(t, "--ttft", "20ms", "--itl", "5ms")
	share := math.Inf(1)
	best(t, "reading eight GPUs every 100 ms", func() error {
		r, sum, h := node(t, s, nvmltest.Scenario(t, "eight_one_bad"), "--sweep", "4", "--duration", "12s", "--output-len", "16")
		bad, good := "", 0
		for _, g := range h.GPUs {
			switch g.Verdict {
			case assay.Pass:
				good++
			case assay.Fail, assay.Degraded:
				bad = fmt.Sprintf("GPU %d (%s): %s", g.Index, g.Verdict, g.Because)
			}
		}
		if good != 7 || bad == "" || h.Verdict != assay.Degraded || r.exit != 0 {
			return fmt.Errorf("exit %d, %s: %s; %d good, bad %s", r.exit, h.Verdict, h.Because, good, bad)
		}
		if e := sum.Energy; e == nil || e.Disagreement == nil || !(math.Abs(*e.Disagreement) <= 0.02) {
			return fmt.Errorf("energy by counter and by integration: %+v", e)
		}
		if sum.Sampling == nil || sum.Sampling.CPUShare == nil {
			return fmt.Errorf("what reading costs is not said: %+v", sum.Sampling)
		}
		share = *sum.Sampling.CPUShare
		say(t, "%s; reading took %.2f %% of one core; energy differs by %+.2f %%", bad, 100*share, 100**sum.Energy.Disagreement)
		if !(share < room(0.01, 0.015)) {
			return fmt.Errorf("%.2f %% of one core", 100*share)
		}
		return nil
	})
}

func TestAPowerCapIsNormal(t *testing.T) {
	light(t)
	s := startSimulator(t, "--ttft", "20ms", "--itl", "5ms")
	_, sum, h := node(t, s, nvmltest.Scenario(t, "power_cap"), "--sweep", "2", "--duration", "6s", "--output-len", "16")
	if len(h.GPUs) != 1 || h.GPUs[0].Verdict != assay.Pass {
		t.Errorf("verdict %+v, findings %+v", h.GPUs, h.Findings)
	}
	if sum.GPUs[0].Throttled["sw_power_cap"] == 0 {
		t.Errorf("the cap was not seen: %v", sum.GPUs[0].Throttled)
	}
}

// Must show 5.
func TestACounterThatFallsIsRefused(t *testing.T) {
	light(t)
	s := startSimulator(t, "--ttft", "20ms", "--itl", "5ms")
	_, sum, _ := node(t, s, nvmltest.Scenario(t, "energy_backwards", "scale 4"), "--sweep", "2", "--duration", "8s", "--output-len", "16")
	e := sum.GPUs[0].Energy
	if e == nil || e.Refused == "" || e.Joules == nil || e.Integrated == nil || *e.Joules != *e.Integrated {
		t.Fatalf("energy %+v", e)
	}
	say(t, "refused: %s; %.0f J by integration", e.Refused, *e.Joules)
}

// Must show 2: with readings and without, turn by turn in one run.
func TestReadingDoesNotDisturb(t *testing.T) {
	s := startSimulator(t, "--ttft", "50ms", "--itl", "10ms")
	scenario := nvmltest.Scenario(t, "eight_one_bad")
	best(t, "reading eight GPUs", func() error {
		var ms [2]float64
		const rounds = 4
		invalid := 0
		for i := range 2 * rounds {
			on := (i + i/2) % 2 // on off off on on off off on
			interval := "0"
			if on == 1 {
				interval = "100ms"
			}
			_, sum, _ := node(t, s, scenario, "--sweep", "8", "--duration", "4s", "--output-len", "16", "--sample-interval", interval)
			ms[on] += p(sum.Stages[0].TTFT, 50) / rounds
			if sum.Client.Certificate == assay.Invalid {
				invalid++
			}
		}
		say(t, "median TTFT %.3f ms with readings of eight GPUs, %.3f ms without: %+.2f %%; client invalid in %d of %d runs", ms[1], ms[0], 100*(ms[1]/ms[0]-1), invalid, 2*rounds)
		return within("median TTFT with readings, over that without", ms[1]/ms[0], 1, room(0.01, 0.03))
	})
}

// Must show 3, in a run of a minute: a leak of 1 MB and a drift of 5 % in ten
// minutes, both sixty times as fast; and a clean run of the same length.
func TestLeakAndDriftAreFound(t *testing.T) {
	light(t)
	load := []string{"--sweep", "8", "--duration", "70s", "--output-len", "16"}
	// Some 80 requests a second make 60 MB a minute of 12.5 kB each.
	t.Run("found", func(t *testing.T) {
		t.Parallel()
		best(t, "leak and drift", func() error {
			s := startSimulator(t, "--ttft", "20ms", "--itl", "5ms", "--leak", "12500", "--drift", "0.3")
			defer s.stop()
			_, sum, h := node(t, s, nvmltest.Scenario(t, "normal"), load...)
			leak, drift := false, false
			for _, tr := range sum.Trends {
				if tr.Found == assay.Fail {
					say(t, "%s %s: %.3g a minute [%.3g, %.3g]; %s", tr.Kind, tr.Of, tr.Slope.Est, tr.Slope.Lo, tr.Slope.Hi, tr.Why)
					leak = leak || tr.Kind == "leak" && tr.Of == assay.EngineResidentMemory
					drift = drift || tr.Kind == "drift"
				}
			}
			if !leak || !drift || h.Verdict != assay.Degraded && sum.Client.Certificate != assay.Invalid {
				return fmt.Errorf("leak %v, drift %v, verdict %s: %+v", leak, drift, h.Verdict, sum.Trends)
			}
			return nil
		})
	})
	t.Run("clean", func(t *testing.T) {
		t.Parallel()
		best(t, "a clean run", func() error {
			s := startSimulator(t, "--ttft", "20ms", "--itl", "5ms")
			defer s.stop()
			_, sum, _ := node(t, s, nvmltest.Scenario(t, "normal"), load...)
			for _, tr := range sum.Trends {
				if tr.Found == assay.Fail {
					return fmt.Errorf("a false alarm: %+v", tr)
				}
			}
			return nil
		})
	})
}

// Must show 9: an engine that answers while the GPU idles does not run on it;
// one whose GPU works with it is not accused, whatever process ids the driver
// shows.
func TestWhereTheModelRuns(t *testing.T) {
	light(t)
	idle := "gpus 1\ngpu 0 power 62\ngpu 0 utilization 0\ngpu 0 memory_used 900\ngpu 0 sm_clock 345\n"
	s := startSimulator(t, "--ttft", "20ms", "--itl", "5ms")
	r, _, h := node(t, s, nvmltest.Write(t, idle), "--sweep", "4", "--duration", "6s", "--output-len", "16")
	f := finding(h, "check.model.execution")
	if f == nil || f.Verdict != assay.Fail || r.exit != 3 {
		t.Errorf("an engine on the CPU: exit %d, %+v", r.exit, h.Findings)
	} else {
		say(t, "%s", f.Text)
	}
	// Work begins when the idle GPU has been seen for two seconds.
	busy := fmt.Sprintf("gpus 1\nepoch_unix_ms %d\ngpu 0 process 4000123 9000000000\ngpu 0 utilization 0\ngpu 0 power 62\nat 2.6 gpu 0 utilization 0 step\nat 2.7 gpu 0 utilization 96 step\nat 2.6 gpu 0 power 62\nat 3 gpu 0 power 410\n", time.Now().UnixMilli())
	r, _, h = node(t, s, nvmltest.Write(t, busy), "--sweep", "4", "--duration", "8s", "--output-len", "16")
	if f := finding(h, "check.model.execution"); f != nil && f.Verdict > assay.Pass || r.exit != 0 {
		t.Errorf("an honest engine in a container: exit %d, %s, %+v", r.exit, h.Because, f)
	}
}
