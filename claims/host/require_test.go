package host

import (
	"strings"
	"testing"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/claims"
)

// What the single-node suite asks for, on a machine that has it, on one that has
// less, and on one of which nothing can be read.
func TestPrerequisitesOfTheMachine(t *testing.T) {
	asked := claims.Requirements{CPUs: 2, Memory: 64e9, GPUMemory: 24e9, Disk: 1, Kernel: "6.14", CUDA: "12", Modules: []string{"swarm_guard"}, Programs: []string{"sh"}}
	more := claims.Requirements{CPUs: 16, Memory: 128e9, GPUMemory: 80e9, Disk: 1e18, Kernel: "7.0", CUDA: "13", Modules: []string{"tier_watch"}, Programs: []string{"no-such-program-here"}}
	gpus := nodeMachine(t, "sh", "-c", "cat testdata/nvidia-smi-q.txt")
	nothing := ReadMachine(t.Context(), MachineOptions{ProcRoot: t.TempDir(), SysRoot: t.TempDir(), NvidiaSMI: []string{"sh", "-c", "exit 9"}})
	dir := t.TempDir()
	for _, p := range gpus.Check(asked, dir) {
		if p.Verdict != assay.Pass || p.Have == "" || p.Missing() != "" {
			t.Errorf("should be there: %+v", p)
		}
	}
	lacks := gpus.Check(more, dir)
	for i, want := range []string{"CPUs: wanted at least 16, and there is 2", "memory: wanted at least 128 GB, and there is 68.7 GB", "disk: wanted at least 1000000 TB, and there is",
		"kernel: wanted at least 7.0, and there is 6.14.0 (install a newer kernel)", "CUDA: wanted at least 13, and there is 12.8 (install NVIDIA's driver",
		"GPU memory: wanted at least 80.0 GB, and there is 25.8 GB", "kernel module tier_watch: wanted loaded, and there is none of this name (sudo modprobe tier_watch)",
		"program no-such-program-here: wanted in PATH, and there is none (install it)"} {
		if got := lacks[i].Missing(); lacks[i].Verdict != assay.Fail || !strings.HasPrefix(got, want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	unknown := nothing.Check(asked, "/absent/directory")
	for i, p := range unknown[:6] {
		if p.Verdict != assay.Unknown || !strings.Contains(p.Missing(), "not known: ") || p.Have == "" {
			t.Errorf("%d: should not be known: %+v", i, p)
		}
	}
	if len(nothing.Check(claims.Requirements{}, dir)) != 0 {
		t.Error("something was checked that nobody asked for")
	}
}
