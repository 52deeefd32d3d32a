package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/internal/parttest"
)

// The test binary is supervisor and victim as well: it is started again with one
// of these words as its first argument.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "supervise":
			// Not os.Exit, which waits for a second under the race detector.
			syscall.Exit(Supervise())
		case "victim":
			victim(os.Args[2:])
		case "raise":
			serveRaise(os.Args[2])
			syscall.Exit(0)
		}
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// need skips a test where the machine lacks a part, but not in CI, where it has
// been installed.
func need(t *testing.T, ok bool, what string) {
	t.Helper()
	if !ok {
		parttest.Need(t, "missing: "+what)
	}
}

// modes are the three ways to hold a tree.
var modes = []struct {
	name  string
	avoid Means
	got   func(Isolation) bool
}{
	{"cgroup", 0, func(i Isolation) bool { return i.Cgroup != "" && !i.PIDNamespace }},
	{"namespace", Cgroup, func(i Isolation) bool { return i.Cgroup == "" && i.PIDNamespace }},
	{"subreaper", Cgroup | PIDNamespace, func(i Isolation) bool { return i.Cgroup == "" && !i.PIDNamespace && i.Subreaper }},
}

// run is one tree under test. Its processes carry a number that nobody else has:
// `sleep $MARK` is found by its arguments also when its environment is empty.
type run struct {
	t    *testing.T
	mark string
	temp string
	*Process
}

func newMark() string { return strconv.Itoa(300_000_000 + rand.IntN(600_000_000)) }

// begin starts a shell script or, where command is given, a command.
func begin(t *testing.T, script string, spec Spec) *run {
	t.Helper()
	r := &run{t: t, mark: newMark(), temp: t.TempDir()}
	if spec.Command == nil {
		spec.Command = []string{"sh", "-c", script}
	}
	spec.Env = append(spec.Env, "MARK="+r.mark, "PATH="+usualPath)
	spec.Supervisor = []string{os.Args[0], "supervise", r.mark}
	spec.TempIn = r.temp
	p, err := Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	r.Process = p
	t.Cleanup(func() {
		p.h.kill()
		p.Wait()
		r.nothingLeft(0)
	})
	return r
}

// probed is what each mode gives on this machine.
var probed = sync.OnceValues(func() (map[string]Isolation, error) {
	all := map[string]Isolation{}
	for _, m := range modes {
		p, err := Start(Spec{Command: []string{"true"}, Supervisor: []string{os.Args[0], "supervise"}, Avoid: m.avoid})
		if err != nil {
			return nil, err
		}
		p.Wait()
		all[m.name] = p.Isolation()
	}
	return all, nil
})

func inModes(t *testing.T, f func(t *testing.T, avoid Means)) {
	have, err := probed()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if got := have[m.name]; !m.got(got) {
				if m.name == "cgroup" && os.Geteuid() != 0 {
					t.Skip("only root has a cgroup to write here: ", got)
				}
				need(t, false, m.name+": "+got.String())
			}
			f(t, m.avoid)
		})
	}
}

// marked are living processes that carry a mark, supervisors included.
func marked(mark string) []int {
	var pids []int
	for _, pid := range PIDs(procRoot) {
		cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if e, ok := readEntry(pid); ok && !e.dead() && pid != os.Getpid() &&
			(bytes.Contains(cmd, []byte(mark)) || bytes.Contains(env, []byte(mark))) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// nothingLeft checks processes, temporary directory and cgroup.
func (r *run) nothingLeft(within time.Duration) {
	r.t.Helper()
	eventually(r.t, within, func() error {
		if pids := marked(r.mark); len(pids) > 0 {
			return fmt.Errorf("processes %v are left", pids)
		}
		if left, _ := filepath.Glob(filepath.Join(r.temp, "*")); len(left) > 0 {
			return fmt.Errorf("%v are left", left)
		}
		if r.Process == nil || r.Isolation().Cgroup == "" {
			return nil
		}
		if _, err := os.Stat(r.Isolation().Cgroup); !os.IsNotExist(err) {
			return fmt.Errorf("the cgroup is left: %v", err)
		}
		return nil
	})
}

func eventually(t *testing.T, within time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// has waits until n processes of the tree itself run, with the shell.
func (r *run) has(n int) {
	r.t.Helper()
	eventually(r.t, patience, func() error {
		if pids := r.Tree(); len(pids) < n {
			return fmt.Errorf("the tree is %v, want %d processes", pids, n)
		}
		return nil
	})
}

// marked waits until n processes carry the run's mark: else the test would not see
// what is left.
func (r *run) marked(n int) {
	r.t.Helper()
	eventually(r.t, patience, func() error {
		if pids := marked(r.mark); len(pids) < n {
			return fmt.Errorf("%d marked processes, want %d", len(pids), n)
		}
		return nil
	})
}

func wait(t *testing.T, p *Process) Exit {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatalf("does not end; tree: %v", p.Tree())
	}
	return p.Wait()
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

const (
	forks = `for i in 1 2 3; do (sleep $MARK & sleep $MARK) & done; `
	// A daemon as in the book: new session, second fork, no environment left.
	daemonises = `setsid env -i setsid sh -c "sleep $MARK & sleep $MARK & exit 0" & `
	deaf       = `trap '' TERM INT HUP; `
)

func TestNothingOutlivesTheProgram(t *testing.T) {
	scripts := []struct {
		name, script string
		tree         int
	}{
		{"forks", forks, 7},
		{"daemonises", daemonises, 3},
		{"both, deaf", deaf + forks + daemonises, 9},
	}
	inModes(t, func(t *testing.T, avoid Means) {
		for _, s := range scripts {
			t.Run(s.name, func(t *testing.T) {
				seen := filepath.Join(t.TempDir(), "seen") // then it may end
				r := begin(t, s.script+`until [ -e "$SEEN" ]; do sleep 0.05; done; exit 3`, Spec{Avoid: avoid, Env: []string{"SEEN=" + seen}})
				r.has(s.tree)
				r.marked(s.tree)
				if err := os.WriteFile(seen, nil, 0o644); err != nil {
					t.Fatal(err)
				}
				if e := wait(t, r.Process); e.Code != 3 || e.Signal != "" || e.Stopped || len(e.Left) > 0 {
					t.Errorf("exit %+v", e)
				}
				r.nothingLeft(0)
			})
		}
	})
}

func TestStop(t *testing.T) {
	// Only who does not listen has a grace that it can miss.
	tests := []struct {
		name, script string
		grace        time.Duration
		want         Exit
		min          time.Duration
	}{
		{"listens", `trap 'exit 7' TERM; ` + forks + `echo up; while :; do sleep 0.05; done`, patience, Exit{Code: 7}, 0},
		{"default action", `echo up; exec sleep $MARK`, patience, Exit{Code: -1, Signal: "SIGTERM"}, 0},
		{"deaf", deaf + forks + daemonises + `echo up; while :; do sleep 0.05; done`, 300 * time.Millisecond, Exit{Code: -1, Signal: "SIGKILL"}, 300 * time.Millisecond},
		{"no grace", `trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done`, -1, Exit{Code: -1, Signal: "SIGKILL"}, 0},
	}
	inModes(t, func(t *testing.T, avoid Means) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				r := begin(t, tt.script, Spec{Avoid: avoid, Grace: tt.grace})
				r.says("up")
				before := time.Now()
				e := r.Stop(soon(t))
				took := time.Since(before)
				if e.Code != tt.want.Code || e.Signal != tt.want.Signal || !e.Stopped {
					t.Errorf("exit %+v, want %+v", e, tt.want)
				}
				if took < tt.min {
					t.Errorf("took %v, want at least %v", took, tt.min)
				}
				r.nothingLeft(0)
				if again := r.Stop(soon(t)); again.Code != e.Code {
					t.Errorf("stopped again: %+v", again)
				}
			})
		}
	})
}

// says waits for a text in the log.
func (r *run) says(text string) {
	r.t.Helper()
	eventually(r.t, patience, func() error {
		if !strings.Contains(r.log.tail(), text) {
			return fmt.Errorf("the log does not say %q but %q", text, r.log.tail())
		}
		return nil
	})
}

func TestStopInAHurry(t *testing.T) {
	r := begin(t, deaf+`echo up; while :; do sleep 0.05; done`, Spec{Grace: time.Hour})
	r.says("up")
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if e := r.Stop(ctx); e.Signal != "SIGKILL" || !e.Stopped {
		t.Errorf("exit %+v", e)
	}
	r.nothingLeft(0)
}

// The hardest to catch: it is never there for longer than a moment, and always in
// a session of its own.
func TestAMovingTarget(t *testing.T) {
	python := pythonPath(t)
	const hydra = `
import os, time
print("up", flush=True)
if os.fork():
    time.sleep(1000)
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.0005)
`
	inModes(t, func(t *testing.T, avoid Means) {
		r := begin(t, "", Spec{Command: []string{python, "-c", hydra}, Avoid: avoid, Grace: -1})
		r.says("up")
		time.Sleep(100 * time.Millisecond)
		before := time.Now()
		e := r.Stop(soon(t))
		if len(e.Left) > 0 {
			t.Errorf("exit %+v", e)
		}
		t.Logf("caught in %v", time.Since(before))
		r.nothingLeft(0)
	})
}

func pythonPath(t *testing.T) string {
	path, err := Spec{Command: []string{"python3"}}.Program()
	need(t, err == nil, "python3")
	return path
}

func TestHowItEnded(t *testing.T) {
	inModes(t, func(t *testing.T, avoid Means) {
		for script, want := range map[string]Exit{
			`exit 0`:            {Code: 0},
			`exit 42`:           {Code: 42},
			`kill -SEGV $$`:     {Code: -1, Signal: "SIGSEGV"},
			`kill -KILL $$`:     {Code: -1, Signal: "SIGKILL"},
			`echo last; exit 1`: {Code: 1, LogTail: "last"},
		} {
			dir := t.TempDir()
			r := begin(t, script, Spec{Avoid: avoid, Dir: dir})
			e := wait(t, r.Process)
			if e.Code != want.Code || e.Signal != want.Signal || e.Stopped || e.MemoryExceeded || e.Lost != "" || e.OutputErr != nil {
				t.Errorf("%s: exit %+v, want %+v", script, e, want)
			}
			if !strings.HasPrefix(e.LogTail, want.LogTail) {
				t.Errorf("%s: log ends %q", script, e.LogTail)
			}
			if e.CPUSeconds == nil || *e.CPUSeconds > 5 {
				t.Errorf("%s: processor time %v", script, e.CPUSeconds)
			}
			if files, _ := os.ReadDir(dir); len(files) > 0 {
				t.Errorf("%s: left %v", script, files)
			}
			r.nothingLeft(0)
		}
	})
}

func TestProcessorTimeOfTheTree(t *testing.T) {
	inModes(t, func(t *testing.T, avoid Means) {
		// The work is done by a grandchild whose parent does not wait for it, and
		// which says what it took. It ends, and is reaped, before the program.
		r := begin(t, `mkfifo $TMPDIR/done
(sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; times; echo $$ >$TMPDIR/done' &)
read pid <$TMPDIR/done; while kill -0 $pid 2>/dev/null; do sleep 0.01; done`, Spec{Avoid: avoid})
		e := wait(t, r.Process)
		var minutes, own float64
		if _, err := fmt.Sscanf(r.log.tail(), "%fm%fs", &minutes, &own); err != nil || own == 0 {
			t.Fatalf("it says %q, %v", r.log.tail(), err)
		}
		own += 60 * minutes
		// A kernel may count by ticks of a hundredth of a second.
		if e.CPUSeconds == nil || !(*e.CPUSeconds >= own-0.02 && *e.CPUSeconds <= 2*own+2) {
			t.Errorf("processor time %v, and the grandchild alone says %g s", value(e.CPUSeconds), own)
		}
	})
}

func value(p *float64) any {
	if p == nil {
		return "unknown"
	}
	return *p
}

func TestWhatCannotBeStarted(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	super := []string{os.Args[0], "supervise"}
	tests := []struct {
		name string
		spec Spec
		is   error
		says string
	}{
		{"no command", Spec{Supervisor: super}, nil, "no command"},
		{"no such name", Spec{Command: []string{"no-such-engine"}, Supervisor: super}, exec.ErrNotFound, "no-such-engine"},
		{"no such file", Spec{Command: []string{"./no-such-engine"}, Supervisor: super}, os.ErrNotExist, "no-such-engine"},
		{"not in the given PATH", Spec{Command: []string{"sh"}, Env: []string{"PATH=" + dir}, Supervisor: super}, exec.ErrNotFound, dir},
		{"not executable", Spec{Command: []string{file("plain", "text", 0o644)}, Supervisor: super}, os.ErrPermission, "plain"},
		{"a directory", Spec{Command: []string{dir}, Supervisor: super}, os.ErrPermission, dir},
		{"not a program", Spec{Command: []string{file("bad", "\x00\x01", 0o755)}, Supervisor: super}, syscall.ENOEXEC, "exec format"},
		{"no interpreter", Spec{Command: []string{file("orphan", "#!/no/such/shell\n", 0o755)}, Supervisor: super}, os.ErrNotExist, "orphan"},
		{"no such directory", Spec{Command: []string{"true"}, Dir: filepath.Join(dir, "gone"), Supervisor: super}, os.ErrNotExist, "true"},
		{"no such processor", Spec{Command: []string{"true"}, CPUs: []int{0, 1000}, Supervisor: super}, nil, "CPU 1000 is not ours"},
		{"no supervisor", Spec{Command: []string{"true"}}, ErrSupervisor, "empty"},
		{"supervisor not found", Spec{Command: []string{"true"}, Supervisor: []string{"/no/such/assay"}}, ErrSupervisor, "no such file"},
		{"supervisor is something else", Spec{Command: []string{"true"}, Supervisor: []string{"/bin/sh", "-c", "echo what >&2"}}, ErrSupervisor, "what"},
		{"no place for temporary files", Spec{Command: []string{"true"}, TempIn: filepath.Join(dir, "gone"), Supervisor: super}, os.ErrNotExist, "temporary"},
		{"no place for the log", Spec{Command: []string{"true"}, LogFile: filepath.Join(dir, "gone", "log"), Supervisor: super}, os.ErrNotExist, "log"},
	}
	for _, tt := range tests {
		for _, m := range modes {
			t.Run(tt.name+"/"+m.name, func(t *testing.T) {
				before := cgroupsOfOurs(t)
				spec := tt.spec
				spec.Avoid = m.avoid
				if spec.TempIn == "" {
					spec.TempIn = t.TempDir()
				}
				p, err := Start(spec)
				if err == nil {
					p.Stop(soon(t))
					t.Fatal("started")
				}
				if tt.is != nil && !errors.Is(err, tt.is) {
					t.Errorf("%v is not %v", err, tt.is)
				}
				if !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%q does not say %q", err, tt.says)
				}
				if left, _ := os.ReadDir(spec.TempIn); len(left) > 0 {
					t.Errorf("left %v", left)
				}
				if after := cgroupsOfOurs(t); len(after) > len(before) {
					t.Errorf("cgroups left: %v", after)
				}
			})
		}
	}
}

func cgroupsOfOurs(t *testing.T) []string {
	own, err := ownCgroup()
	if err != nil {
		return nil
	}
	dirs, err := filepath.Glob(filepath.Join(own.dir, cgroupPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	// Tests of other packages make some at the same time: those have an owner
	// that lives and is no child of ours.
	return slices.DeleteFunc(dirs, func(dir string) bool {
		part := strings.Split(filepath.Base(dir), "-")
		if len(part) < 3 {
			return false
		}
		b, err := os.ReadFile("/proc/" + part[2] + "/status")
		return err == nil && !strings.Contains(string(b), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid()))
	})
}

func TestEnvironmentAndDirectories(t *testing.T) {
	inModes(t, func(t *testing.T, avoid Means) {
		var out bytes.Buffer
		dir := t.TempDir()
		r := begin(t, "", Spec{Command: []string{"env"}, Env: []string{"A=b", "BYTES=\xff\xfe"}, Stdout: &out, Avoid: avoid})
		wait(t, r.Process)
		want := []string{"A=b", "BYTES=\xff\xfe", "MARK=" + r.mark, "PATH=" + usualPath, "TMPDIR=" + r.tempDir}
		got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("environment %q, want %q", got, want)
		}
		out.Reset()
		// What it leaves in its directory goes, also when it made it unreadable.
		r = begin(t, `pwd; mkdir -p "$TMPDIR/a/b"; : >"$TMPDIR/a/b/c"; ln -s / "$TMPDIR/a/root"; chmod 0 "$TMPDIR/a/b" "$TMPDIR/a"`,
			Spec{Dir: dir, Stdout: &out, Avoid: avoid})
		if e := wait(t, r.Process); e.Code != 0 {
			t.Errorf("exit %+v", e)
		}
		if got := strings.TrimSpace(out.String()); got != dir {
			t.Errorf("ran in %s, want %s", got, dir)
		}
		r.nothingLeft(0)
	})
}

func TestProcessors(t *testing.T) {
	var have unix.CPUSet
	if err := unix.SchedGetaffinity(0, &have); err != nil {
		t.Fatal(err)
	}
	all := cpuList(&have)
	need(t, len(all) > 1, "a second processor")
	last := all[len(all)-1]
	inModes(t, func(t *testing.T, avoid Means) {
		for _, cpus := range [][]int{{all[0]}, {last}, nil} {
			var out bytes.Buffer
			// By a child: it has to be inherited.
			r := begin(t, `(grep Cpus_allowed_list /proc/self/status); exit 0`, Spec{CPUs: cpus, Stdout: &out, Avoid: avoid})
			wait(t, r.Process)
			got := strings.TrimSpace(strings.TrimPrefix(out.String(), "Cpus_allowed_list:"))
			if len(cpus) == 1 && got != strconv.Itoa(cpus[0]) || cpus == nil && got == strconv.Itoa(all[0]) {
				t.Errorf("asked for %v, runs on %s", cpus, got)
			}
		}
	})
}

// In a namespace a program must find itself under the number that it knows.
func TestProcInTheNamespaceIsItsOwn(t *testing.T) {
	inModes(t, func(t *testing.T, avoid Means) {
		var out bytes.Buffer
		r := begin(t, `read -r pid rest </proc/self/stat; echo $pid $$ $(id -u)`, Spec{Stdout: &out, Avoid: avoid})
		wait(t, r.Process)
		f := strings.Fields(out.String())
		if len(f) != 3 || f[0] != f[1] {
			t.Fatalf("it is %q", out.String())
		}
		if f[2] != strconv.Itoa(os.Geteuid()) {
			t.Errorf("runs as user %s, we as %d", f[2], os.Geteuid())
		}
		if got, _ := strconv.Atoi(f[0]); !r.Isolation().PIDNamespace && got != r.pid {
			t.Errorf("PID is %d, want %d", r.pid, got)
		}
	})
}
