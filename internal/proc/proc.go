// Package proc runs one foreign program so that nothing of it outlives us.
//
// A benchmark starts engines that it did not write. They fork, daemonise,
// ignore SIGTERM, fill the memory and never stop logging, and the next engine
// is measured on what they leave running. So a program is never started
// directly: a supervisor (our own binary again, see [Supervise]) stands between,
// holds one end of a pipe, and ends the whole tree when the program ends, when
// it is told to, and when the pipe closes because we were killed.
//
// The tree is held by the strongest means that this machine gives us:
//
//   - a cgroup v2 of its own, ended by cgroup.kill: nothing gets out of it
//     without the right to write another cgroup;
//   - else a pid namespace of its own, in a user namespace where we are not
//     root: the kernel ends it with its first process. The program then sees
//     other process ids than we do;
//   - in any case a child subreaper: whoever loses its parent becomes the
//     supervisor's child, so daemons are found by walking /proc, and the
//     supervisor is done only when the kernel says that it has no child left.
//
// [Process.Isolation] says which are available, and why the others are not.
//
// What it refuses: RLIMIT_AS (CUDA reserves far more address space than it
// uses), changing the controllers of a cgroup that is not its own, and an
// environment that nobody asked for. What it does not do: it is no sandbox. A
// program that runs as our user may kill us, and one that is root may leave.
//
// The supervisor may be killed, too. Then we end the tree: a cgroup or a namespace
// whole, else by session and by TMPDIR in the environment, which a daemon can
// throw away. When both of us are killed at once, a namespace goes by itself, a
// cgroup is ended and removed by the next start, and with the subreaper alone only
// the program itself is sure to end.
//
// Linux is what is tested. Elsewhere the program is started directly and only
// its process group (on Windows: only itself) is ended: Isolation says so.
package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Spec is what to run and within which bounds.
type Spec struct {
	// Command is the program and its arguments. A name without a slash is looked
	// for in Env's PATH, and in the system's usual directories when Env has none;
	// a relative path is relative to Dir, as in os/exec.
	Command []string
	// Dir is where it runs; empty means our own working directory.
	Dir string
	// Env is the whole environment. Only TMPDIR is added, when it is not there.
	Env []string

	// Supervisor is the command line that ends up in [Supervise]: a hidden
	// subcommand of our own binary. Linux cannot do without.
	Supervisor []string

	// Stdin is read by the program; nil means that it reads nothing. A reader that
	// never returns keeps a goroutine.
	Stdin io.Reader
	// Stdout and Stderr receive everything, so a writer that blocks blocks the
	// program. Nil means the log, which never blocks it.
	Stdout, Stderr io.Writer
	// LogFile keeps the log as a file; empty means in memory only. Its end is
	// written when the program has ended.
	LogFile string
	// LogHead and LogTail are how many bytes of the log's begin and end are
	// kept: 0 means 1 MiB each, less than 0 means none.
	LogHead, LogTail int

	// TempIn is the directory in which the program's own temporary directory is
	// made; empty means the system's. It is removed at the end, whatever happens.
	TempIn string

	// CPUs are the processors that the program may use; empty means all of ours.
	CPUs []int
	// MemoryBytes is the most that the whole tree may use; 0 means no limit.
	MemoryBytes int64
	// Grace is the time between SIGTERM and the end of everything: 0 means 5 s,
	// less than 0 means that there is no SIGTERM.
	Grace time.Duration

	// Avoid names means that must not be used, for programs that cannot live
	// with them: some want to see the process ids that a GPU's driver reports.
	Avoid Means
}

// Means are ways to hold a tree of processes. The subreaper cannot be avoided.
type Means uint8

const (
	Cgroup       Means = 1 << iota // a cgroup v2 of its own
	PIDNamespace                   // a pid namespace of its own
)

// Isolation is what the machine gave us.
type Isolation struct {
	// Cgroup is the directory of the tree's cgroup v2; empty: it has none.
	Cgroup       string `json:"cgroup,omitempty"`
	PIDNamespace bool   `json:"pid_namespace,omitempty"`
	// UserNamespace is true where the pid namespace needed one.
	UserNamespace bool `json:"user_namespace,omitempty"`
	Subreaper     bool `json:"subreaper,omitempty"`
	// Memory says how the limit is kept: "cgroup", "watch", or empty for no limit.
	Memory string `json:"memory,omitempty"`
	CPUs   []int  `json:"cpus,omitempty"`
	// Notes say what was not available, and why.
	Notes []string `json:"notes,omitempty"`
}

// String says it in words, for a report.
func (i Isolation) String() string {
	var parts []string
	switch {
	case i.Cgroup != "":
		parts = append(parts, "cgroup v2 of its own")
	case i.UserNamespace:
		parts = append(parts, "pid namespace of its own within a user namespace")
	case i.PIDNamespace:
		parts = append(parts, "pid namespace of its own")
	}
	if i.Subreaper {
		parts = append(parts, "subreaper")
	}
	if len(parts) == 0 {
		parts = append(parts, "none")
	}
	switch i.Memory {
	case "cgroup":
		parts = append(parts, "memory limit by cgroup")
	case "watch":
		parts = append(parts, fmt.Sprintf("memory limit by watching the tree every %v", watchEvery))
	}
	if len(i.CPUs) > 0 {
		parts = append(parts, fmt.Sprintf("CPUs %v", i.CPUs))
	}
	s := strings.Join(parts, ", ")
	if len(i.Notes) > 0 {
		s += " (" + strings.Join(i.Notes, "; ") + ")"
	}
	return s
}

// watchEvery is how often the memory of a tree is looked at. A tree can pass
// its limit by what it allocates in this time.
const watchEvery = 200 * time.Millisecond

// Exit is how it ended.
type Exit struct {
	// Code is the exit code, -1 when a signal ended it or when it is not known.
	Code int `json:"code"`
	// Signal is the name of the signal that ended it, such as SIGSEGV.
	Signal string `json:"signal,omitempty"`
	// Stopped is true when it ended after Stop was called.
	Stopped bool `json:"stopped,omitempty"`
	// MemoryExceeded is true when it was ended for passing MemoryBytes.
	MemoryExceeded bool `json:"memory_exceeded,omitempty"`
	// PeakRSSBytes is the most memory that the tree was seen to use; 0 means that
	// it was too short to be seen.
	PeakRSSBytes int64 `json:"peak_rss_bytes,omitempty"`
	// CPUSeconds is the processor time of the whole tree; nil means unknown.
	CPUSeconds *float64 `json:"cpu_seconds,omitempty"`
	// LogTail is the end of the log, a few KiB of printable text.
	LogTail string `json:"log_tail,omitempty"`
	// Left are processes that could not be ended within the time for it: stuck in
	// the kernel, or of another user. Their cgroup and files may remain.
	Left []int `json:"left,omitempty"`
	// Lost says why code, peak and processor time are not known: the supervisor
	// itself was killed.
	Lost string `json:"lost,omitempty"`
	// OutputErr is the first error of Stdout or Stderr.
	OutputErr error `json:"-"`
}

// String says it in words.
func (e Exit) String() string {
	var s string
	switch {
	case e.Lost != "":
		s = "ended, how is unknown: " + e.Lost
	case e.MemoryExceeded:
		s = "ended for passing its memory limit"
	case e.Signal != "":
		s = "ended by " + e.Signal
	default:
		s = fmt.Sprintf("exited with code %d", e.Code)
	}
	if e.Stopped {
		s += " after being told to stop"
	}
	if len(e.Left) > 0 {
		s += fmt.Sprintf(", and processes %v could not be ended", e.Left)
	}
	return s
}

// DiedError is what [Process.Await] gives when there is nothing left to wait for.
type DiedError struct{ Exit Exit }

func (e *DiedError) Error() string {
	s := "the process " + e.Exit.String()
	if tail := strings.TrimSpace(e.Exit.LogTail); tail != "" {
		s += "; its log ends: " + tail
	}
	return s
}

// ErrSupervisor is in the error of Start when the supervisor's command line does
// not end up in [Supervise]: a mistake of the caller, no fault of the program.
var ErrSupervisor = errors.New("the supervisor did not answer")

func (s Spec) grace() time.Duration {
	if s.Grace == 0 {
		return 5 * time.Second
	}
	return max(s.Grace, 0)
}

func (s Spec) tempIn() string {
	if s.TempIn == "" {
		return os.TempDir()
	}
	return s.TempIn
}

// environ is the program's environment with its own temporary directory.
func (s Spec) environ(temp string) []string {
	env := append([]string{}, s.Env...)
	if _, ok := lookup(env, "TMPDIR"); !ok {
		env = append(env, "TMPDIR="+temp)
	}
	return env
}

func lookup(env []string, name string) (string, bool) {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// usualPath is where programs are looked for when the environment has no PATH,
// as shells do.
const usualPath = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

// Program finds the file that Start runs. It is done here and not by exec.LookPath, which
// would look in our own environment's PATH.
func (s Spec) Program() (string, error) {
	if len(s.Command) == 0 || s.Command[0] == "" {
		return "", errors.New("no command given")
	}
	name := s.Command[0]
	if strings.ContainsRune(name, filepath.Separator) || strings.ContainsRune(name, '/') {
		if !filepath.IsAbs(name) {
			name = filepath.Join(s.Dir, name)
		}
		path, err := filepath.Abs(name)
		if err != nil {
			return "", err
		}
		return path, runnable(path)
	}
	path, ok := lookup(s.Env, "PATH")
	if !ok {
		path = strings.ReplaceAll(usualPath, ":", string(filepath.ListSeparator))
	}
	var denied error
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // a relative PATH entry runs what the working directory holds
		}
		file := filepath.Join(dir, name)
		switch err := runnable(file); {
		case err == nil:
			return file, nil
		case errors.Is(err, os.ErrPermission) && denied == nil:
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", fmt.Errorf("%w: PATH is %s", exec.ErrNotFound, path)
}

func runnable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() || runtime.GOOS != "windows" && info.Mode()&0o111 == 0 {
		return &os.PathError{Op: "run", Path: path, Err: os.ErrPermission}
	}
	return nil
}
