package host

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/claims"
)

// No module is loaded that was not named, that is there already, or that is no
// module's name; nothing of this runs modprobe.
func TestModuleIsRefused(t *testing.T) {
	proc := t.TempDir()
	write(t, filepath.Join(proc, "modules"), "swarm_guard 16384 0 - Live 0x0\nother 1 0 - Live 0x0\n")
	bin := t.TempDir()
	write(t, filepath.Join(bin, "modprobe"), "#!/bin/sh\ntouch "+filepath.Join(bin, "called")+"\n")
	if err := os.Chmod(filepath.Join(bin, "modprobe"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":/bin:/usr/bin")
	for _, c := range []struct{ module, proc, reason string }{
		{"", proc, "no module was named"},
		{"swarm_guard", proc, "loaded already"},
		{"swarm-guard", proc, "loaded already"},
		{"/lib/modules/x/swarm_guard.ko", proc, "loaded already"},
		{"--remove", proc, "neither"},
		{"../x.ko", proc, "neither"},
		{"a b", proc, "neither"},
		{"fresh", t.TempDir(), "takes no modules"},
	} {
		_, err := takeSamples(t, hostProbeNamed(t, "kernel/syscall_with_module"), claims.Env{Module: c.module, ProcRoot: c.proc}, 1)
		if !errors.Is(err, claims.ErrUnavailable) || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%q: %v does not say %q", c.module, err, c.reason)
		}
	}
	if _, err := os.Stat(filepath.Join(bin, "called")); err == nil {
		t.Error("modprobe was run")
	}
}

// A module that is named and fresh is loaded once and unloaded once. The kernel's
// part is played by a script: no test changes the kernel.
func TestModuleIsLoadedAndUnloaded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may load a module")
	}
	proc, bin := t.TempDir(), t.TempDir()
	write(t, filepath.Join(proc, "modules"), "other 1 0 - Live 0x0\n")
	log := filepath.Join(bin, "log")
	write(t, filepath.Join(bin, "modprobe"), "#!/bin/sh\necho \"$@\" >> "+log+"\n")
	if err := os.Chmod(filepath.Join(bin, "modprobe"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":/bin:/usr/bin")
	ms, err := takeSamples(t, hostProbeNamed(t, "kernel/syscall_with_module"), claims.Env{Module: "fresh", ProcRoot: proc}, 3)
	if err != nil {
		t.Fatal(err)
	}
	if e := ms[0].Extra; !(e["without_s"] > 0) || !(e["with_to_without"] > 0) || ms[0].Batch != syscallBatch {
		t.Errorf("%+v", ms[0])
	}
	if text, _ := os.ReadFile(log); string(text) != "fresh\n--remove fresh\n" {
		t.Errorf("modprobe was called with %q", text)
	}
}

// The process's first thread, which /proc/self shows, never leaves its namespaces,
// also when the goroutine that asks runs on it.
func TestNamespacesLeaveTheFirstThreadAlone(t *testing.T) {
	before, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		h, err := newHolder(claims.Env{})
		if errors.Is(err, claims.ErrUnavailable) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		var tid int
		if err := h.do(func() error {
			tid = unix.Gettid()
			return errors.Join(h.create(), h.outside())
		}); err != nil {
			t.Fatal(err)
		}
		if now, _ := os.Readlink("/proc/self/ns/net"); now != before {
			t.Fatalf("the first thread went to %s", now)
		}
		if tid == unix.Getpid() {
			t.Fatal("the first thread was taken")
		}
		if err := h.close(); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
}

// Each sample begins and ends at home, so that the next one enters and does not stay.
func TestNamespaceSampleComesHome(t *testing.T) {
	h, err := newHolder(claims.Env{})
	if errors.Is(err, claims.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := h.runner(nothing, h.create, h.outside, nothing, 0)
	defer r.Close()
	if _, err := r.Sample(t.Context()); err != nil {
		t.Error(err)
	}
	if err := h.do(func() error { return h.within(h.first) }); err != nil {
		t.Error(err)
	}
}

// What checks the namespaces can fail.
func TestNamespaceChecks(t *testing.T) {
	h, err := newHolder(claims.Env{})
	if errors.Is(err, claims.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	if err := h.do(h.outside); !errors.Is(err, claims.ErrWrong) {
		t.Errorf("at home, and outside says %v", err)
	}
	err = h.do(func() error {
		if err := h.create(); err != nil {
			return err
		}
		return h.within(h.first)
	})
	if !errors.Is(err, claims.ErrWrong) {
		t.Errorf("away, and within says %v", err)
	}
}
