package host

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
)

func nodeMachine(t *testing.T, smi ...string) *Machine {
	t.Helper()
	return ReadMachine(t.Context(), MachineOptions{ProcRoot: "testdata/node/proc", SysRoot: "testdata/node/sys", NvidiaSMI: smi})
}

// Each advice comes from a reading, names it, and says what to type.
func TestAdviceFromReadings(t *testing.T) {
	before := nodeMachine(t, "sh", "-c", "cat testdata/nvidia-smi-q.txt")
	after := &Machine{facts: map[string]string{
		"pressure cpu": "3000000", "pressure memory": "1000000", "pressure io": "1200000",
		"pswpin": "110", "pswpout": "200", "oom_kill": "1", "stat": "cpu  1500 0 1000 8400 0 0 0 100 0 0",
	}}
	r := &claims.Result{Started: time.Unix(0, 0), Ended: time.Unix(10, 0), Claims: []claims.ClaimResult{
		{Claim: claims.Claim{Name: "near", Probe: "a/b", Metric: "p50", Target: claims.Target{Op: "<=", Value: 1, Unit: "s"}}, Unit: "s", Verdict: assay.Fail, Measured: assay.Quantity{N: 9, Est: 1.1, Lo: 1.05, Hi: 1.2}},
		{Claim: claims.Claim{Name: "far", Probe: "a/c", Metric: "throughput", Target: claims.Target{Op: ">=", Value: 100, Unit: "1/s"}}, Unit: "1/s", Verdict: assay.Fail, Measured: assay.Quantity{N: 9, Est: 10, Lo: 9, Hi: 11}},
		{Claim: claims.Claim{Name: "kept", Probe: "a/d", Metric: "p50", Target: claims.Target{Op: "<=", Value: 1, Unit: "s"}}, Unit: "s", Verdict: assay.Pass, Measured: assay.Quantity{N: 9, Est: 0.1, Lo: 0.1, Hi: 0.1}},
	}}
	all := before.advise(after, r)
	for _, c := range []struct{ about, kind, evidence, command string }{
		{"far", "bottleneck", "promised >= 100 /s", ""},
		{"cpu", "bottleneck", "held up for 2.0 s of 10.0 s", ""},
		{"swap", "bottleneck", "10 pages swapped in and 0 out", ""},
		{"hypervisor", "bottleneck", "10.0 % of CPU time was stolen", ""},
		{"memory", "hardware", "oom_kill rose by 1", ""},
		{"CPU governor", "tuning", "scaling_governor: performance powersave", "sudo cpupower frequency-set -g performance"},
		{"transparent huge pages", "tuning", "[always]", "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"},
		{"swap", "tuning", "2389 of 8389 MB", "sudo swapoff -a"},
		{"vm.zone_reclaim_mode", "tuning", "= 1", "sudo sysctl -w vm.zone_reclaim_mode=0"},
		{"vm.dirty_ratio", "tuning", "20 of 67 GB", "sudo sysctl -w vm.dirty_ratio=10 vm.dirty_background_ratio=5"},
		{"vm.overcommit_memory", "tuning", "= 2", "sudo sysctl -w vm.overcommit_memory=0"},
		{"kernel.numa_balancing", "tuning", "= 1", "sudo sysctl -w kernel.numa_balancing=0"},
		{"GPU 0 (Example GPU 24GB)", "tuning", "Persistence Mode: Disabled", "sudo nvidia-smi -i 0 -pm 1"},
		{"GPU 0 (Example GPU 24GB)", "tuning", "application clock 1410 MHz, highest 1980 MHz", "sudo nvidia-smi -i 0 -ac 5001,1980"},
		{"GPU 0 (Example GPU 24GB)", "hardware", "HW Thermal Slowdown: Active", ""},
	} {
		found := false
		for _, a := range all {
			if a.About == c.about && a.Kind == c.kind && strings.Contains(strings.Join(a.Evidence, ";"), c.evidence) && a.Command == c.command {
				found = true
			}
		}
		if !found {
			t.Errorf("no advice %+v", c)
		}
	}
	for _, a := range all {
		if len(a.Evidence) == 0 || a.Evidence[0] == "" || a.Text == "" {
			t.Errorf("advice without evidence: %+v", a)
		}
		switch a.About {
		case "memory", "io": // one of memory is the killed process
			if a.Kind == "bottleneck" {
				t.Errorf("pressure below a tenth is no bottleneck: %+v", a)
			}
		case "near", "kept", "vm.swappiness", "vm.max_map_count", "CPU turbo", "GPU 1 (Example GPU 24GB)":
			t.Errorf("advice on what gives no cause: %+v", a)
		}
	}
}

// What could not be read gives no advice, and the info files say so.
func TestAdviceNeedsReadings(t *testing.T) {
	m := ReadMachine(t.Context(), MachineOptions{ProcRoot: t.TempDir(), SysRoot: t.TempDir(), NvidiaSMI: []string{filepath.Join(t.TempDir(), "none")}})
	if all := m.Advice(&claims.Result{Started: time.Unix(0, 0), Ended: time.Unix(9, 0)}); len(all) != 0 {
		t.Errorf("advice from nothing: %+v", all)
	}
	for _, name := range []string{"gpu_info.txt", "cpu_info.txt", "memory_info.txt", "kernel_info.txt", "modules_info.txt"} {
		if text := m.Files()[name]; !strings.HasPrefix(text, "no ") {
			t.Errorf("%s: %q", name, text)
		}
	}
}

func TestHostileSMI(t *testing.T) {
	s := nodeMachine(t, "sh", "-c", "yes 'GPU 1' | head -c 5000000; yes '  a : b' | head -c 5000000")
	if len(s.gpus) > 64 || len(s.texts["gpu_info.txt"]) > maxRead+1000 {
		t.Errorf("%d GPUs, %d bytes", len(s.gpus), len(s.texts["gpu_info.txt"]))
	}
	if s := nodeMachine(t, "sh", "-c", "echo No devices were found; exit 9"); !strings.Contains(s.texts["gpu_info.txt"], "exit status 9") || !strings.Contains(s.texts["gpu_info.txt"], "No devices") {
		t.Errorf("%q", s.texts["gpu_info.txt"])
	}
}

// The counters are read around the run, so that they may grow for longer than it
// took: no work is held up for 13 s of 12.
func TestPressureIsOfTheTimeBetweenTheReadings(t *testing.T) {
	at := func(s int64, us string) *Machine {
		return &Machine{at: time.Unix(s, 0), facts: map[string]string{"pressure cpu": us}}
	}
	r := &claims.Result{Started: time.Unix(1, 0), Ended: time.Unix(13, 0)}
	for _, a := range at(0, "0").advise(at(14, "13000000"), r) {
		if a.About == "cpu" && strings.Contains(a.Evidence[0], "13.0 s of 14.0 s") {
			return
		}
	}
	t.Error("the pressure of 13 s is not set against the 14 s between its readings")
}
