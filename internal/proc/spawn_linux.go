package proc

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

func asErrno(err error) (syscall.Errno, bool) { return errors.AsType[syscall.Errno](err) }

// spawn starts a process on the calling thread, which must be locked and must
// live as long as the process: the parent-death signal is that of the thread, and
// the processors that it may use are taken from the thread.
func spawn(path string, args []string, attr *syscall.ProcAttr, cpus []int) (int, error) {
	if len(cpus) > 0 {
		back, err := pin(cpus)
		if err != nil {
			return 0, err
		}
		defer back()
	}
	return syscall.ForkExec(path, args, attr)
}

// pin binds the calling thread to processors. The kernel silently leaves out those
// that we do not have, so it is asked what it made of the wish.
func pin(cpus []int) (back func(), err error) {
	before, err := usable(cpus)
	if err != nil {
		return nil, err
	}
	var want, got unix.CPUSet
	for _, c := range cpus {
		want.Set(c)
	}
	if err := unix.SchedSetaffinity(0, &want); err != nil {
		return nil, fmt.Errorf("setting the CPU affinity to %v: %w", cpus, err)
	}
	back = func() { _ = unix.SchedSetaffinity(0, &before) }
	if err := unix.SchedGetaffinity(0, &got); err != nil || got != want {
		back()
		return nil, fmt.Errorf("the CPU affinity became %v, not %v", cpuList(&got), cpus)
	}
	return back, nil
}

// CheckCPUs refuses a set of processors that Start would refuse: one of which some
// are not there, or not ours to use.
func CheckCPUs(cpus []int) error {
	_, err := usable(cpus)
	return err
}

// usable gives the processors that we may use, if those that are wanted are among
// them.
func usable(cpus []int) (ours unix.CPUSet, err error) {
	if err := unix.SchedGetaffinity(0, &ours); err != nil {
		return ours, fmt.Errorf("reading the CPU affinity: %w", err)
	}
	for _, c := range cpus {
		if c < 0 || !ours.IsSet(c) {
			return ours, fmt.Errorf("CPU %d is not ours to use; we have %v", c, cpuList(&ours))
		}
	}
	return ours, nil
}

func cpuList(s *unix.CPUSet) []int {
	var l []int
	for c := range 1024 {
		if s.IsSet(c) {
			l = append(l, c)
		}
	}
	return l
}

// command starts the job's program, in a session of its own and thus in a process
// group of its own.
func (j job) command(stdio [3]*os.File, sys syscall.SysProcAttr) (int, error) {
	sys.Setsid = true
	return spawn(string(j.Path), asStrings(j.Args), &syscall.ProcAttr{
		Dir:   string(j.Dir),
		Env:   asStrings(j.Env),
		Files: []uintptr{stdio[0].Fd(), stdio[1].Fd(), stdio[2].Fd()},
		Sys:   &sys,
	}, j.CPUs)
}

// reaped is how one child ended.
type reaped struct {
	pid    int
	status syscall.WaitStatus
	usage  syscall.Rusage
}

// reap waits for every child, born or adopted, and closes the channel when there
// is none: since whoever loses its parent becomes our child, this is how we know
// that nothing is left. Call it once the first child is there.
func reap() <-chan reaped {
	c := make(chan reaped, 64)
	go func() {
		defer close(c)
		for {
			var r reaped
			var err error
			r.pid, err = syscall.Wait4(-1, &r.status, syscall.WALL, &r.usage)
			switch err {
			case nil:
				c <- r
			case syscall.EINTR:
			default:
				return
			}
		}
	}()
	return c
}

// exitOf puts a wait status in words.
func exitOf(s syscall.WaitStatus) Exit {
	if s.Signaled() {
		return Exit{Code: -1, Signal: unix.SignalName(s.Signal())}
	}
	return Exit{Code: s.ExitStatus()}
}

// ownProcess prepares supervisor and first process: no core files from here down
// (they would be left behind), and the thread that starts children stays.
func ownProcess() {
	runtime.LockOSThread()
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_CORE, &lim) == nil {
		lim.Cur = 0
		_ = unix.Setrlimit(unix.RLIMIT_CORE, &lim)
	}
}

// termination are the signals that must not end a supervisor before its work is
// done. They are caught and not ignored: ignoring would be inherited.
func termination() []os.Signal {
	return []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM}
}

func isTermination(s os.Signal) bool {
	return slices.Contains([]os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGQUIT}, s)
}
