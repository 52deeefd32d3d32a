package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMemoryLimit(t *testing.T) {
	python := pythonPath(t)
	const mb = 1 << 20
	tests := []struct {
		name, script string
		limit        int64
		exceeded     bool
	}{
		{"itself", `b = bytearray(300<<20); import time; time.sleep(20)`, 150 * mb, true},
		{"a daemon of its", `
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        b = bytearray(300<<20)
        time.sleep(20)
    os._exit(0)
os.wait()
time.sleep(20)`, 150 * mb, true},
		{"many small ones together", `
import os, time
for _ in range(4):
    if os.fork() == 0:
        b = bytearray(60<<20)
        time.sleep(20)
time.sleep(20)`, 150 * mb, true},
		// Four processes that show 100 MB each, all of it the same memory.
		{"shared is counted once", `
import os, time
b = bytearray(100<<20)
for _ in range(3):
    if os.fork() == 0:
        sum(b[::4096])
        time.sleep(0.7)
        os._exit(0)
time.sleep(0.7)`, 200 * mb, false},
		{"below", `b = bytearray(50<<20); import time; time.sleep(0.5)`, 150 * mb, false},
	}
	inModes(t, func(t *testing.T, avoid Means) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				r := begin(t, "", Spec{Command: []string{python, "-c", tt.script}, MemoryBytes: tt.limit, Avoid: avoid})
				if r.Isolation().Memory == "" {
					t.Error("nobody keeps the limit")
				}
				e := wait(t, r.Process)
				if e.MemoryExceeded != tt.exceeded || e.Stopped {
					t.Errorf("exit %+v", e)
				}
				if tt.exceeded && (e.PeakRSSBytes <= tt.limit || e.PeakRSSBytes > 2<<30) {
					t.Errorf("peak %d, limit %d", e.PeakRSSBytes, tt.limit)
				}
				if !tt.exceeded && e.PeakRSSBytes < 50*mb {
					t.Errorf("peak %d, used 50 MB and more", e.PeakRSSBytes)
				}
				if !tt.exceeded && e.Code != 0 {
					t.Errorf("exit %+v", e)
				}
				r.nothingLeft(0)
			})
		}
	})
}

func TestEndlessLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	r := begin(t, `echo first; (yes $MARK >&2 &); exec yes $MARK`, Spec{LogFile: file, LogHead: 10_000, LogTail: 20_000, Grace: -1})
	eventually(t, patience, func() error {
		r.log.mu.Lock()
		defer r.log.mu.Unlock()
		if r.log.total < 64<<20 {
			return fmt.Errorf("only %d bytes", r.log.total)
		}
		return nil
	})
	e := r.Stop(soon(t))
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) < 30_000 || len(b) > 30_100 || !bytes.HasPrefix(b, []byte("first\n")) || !bytes.Contains(b, []byte("bytes left out]")) {
		t.Errorf("%d bytes, begin %q", len(b), b[:20])
	}
	if len(e.LogTail) == 0 || len(e.LogTail) > tailInExit || !strings.Contains(e.LogTail, r.mark) {
		t.Errorf("tail of %d bytes", len(e.LogTail))
	}
	r.nothingLeft(0)
}

func TestInputAndOutputAreWhole(t *testing.T) {
	want := bytes.Repeat([]byte("a line of a job\n"), 1<<18) // 4 MB
	inModes(t, func(t *testing.T, avoid Means) {
		var got bytes.Buffer
		r := begin(t, "", Spec{Command: []string{"cat"}, Stdin: bytes.NewReader(want), Stdout: &got, Avoid: avoid})
		if e := wait(t, r.Process); e.Code != 0 || e.OutputErr != nil {
			t.Errorf("exit %+v", e)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%d bytes came back of %d", got.Len(), len(want))
		}
		// Nobody has to read all of the input.
		r = begin(t, "", Spec{Command: []string{"true"}, Stdin: bytes.NewReader(want), Avoid: avoid})
		if e := wait(t, r.Process); e.Code != 0 {
			t.Errorf("exit %+v", e)
		}
	})
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestAFailingWriterDoesNotStopTheProgram(t *testing.T) {
	r := begin(t, `yes | head -c 1000000; exit 5`, Spec{Stdout: full{}})
	if e := wait(t, r.Process); e.Code != 5 || !errors.Is(e.OutputErr, io.ErrShortWrite) {
		t.Errorf("exit %+v", e)
	}
}

func TestTree(t *testing.T) {
	inModes(t, func(t *testing.T, avoid Means) {
		r := begin(t, `sleep $MARK & sleep $MARK & wait`, Spec{Avoid: avoid})
		eventually(t, patience, func() error {
			var sleeps int
			for _, pid := range r.Tree() {
				cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				if bytes.HasPrefix(cmd, []byte("sleep\x00"+r.mark)) {
					sleeps++
				}
			}
			if pids := r.Tree(); len(pids) != 3 || sleeps != 2 {
				return fmt.Errorf("tree %v has %d sleeps", pids, sleeps)
			}
			return nil
		})
		if rss, ok := r.RSS(); !ok || rss < 1<<20 || rss > 1<<27 {
			t.Errorf("RSS %d, %v", rss, ok)
		}
		r.Stop(soon(t))
		if pids := r.Tree(); pids != nil {
			t.Errorf("tree %v after the end", pids)
		}
		if rss, ok := r.RSS(); ok {
			t.Errorf("RSS %d after the end", rss)
		}
	})
}

func TestAwait(t *testing.T) {
	t.Run("ready", func(t *testing.T) {
		r := begin(t, `sleep 0.2; : >"$TMPDIR/up"; exec sleep $MARK`, Spec{})
		err := r.Await(soon(t), func(context.Context) error {
			_, err := os.Stat(filepath.Join(r.tempDir, "up"))
			return err
		}, 10*time.Millisecond)
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("died", func(t *testing.T) {
		r := begin(t, `sleep 0.1; echo "no \033[31mGPU here"; exit 9`, Spec{})
		var died *DiedError
		err := r.Await(soon(t), func(ctx context.Context) error {
			<-ctx.Done() // a check that hangs is cancelled
			return ctx.Err()
		}, time.Millisecond)
		if !errors.As(err, &died) || died.Exit.Code != 9 || !strings.Contains(err.Error(), "GPU here") {
			t.Errorf("%v", err)
		}
		if strings.ContainsRune(err.Error(), '\033') {
			t.Errorf("%q would speak to the terminal", err)
		}
	})
	t.Run("never", func(t *testing.T) {
		r := begin(t, `exec sleep $MARK`, Spec{})
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		sentinel := errors.New("503")
		err := r.Await(ctx, func(context.Context) error { return sentinel }, time.Millisecond)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, sentinel) {
			t.Errorf("%v", err)
		}
	})
}

// victim is a process of ours that starts a tree and is then killed: mode, mark,
// directory.
func victim(args []string) {
	spec := Spec{
		Command:    []string{"sh", "-c", deaf + forks + daemonises + `while :; do sleep 0.05; done`},
		Env:        []string{"MARK=" + args[1], "PATH=" + usualPath},
		Supervisor: []string{os.Args[0], "supervise", args[1]},
		TempIn:     args[2],
	}
	for _, m := range modes {
		if m.name == args[0] {
			spec.Avoid = m.avoid
		}
	}
	p, err := Start(spec)
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	for len(p.Tree()) < 10 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("ready", p.h.cmd.Process.Pid, p.Isolation().Cgroup)
	time.Sleep(time.Minute)
	os.Exit(1)
}

// murder starts a victim and gives its supervisor's process id and its cgroup.
func murder(t *testing.T, mode string) (r *run, kill func(), supervisor int, group string) {
	t.Helper()
	r = &run{t: t, mark: newMark(), temp: t.TempDir()}
	cmd := exec.Command(os.Args[0], "victim", mode, r.mark, r.temp)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var word string
	if n, _ := fmt.Fscanln(out, &word, &supervisor, &group); n < 2 || word != "ready" {
		t.Fatalf("the victim did not start: %s", word)
	}
	r.marked(10)
	return r, func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }, supervisor, group
}

func TestNothingOutlivesUs(t *testing.T) {
	inModes(t, func(t *testing.T, avoid Means) {
		mode := t.Name()[strings.LastIndex(t.Name(), "/")+1:]
		r, kill, _, group := murder(t, mode)
		if (mode == "cgroup") != (group != "") {
			t.Errorf("mode %s, cgroup %q", mode, group)
		}
		kill()
		before := time.Now()
		r.nothingLeft(patience)
		t.Logf("gone after %v", time.Since(before))
		if group != "" {
			eventually(t, patience, func() error {
				if _, err := os.Stat(group); err == nil {
					return errors.New("the cgroup is left")
				}
				return nil
			})
		}
	})
}

// Killed at any moment of a start, too: before the supervisor has its job, while it
// makes the directories, while the program begins.
func TestNothingOutlivesUsAtAnyMoment(t *testing.T) {
	inModes(t, func(t *testing.T, avoid Means) {
		mode := t.Name()[strings.LastIndex(t.Name(), "/")+1:]
		before := cgroupsOfOurs(t)
		for i := range 12 {
			r := &run{t: t, mark: newMark(), temp: t.TempDir()}
			cmd := exec.Command(os.Args[0], "victim", mode, r.mark, r.temp)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(i) * 4 * time.Millisecond)
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			r.nothingLeft(patience)
		}
		if mode == "cgroup" {
			eventually(t, patience, func() error {
				if after := cgroupsOfOurs(t); len(after) > len(before) {
					return fmt.Errorf("cgroups left: %v", after)
				}
				return nil
			})
		}
	})
}

// Both are killed at once. A namespace goes by itself; a cgroup goes with the next
// start. Nothing else is promised, and so nothing is tested of the subreaper.
func TestWhenTheSupervisorIsKilledToo(t *testing.T) {
	inModes(t, func(t *testing.T, avoid Means) {
		mode := t.Name()[strings.LastIndex(t.Name(), "/")+1:]
		if mode == "subreaper" {
			t.Skip("not promised")
		}
		r, kill, supervisor, group := murder(t, mode)
		_ = syscall.Kill(supervisor, syscall.SIGSTOP) // so that it cannot be quicker
		kill()
		_ = syscall.Kill(supervisor, syscall.SIGKILL)
		if mode == "cgroup" {
			time.Sleep(50 * time.Millisecond)
			if len(marked(r.mark)) == 0 {
				t.Error("nothing to sweep: the test shows nothing")
			}
			begin(t, `exit 0`, Spec{}).Wait()
			if _, err := os.Stat(group); err == nil {
				t.Error("the cgroup is left")
			}
		}
		eventually(t, patience, func() error {
			if pids := marked(r.mark); len(pids) > 0 {
				return fmt.Errorf("%v are left", pids)
			}
			return nil
		})
	})
}

func TestTheSupervisorIsKilled(t *testing.T) {
	inModes(t, func(t *testing.T, avoid Means) {
		r := begin(t, deaf+forks+`setsid sh -c 'sleep $MARK & sleep $MARK' & while :; do sleep 0.05; done`, Spec{Avoid: avoid})
		r.has(9)
		if err := r.h.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		e := wait(t, r.Process)
		if e.Lost == "" || e.Code != -1 || e.CPUSeconds != nil {
			t.Errorf("exit %+v", e)
		}
		r.nothingLeft(patience)
	})
}

func TestTheSupervisorIsStopped(t *testing.T) {
	inModes(t, func(t *testing.T, avoid Means) {
		r := begin(t, forks+`exec sleep $MARK`, Spec{Avoid: avoid})
		r.has(7)
		r.h.patience = 200 * time.Millisecond
		_ = r.h.cmd.Process.Signal(unix.SIGSTOP)
		if e := r.Stop(soon(t)); e.Lost == "" {
			t.Errorf("exit %+v", e)
		}
		r.nothingLeft(patience)
	})
}

func TestTheSupervisorIsAskedToEnd(t *testing.T) {
	r := begin(t, `trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done`, Spec{})
	r.says("up")
	_ = r.h.cmd.Process.Signal(unix.SIGTERM)
	if e := wait(t, r.Process); e.Code != 7 || !e.Stopped {
		t.Errorf("exit %+v", e)
	}
}

func TestSuperviseByHand(t *testing.T) {
	cmd := exec.Command(os.Args[0], "supervise")
	out, err := cmd.CombinedOutput()
	var status *exec.ExitError
	if !errors.As(err, &status) || status.ExitCode() != 1 || !strings.Contains(string(out), "for our own use") {
		t.Errorf("%v: %s", err, out)
	}
}

// The same once more as somebody who may do nothing, without what does not depend on
// that.
func TestUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this is the unprivileged run, or nobody could make one")
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("", "proc-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "proc.test")
	if err := errors.Join(os.WriteFile(exe, program, 0o755), os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "tmp"), 0o700),
		os.Chown(filepath.Join(dir, "tmp"), nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.timeout=100s", "-test.skip=Log|Stat|CgroupMemory|FindCgroup|PssLine|Await|Writer|ByHand|Whole|CannotBeStarted"}
	if testing.Verbose() {
		args = append(args, "-test.v")
	}
	cmd := exec.Command(exe, args...)
	cmd.Dir = filepath.Join(dir, "tmp")
	cmd.Env = append(os.Environ(), "TMPDIR="+cmd.Dir, "HOME="+cmd.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as nobody: %v\n%s", err, out)
	} else if testing.Verbose() {
		t.Logf("%s", out)
	}
}
