package host

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/claims/probetest"
)

// hostChildDir tells a test binary that was started again, as another user, where
// it may write.
const hostChildDir = "ASSAY_TEST_HOST_DIR"

// agentStandIn is an agent for tests: a shell that says ready.
var agentStandIn = []string{"/bin/sh", "-c", "echo starting; echo ready; exit 0"}

// plausible is what no machine is faster than that did the probe's work. How slow
// it may be is for the machine to say. The word is what the probe needs to run:
// nothing, a directory on a disk, root, or what not every machine has.
var plausible = map[string]struct {
	low   float64
	needs string
}{
	"memory_tiers/cpu_to_disk_1mb":          {10e-6, "disk"},
	"memory_tiers/cpu_to_disk_10mb":         {100e-6, "disk"},
	"memory_tiers/cpu_to_disk_100mb":        {1e-3, "disk"},
	"memory_tiers/cpu_to_disk_1gb":          {10e-3, "disk"},
	"memory_tiers/page_fault_minor":         {50e-9, "nothing"},
	"memory_tiers/page_fault_major":         {500e-9, "disk"},
	"memory_tiers/pressure_sequential":      {0.1e-9, "nothing"},
	"memory_tiers/pressure_random":          {0.5e-9, "nothing"},
	"memory_tiers/pressure_disk_sequential": {1e-6, "disk"},
	"memory_tiers/pressure_disk_random":     {1e-6, "disk"},
	"spawn/process":                         {50e-6, "nothing"},
	"spawn/namespaces":                      {100e-6, "root"},
	"spawn/agent":                           {50e-6, "nothing"},
	"spawn/container_runc":                  {1e-3, "more"},
	"spawn/container_crun":                  {1e-3, "more"},
	"spawn/container_podman":                {1e-3, "more"},
	"spawn/container_docker":                {1e-3, "more"},
	"kernel/syscall":                        {10e-9, "nothing"},
	"kernel/syscall_with_module":            {10e-9, "more"},
	"kernel/namespace_create":               {1e-6, "root"},
	"kernel/namespace_enter":                {500e-9, "root"},
	"kernel/namespace_exit":                 {500e-9, "root"},
}

// takeSamples starts a probe, takes n samples and closes it. No sample can have
// taken longer than the call that took it: a wrong unit or batch shows here.
func takeSamples(t *testing.T, p claims.Probe, env claims.Env, n int) ([]claims.Measurement, error) {
	t.Helper()
	r, err := p.Start(t.Context(), env)
	if err != nil {
		return nil, err
	}
	var ms []claims.Measurement
	for range n {
		var m claims.Measurement
		start := time.Now()
		if m, err = r.Sample(t.Context()); err != nil {
			break
		}
		if call, said := time.Since(start).Seconds(), m.Value*float64(max(1, m.Batch)); !(said > 0 && said <= call) {
			t.Errorf("%s: %g s in a call of %g s", p.Name, said, call)
		}
		ms = append(ms, m)
	}
	if cerr := r.Close(); cerr != nil {
		t.Errorf("close: %v", cerr)
	}
	return ms, err
}

func hostProbeNamed(t *testing.T, name string) claims.Probe {
	t.Helper()
	for _, p := range Probes() {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("there is no probe %s", name)
	return claims.Probe{}
}

// checkHostProbes runs every probe; each gives plausible samples or says why not.
func checkHostProbes(t *testing.T, dir string) {
	env := claims.Env{Dir: dir, Agent: agentStandIn, Seed: 1}
	probes := Probes()
	if len(probes) != len(plausible) {
		t.Errorf("%d probes, and bounds for %d", len(probes), len(plausible))
	}
	for _, p := range probes {
		t.Run(p.Name, func(t *testing.T) {
			n := 20
			switch {
			case strings.HasSuffix(p.Name, "_1gb"):
				if testing.Short() || os.Getenv(hostChildDir) != "" {
					t.Skip("a gigabyte is not short, and needs no other right than a megabyte")
				}
				n = 1
			case strings.HasSuffix(p.Name, "_100mb"), strings.Contains(p.Name, "container"):
				n = 3
			}
			bounds := plausible[p.Name]
			before := ownState(t)
			ms, err := takeSamples(t, p, env, n)
			if after := ownState(t); !maps.Equal(before, after) {
				t.Errorf("something was left:\nbefore %v\nafter  %v", before, after)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("the directory still holds %v", left)
			}
			if err != nil {
				reason, ok := strings.CutPrefix(err.Error(), claims.ErrUnavailable.Error()+": ")
				if !errors.Is(err, claims.ErrUnavailable) || !ok || strings.TrimSpace(reason) == "" {
					t.Fatalf("neither samples nor a reason: %v", err)
				}
				if here := map[string]bool{"nothing": true, "disk": onDisk(t, dir), "root": os.Getuid() == 0}; here[bounds.needs] {
					t.Fatalf("what it needs (%s) is here, and it is %v", bounds.needs, err)
				}
				t.Log(err)
				return
			}
			t.Logf("%.3g %s, %v", ms[n-1].Value, p.Unit, ms[n-1].Extra)
			for _, m := range ms {
				if !(m.Value >= bounds.low) {
					t.Errorf("%g %s is less than %g", m.Value, p.Unit, bounds.low)
				}
				if clock := m.Extra["clock_s"]; !(clock > 0 && clock < 1e-4) {
					t.Errorf("the clock costs %g s", clock)
				} else if total := m.Value * float64(max(1, m.Batch)); total < clock {
					t.Errorf("%g s were timed by a clock that takes %g s", total, clock)
				}
			}
		})
	}
}

// onDisk reports whether a directory is on a file system of which we know that it
// has O_DIRECT and a page cache that can be dropped, with room for the largest.
func onDisk(t *testing.T, dir string) bool {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	known := fs.Type == unix.EXT4_SUPER_MAGIC || fs.Type == unix.XFS_SUPER_MAGIC || fs.Type == unix.BTRFS_SUPER_MAGIC
	return known && fs.Bavail*uint64(fs.Bsize) > 4<<30
}

// ownState is what a probe could leave changed in this process: descriptors,
// namespaces of its threads, children.
func ownState(t *testing.T) map[string]int {
	t.Helper()
	state := map[string]int{}
	for range 100 { // a thread that ends and a pipe that closes take a moment
		state = map[string]int{}
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		state["descriptors"] = len(fds)
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			for _, ns := range []string{"mnt", "net", "uts", "ipc", "user"} {
				if link, err := os.Readlink("/proc/self/task/" + task.Name() + "/ns/" + ns); err == nil {
					state[link] = 1
				}
			}
		}
		if len(state) == 6 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); !errors.Is(err, unix.ECHILD) {
		state["children"] = 1
	}
	return state
}

func TestHostProbes(t *testing.T) {
	ownState(t)
	checkHostProbes(t, t.TempDir())
}

// An unprivileged user gets samples or reasons, too.
func TestHostProbesUnprivileged(t *testing.T) {
	if dir := os.Getenv(hostChildDir); dir != "" {
		if os.Getuid() == 0 {
			t.Fatal("the child is root")
		}
		checkHostProbes(t, dir)
		checkReadOnly(t, filepath.Dir(dir))
		return
	}
	if os.Getuid() != 0 {
		t.Skip("we are unprivileged already: TestHostProbes was it")
	}
	out, err := asNobody(t, "TestHostProbesUnprivileged")
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kernel/namespace_create", "kernel/syscall_with_module"} {
		if !strings.Contains(out, "--- PASS: TestHostProbesUnprivileged/"+name) {
			t.Errorf("%s was not run", name)
		}
	}
	if !strings.Contains(out, "need root (CAP_SYS_ADMIN)") {
		t.Error("nobody may make namespaces for a thread, and no reason was given")
	}
}

// checkReadOnly checks that the probes that write give a reason where they may not.
func checkReadOnly(t *testing.T, dir string) {
	for _, name := range []string{"memory_tiers/cpu_to_disk_1mb", "memory_tiers/page_fault_major"} {
		_, err := takeSamples(t, hostProbeNamed(t, name), claims.Env{Dir: dir}, 1)
		if !errors.Is(err, claims.ErrUnavailable) || !errors.Is(err, os.ErrPermission) {
			t.Errorf("%s in a directory that may not be written: %v", name, err)
		}
	}
}

// asNobody runs one test of this binary again as an unprivileged user, who can
// reach neither the binary nor our temporary directories where they are.
func asNobody(t *testing.T, test string) (string, error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "assay-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	const nobody = 65534
	binary, write := filepath.Join(dir, "claims.test"), filepath.Join(dir, "write")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(write, 0o755), os.Chown(write, nobody, nobody), copyProgram("/proc/self/exe", binary)); err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.run=^" + test + "$", "-test.v", "-test.timeout=5m"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), hostChildDir+"="+write, "TMPDIR="+write, "HOME="+write)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func TestHostProbesAreDescribed(t *testing.T) { probetest.Described(t, Probes()) }
