package child

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/assay-bench/assay/internal/foreign"
	"github.com/assay-bench/assay/internal/proc"
)

// Process is a child that was started. One goroutine uses it at a time; Kill may
// be called by any.
type Process struct {
	spec    Spec
	cmd     *exec.Cmd
	in, out *os.File
	stderr  *foreign.Head
	lines   lines
	started time.Time
	done    chan struct{} // closed when the process was reaped

	until time.Time // the deadline of the Send or Receive that is under way

	mu    sync.Mutex
	ended bool   // it ended; its process id may be somebody else's soon
	call  uint64 // which Send or Receive is under way
	quit  bool   // its context ended
}

// Start starts a child. Whoever does must call Close or Kill.
func Start(s Spec) (*Process, error) {
	if len(s.Command) == 0 || s.Command[0] == "" {
		return nil, errors.New("no command line was given")
	}
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, childIn.Close(), in.Close())
	}
	s = s.resolved()
	p := &Process{
		spec: s, cmd: exec.Command(s.Command[0], s.Command[1:]...), in: in, out: out,
		stderr: &foreign.Head{Limit: s.MaxStderr}, started: time.Now(), done: make(chan struct{}),
	}
	p.lines = lines{read: p.read, limit: s.MaxLine}
	p.cmd.Dir, p.cmd.Env = s.Dir, s.Env
	if len(s.AddEnv) > 0 {
		p.cmd.Env = append(p.cmd.Environ(), s.AddEnv...)
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = childIn, childOut, p.stderr
	p.cmd.WaitDelay = collectWithin // for what left the group with stderr in hand
	proc.Group(p.cmd)
	dieWithUs(p.cmd)
	started := make(chan error)
	go p.run(started)
	err = <-started
	_, _ = childIn.Close(), childOut.Close()
	if err != nil {
		_, _ = in.Close(), out.Close()
		return nil, err
	}
	return p, nil
}

// run starts the process and stays with it until it was reaped.
func (p *Process) run(started chan<- error) {
	// The kernel takes the death of the thread that started a process for that
	// of its parent, and Go ends threads as it likes: this one waits here.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	if err == nil {
		proc.Unbound(p.cmd.Process.Pid)
	}
	started <- err
	if err == nil {
		p.wait()
		close(p.done)
	}
}

// settle is called when the process has ended and, where the system can tell, was
// not reaped yet: its id is still its own.
func (p *Process) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.spec.LeaveGroup {
		proc.KillGroup(p.cmd)
	}
	p.ended = true
	// What left the group may keep the pipe open. All that the child itself
	// wrote is in the pipe: read takes it from there.
	_ = p.out.SetReadDeadline(time.Now().Add(lastWords))
}

// Stderr is the beginning of what the child wrote to its standard error so far,
// as one line that can be printed.
func (p *Process) Stderr() string { return p.stderr.Line(p.spec.MaxStderr) }

// Kill ends the child and its group at once, and lets a Send or Receive that is
// under way return. It does not wait: a process that hangs in the kernel ends
// when the kernel lets it go.
func (p *Process) Kill() {
	p.mu.Lock()
	if !p.ended {
		proc.KillGroup(p.cmd)
	}
	p.mu.Unlock()
	_, _ = p.in.Close(), p.out.Close()
}

// Close closes the child's input, which is how a child is told to end, and kills
// it if it has not ended within the grace. A child that was killed is waited for
// only a moment.
func (p *Process) Close(grace time.Duration) {
	_ = p.in.Close()
	_ = p.await(context.Background(), grace)
	p.Kill()
	_ = p.await(context.Background(), collectWithin)
}

// read reads the child's output. Its end is io.EOF, also where somebody else
// keeps the pipe open. A deadline that passed before we came to read what is
// there is our own lateness, and not the child's.
func (p *Process) read(b []byte) (int, error) {
	n, err := p.out.Read(b)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	p.mu.Lock()
	ended, quit := p.ended, p.quit
	p.mu.Unlock()
	if quit {
		return 0, err
	}
	if n = readNow(p.out, b); n > 0 {
		return n, nil
	}
	if ended {
		return 0, io.EOF
	}
	return 0, err
}

// Wait closes the child's input and waits until it has ended, and nothing of its
// group is left. An error is the cause of ctx or [ErrLate]: then it was not
// killed.
func (p *Process) Wait(ctx context.Context, until time.Time) error {
	_ = p.in.Close()
	return p.await(ctx, time.Until(until))
}

// await waits until the process was reaped.
func (p *Process) await(ctx context.Context, within time.Duration) error {
	select {
	case <-p.done: // though it may be late
		return nil
	default:
	}
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
		return ErrLate
	}
}

// endedError says how the child ended, which a closed output does not tell.
func (p *Process) endedError(ctx context.Context, within time.Duration) *EndedError {
	var e EndedError
	if p.await(ctx, within) == nil {
		e.Exit = p.cmd.ProcessState.String()
	}
	e.Stderr = p.Stderr()
	return &e
}
