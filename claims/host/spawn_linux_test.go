package host

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/parttest"
)

// A program that exits and does nothing else is one that runs.
func TestExitProgramRuns(t *testing.T) {
	b, err := exitProgram()
	if err != nil {
		t.Skip(err)
	}
	if _, err := elf.NewFile(bytes.NewReader(b)); err != nil {
		t.Error(err)
	}
	file := filepath.Join(t.TempDir(), "exit")
	parttest.Program(t, file, b)
	if out, err := exec.Command(file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v, %q", err, out)
	}
}

func TestAgentProbe(t *testing.T) {
	const enough, tooLong = time.Minute, 300 * time.Millisecond
	for _, c := range []struct {
		name, script, err string
		deadline          time.Duration
	}{
		{"ready", "echo ready", "", enough},
		{"ready after words", "echo one; echo two; echo ready; echo more", "", enough},
		{"slow to end", "echo ready; sleep 0.3", "", enough},
		{"never says so", "echo almost ready; echo why >&2", "never printed", enough},
		{"hangs before", "sleep 1000", "did not get ready", tooLong},
		{"hangs after", "echo ready; sleep 1000", "did not get ready", tooLong},
		{"fails after", "echo ready; exit 7", "exit status 7", enough},
		{"floods", "yes", "never printed", enough},
		{"floods after", "echo ready; yes | head -c 1000000", "", enough},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := ownState(t)
			env := claims.Env{Agent: []string{"/bin/sh", "-c", c.script}, Deadline: c.deadline}
			ms, err := takeSamples(t, hostProbeNamed(t, "spawn/agent"), env, 1)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%v does not say %q", err, c.err)
			}
			if c.name == "slow to end" && err == nil && (ms[0].Value >= ms[0].Extra["whole_s"] || ms[0].Extra["whole_s"] < 0.3) {
				t.Errorf("%+v", ms[0])
			}
			if after := ownState(t); after["children"] != before["children"] || after["descriptors"] != before["descriptors"] {
				t.Errorf("left: %v, before %v", after, before)
			}
		})
	}
	if _, err := hostProbeNamed(t, "spawn/agent").Start(t.Context(), claims.Env{}); !errors.Is(err, claims.ErrUnavailable) {
		t.Errorf("no agent: %v", err)
	}
}

// A process that does not end is ended, and reaped, when its time is over.
func TestChildIsEndedWithItsContext(t *testing.T) {
	pid, err := syscall.ForkExec("/bin/sleep", []string{"sleep", "1000"}, &syscall.ProcAttr{})
	if err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	status, err := (&spawned{pid: pid}).reap(ctx)
	if err := ended(ctx, "sleep", status, err); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", pid, err)
	}
}

// A process in namespaces that are ours would be noticed.
func TestIsConfinedNoticesOurNamespaces(t *testing.T) {
	if err := isConfined(claims.Env{}, os.Getpid()); !errors.Is(err, claims.ErrWrong) {
		t.Errorf("%v", err)
	}
}

// The runtimes are judged by what they do: one that is no runtime is unavailable,
// and what was made for it is gone.
func TestContainerRuntimesSayWhyNot(t *testing.T) {
	for _, c := range []struct {
		script, reason string
		deadline       time.Duration
	}{
		{"exit 1", "--version", time.Minute},
		{`[ "$1" = --version ] || { echo no rights >&2; exit 1; }`, "no rights", time.Minute},
		{`[ "$1" = --version ] || sleep 1000`, "deadline exceeded", 300 * time.Millisecond},
	} {
		for _, name := range []string{"runc", "crun", "podman", "docker"} {
			t.Run(name, func(t *testing.T) {
				bin, dir := t.TempDir(), t.TempDir()
				parttest.Program(t, filepath.Join(bin, name), []byte("#!/bin/sh\n"+c.script+"\n"))
				t.Setenv("PATH", bin+":/bin:/usr/bin")
				_, err := takeSamples(t, hostProbeNamed(t, "spawn/container_"+name), claims.Env{Dir: dir, Deadline: c.deadline}, 1)
				if !errors.Is(err, claims.ErrUnavailable) || !strings.Contains(err.Error(), c.reason) {
					t.Errorf("%v does not say %q", err, c.reason)
				}
				if left, _ := os.ReadDir(dir); len(left) > 0 {
					t.Errorf("the directory still holds %v", left)
				}
			})
		}
	}
}

// Containers are asked for with one CPU and 128 MiB, where the engine can give that.
func TestContainersAreLimited(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"docker", "podman"} {
		parttest.Program(t, filepath.Join(dir, name), []byte("#!/bin/sh\necho \"$@\" >> "+filepath.Join(dir, "asked")+"\n"))
	}
	for name, start := range map[string]func(*container) error{
		"docker": func(c *container) error { return c.docker(t.Context(), filepath.Join(dir, "docker")) },
		"podman": func(c *container) error {
			return c.bundled(claims.Env{Dir: t.TempDir()}, "podman", filepath.Join(dir, "podman"))
		},
	} {
		c := &container{deadline: time.Minute}
		if err := start(c); err != nil {
			t.Fatal(err)
		}
		line := strings.Join(c.run("id"), " ")
		if limited := strings.Contains(line, "--memory=128m --cpus=1"); limited != (name == "docker" || os.Getuid() == 0) {
			t.Errorf("%s: %s", name, line)
		}
	}
	var described struct {
		Linux struct {
			Resources struct {
				Memory struct{ Limit int }
				CPU    struct{ Quota, Period int }
			}
		}
	}
	if err := json.Unmarshal(bundle(), &described); err != nil {
		t.Fatal(err)
	}
	if r := described.Linux.Resources; os.Getuid() == 0 && (r.Memory.Limit != 128<<20 || r.CPU.Quota == 0 || r.CPU.Quota != r.CPU.Period) {
		t.Errorf("%+v", r)
	}
}
