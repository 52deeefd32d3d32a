package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/assay-bench/assay/internal/proc"
)

// errStarting says that a child is not ready yet and has time left.
var errStarting = errors.New("its process has not finished starting")

// childProcess is one life of a child.
type childProcess struct {
	cmd     *exec.Cmd
	in, out *os.File
	lines   childLines
	stderr  *childStderr
	started time.Time
	ready   bool
	owed    uint64        // the question whose answer was not waited for; 0: none
	request []byte        // kept to be used again
	done    chan struct{} // closed when the process was reaped
	exit    error         // valid after done
}

func startChild(command, env []string) (*childProcess, error) {
	if len(command) == 0 {
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
	p := &childProcess{cmd: exec.Command(command[0], command[1:]...), in: in, out: out, stderr: new(childStderr), done: make(chan struct{}), started: time.Now()}
	p.lines.r = out
	p.cmd.Env, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = env, childIn, childOut, p.stderr
	// A child does one thing at a time. With more processors, the runtime would
	// spend several times the work's own CPU time on looking for more of it.
	p.cmd.Env = append(p.cmd.Environ(), "GOMAXPROCS=1")
	p.cmd.WaitDelay = time.Second // for grandchildren that keep stderr open
	proc.Group(p.cmd)
	err = p.cmd.Start()
	_ = childIn.Close()
	_ = childOut.Close()
	if err != nil {
		_ = in.Close()
		_ = out.Close()
		return nil, err
	}
	go func() {
		p.exit = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// exchange puts one question and reads its answer. The first result is an error
// that the source in the child reported; the second one of the child itself.
func (p *childProcess) exchange(ctx context.Context, o ChildOptions, question string, seq uint64, each func([]byte) error) (said, err error) {
	deadline := time.Now().Add(o.Deadline)
	if !p.ready {
		if last := p.started.Add(o.StartDeadline); last.Before(deadline) {
			deadline = last
		}
	}
	if err := p.out.SetReadDeadline(deadline); err != nil {
		return nil, fmt.Errorf("setting a deadline: %w", err)
	}
	// A context that ends lets the reader return at once. The answer that is
	// then still to come is thrown away by the next question.
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, func() { _ = p.out.SetReadDeadline(time.Now()) })()
	}
	late := func(err error) error {
		switch {
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !p.ready && time.Since(p.started) < o.StartDeadline:
			return errStarting
		case !p.ready:
			return fmt.Errorf("%w: its process was not ready within %v of its start and was killed", ErrNoAnswer, o.StartDeadline)
		}
		return fmt.Errorf("%w: the driver did not answer within %v, and its process was killed", ErrNoAnswer, o.Deadline)
	}
	if !p.ready {
		if err := p.lines.until(childHello); err != nil {
			return nil, late(err)
		}
		p.ready = true
		// The answer has its own time, whatever the start took.
		deadline = time.Now().Add(o.Deadline)
		if err := p.out.SetReadDeadline(deadline); err != nil {
			return nil, fmt.Errorf("setting a deadline: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	if p.owed != 0 {
		if err := p.lines.until(string(appendEnd(nil, p.owed))); err != nil {
			return nil, late(err)
		}
		p.owed = 0
	}
	p.request = appendRequest(p.request[:0], question, seq)
	// A request is shorter than any pipe: only a child that has not read for
	// thousands of them could block this.
	if err := p.in.SetWriteDeadline(deadline); err != nil {
		return nil, fmt.Errorf("setting a deadline: %w", err)
	}
	if _, err := p.in.Write(p.request); err != nil {
		return nil, late(err)
	}
	p.owed = seq
	said, err = p.lines.answer(seq, each)
	if err != nil {
		return nil, late(err)
	}
	p.owed = 0
	return said, nil
}

// explain adds to an error how the process ended and what it wrote to stderr.
func (p *childProcess) explain(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) || strings.Contains(err.Error(), "broken pipe") {
		select {
		case <-p.done:
			err = errors.New("its process ended")
			if p.exit != nil {
				err = fmt.Errorf("its process ended: %w", p.exit)
			}
		case <-time.After(500 * time.Millisecond):
			err = errors.New("its process closed its output")
		}
	}
	if s := p.stderr.String(); s != "" {
		return fmt.Errorf("%w: %s", err, s)
	}
	return err
}

// end lets the process end by itself for a while, then kills it.
func (p *childProcess) end(grace time.Duration) {
	_ = p.in.Close()
	select {
	case <-p.done:
	case <-time.After(grace):
	}
	p.kill()
}

// kill ends the process and its group. It does not wait: one that hangs in the
// kernel cannot be reaped before the kernel lets it go.
func (p *childProcess) kill() {
	_ = p.in.Close()
	proc.KillGroup(p.cmd)
	_ = p.out.Close()
}

// childStderr keeps the beginning of what a child writes to stderr, where the cause
// stands, and throws the rest away.
type childStderr struct {
	mu sync.Mutex
	b  []byte
}

const maxChildStderr = 2048

func (t *childStderr) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b[:min(len(b), maxChildStderr-len(t.b))]...)
	return len(b), nil
}

func (t *childStderr) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r == 0x7f || r == '\uFFFD' {
			return '?'
		}
		return r
	}, string(bytes.TrimSpace(t.b)))
}
