package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/foreign"
)

// The programs that are started. They are those of the system, so that a figure
// holds what a process costs here, its dynamic linking included.
const (
	trueProgram = "/bin/true"
	catProgram  = "/bin/cat"
)

func startProcess(_ context.Context, env claims.Env) (claims.Runner, error) {
	if err := executable(trueProgram); err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, claims.Unavailablef("%w", err)
	}
	clock, fd := clockCost(), null.Fd()
	attr := &syscall.ProcAttr{Files: []uintptr{fd, fd, fd}}
	return hostRunner{close: null.Close, sample: func(ctx context.Context) (claims.Measurement, error) {
		ctx, cancel := context.WithTimeout(ctx, env.Timeout())
		defer cancel()
		start := time.Now()
		pid, err := syscall.ForkExec(trueProgram, []string{trueProgram}, attr)
		if err != nil {
			return claims.Measurement{}, fmt.Errorf("start %s: %w", trueProgram, err)
		}
		started := time.Since(start)
		status, err := (&spawned{pid: pid}).reap(ctx)
		took := time.Since(start)
		if err := ended(ctx, trueProgram, status, err); err != nil {
			return claims.Measurement{}, err
		}
		return claims.Measurement{Value: took.Seconds(), Extra: map[string]float64{"exec_s": started.Seconds(), "clock_s": clock}}, nil
	}}, nil
}

func executable(path string) error {
	if err := unix.Access(path, unix.X_OK); err != nil {
		return claims.Unavailablef("%s: %w", path, err)
	}
	return nil
}

// ended says what is wrong with the end of a process.
func ended(ctx context.Context, name string, status syscall.WaitStatus, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s did not end: %w", name, context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("wait for %s: %w", name, err)
	case status.Signaled():
		return fmt.Errorf("%w: %s was ended by %v", claims.ErrWrong, name, status.Signal())
	case status.ExitStatus() != 0:
		return fmt.Errorf("%w: %s exited with code %d", claims.ErrWrong, name, status.ExitStatus())
	}
	return nil
}

const spawnFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET

// spawnLimits are set on the process from outside, before it does anything.
var spawnLimits = []struct {
	resource int
	max      uint64
}{
	{unix.RLIMIT_AS, 128 << 20}, // as the containers that were promised have
	{unix.RLIMIT_NOFILE, 64},
}

func startNamespaces(ctx context.Context, env claims.Env) (claims.Runner, error) {
	if err := executable(catProgram); err != nil {
		return nil, err
	}
	clock := clockCost()
	spawn := func(ctx context.Context, look func(pid int) error) (claims.Measurement, error) {
		return confined(ctx, env.Timeout(), clock, look)
	}
	// One run shows that it is allowed, and that it is what it says.
	if _, err := spawn(ctx, func(pid int) error { return isConfined(env, pid) }); err != nil {
		return nil, err
	}
	return hostRunner{sample: func(ctx context.Context) (claims.Measurement, error) { return spawn(ctx, nil) }}, nil
}

// confined starts a process in namespaces of its own that waits at its standard
// input, limits it, lets it go, and reaps it. Look sees it while it waits.
func confined(ctx context.Context, deadline time.Duration, clock float64, look func(pid int) error) (claims.Measurement, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	var gate [2]int
	if err := unix.Pipe2(gate[:], unix.O_CLOEXEC); err != nil {
		return claims.Measurement{}, fmt.Errorf("make a pipe: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return claims.Measurement{}, errors.Join(err, unix.Close(gate[0]), unix.Close(gate[1]))
	}
	defer null.Close()
	attr := &syscall.ProcAttr{
		Files: []uintptr{uintptr(gate[0]), null.Fd(), null.Fd()},
		Sys: &syscall.SysProcAttr{
			Cloneflags:  spawnFlags,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		},
	}

	start := time.Now()
	pid, err := syscall.ForkExec(catProgram, []string{catProgram}, attr)
	_ = unix.Close(gate[0])
	if err != nil {
		_ = unix.Close(gate[1])
		return claims.Measurement{}, claims.Unavailablef("new user, pid, mount and network namespaces: %w", err)
	}
	started := time.Since(start)
	for _, l := range spawnLimits {
		limit := unix.Rlimit{Cur: l.max, Max: l.max}
		if e := unix.Prlimit(pid, l.resource, &limit, nil); e != nil && err == nil {
			err = claims.Unavailablef("limit a process: %w", e)
		}
	}
	if look != nil && err == nil {
		err = look(pid)
	}
	_ = unix.Close(gate[1]) // it reads the end of its input, and goes
	status, werr := (&spawned{pid: pid}).reap(ctx)
	took := time.Since(start)
	if err != nil {
		return claims.Measurement{}, err
	}
	if err := ended(ctx, catProgram, status, werr); err != nil {
		return claims.Measurement{}, err
	}
	return claims.Measurement{Value: took.Seconds(), Extra: map[string]float64{"exec_s": started.Seconds(), "clock_s": clock}}, nil
}

// isConfined checks that a waiting process is what it should be.
func isConfined(env claims.Env, pid int) error {
	for _, ns := range []string{"user", "pid", "mnt", "net"} {
		ours, err := os.Readlink(hostProc(env, "self/ns/"+ns))
		if err != nil {
			return claims.Unavailablef("read our namespaces: %w", err)
		}
		its, err := os.Readlink(hostProc(env, fmt.Sprintf("%d/ns/%s", pid, ns)))
		if err != nil {
			return claims.Unavailablef("read its namespaces: %w", err)
		}
		if ours == its {
			return fmt.Errorf("%w: its %s namespace is ours", claims.ErrWrong, ns)
		}
	}
	for _, l := range spawnLimits {
		var got unix.Rlimit
		if err := unix.Prlimit(pid, l.resource, nil, &got); err != nil {
			return fmt.Errorf("read its limits: %w", err)
		}
		if got.Max != l.max {
			return fmt.Errorf("%w: a limit of %d is %d", claims.ErrWrong, l.max, got.Max)
		}
	}
	return nil
}

// readyWord is the line by which an agent says that it is ready.
const readyWord = "ready"

func startAgent(_ context.Context, env claims.Env) (claims.Runner, error) {
	if len(env.Agent) == 0 {
		return nil, claims.Unavailablef("no command line of an agent was given")
	}
	if _, err := exec.LookPath(env.Agent[0]); err != nil {
		return nil, claims.Unavailablef("the agent: %w", err)
	}
	clock := clockCost()
	return hostRunner{sample: func(ctx context.Context) (claims.Measurement, error) {
		ctx, cancel := context.WithTimeout(ctx, env.Timeout())
		defer cancel()
		ready, whole, err := agentOnce(ctx, env.Agent)
		if err != nil {
			return claims.Measurement{}, fmt.Errorf("start an agent: %w", err)
		}
		return claims.Measurement{Value: ready.Seconds(), Extra: map[string]float64{"whole_s": whole.Seconds(), "clock_s": clock}}, nil
	}}, nil
}

// agentOnce starts an agent and gives when it said that it was ready, and when it
// had ended. One that does not say so by ctx's end is killed with its group.
func agentOnce(ctx context.Context, command []string) (ready, whole time.Duration, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, 0, err
	}
	defer r.Close()
	// The kernel takes the death of the thread that started it for that of the
	// parent.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	says := &foreign.Head{Limit: maxCommandError}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = w, says
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	start := time.Now()
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return 0, 0, err
	}
	c := &spawned{pid: cmd.Process.Pid, group: true}
	stop := context.AfterFunc(ctx, func() { c.kill(); _ = r.SetReadDeadline(time.Now()) })
	defer stop()
	said := saysReady(r)
	ready = time.Since(start)
	if said != nil {
		c.kill()
	}
	// Whatever else it prints is read, so that it does not block, and thrown away.
	go func() { _, _ = io.Copy(io.Discard, r) }()
	c.wait(ctx)
	err = cmd.Wait()
	whole = time.Since(start)
	switch {
	case ctx.Err() != nil:
		return 0, 0, fmt.Errorf("it did not get ready and end: %w", context.Cause(ctx))
	case said != nil:
		return 0, 0, errors.Join(said, fmt.Errorf("it said %s", quoted(says.Bytes())))
	case err != nil:
		return 0, 0, fmt.Errorf("it was ready, and then: %w", err)
	}
	return ready, whole, nil
}

// saysReady reads up to the ready line, within bounds.
func saysReady(r io.Reader) error {
	lines := bufio.NewScanner(io.LimitReader(r, 64<<10))
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) == readyWord {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return fmt.Errorf("it never printed a line %q", readyWord)
}
