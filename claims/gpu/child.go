package gpu

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/proc"
)

// gpuChild is the process that calls the driver. It is used by one goroutine.
type gpuChild struct {
	cmd      *exec.Cmd
	in, out  *os.File
	lines    *bufio.Reader
	noise    *gpuNoise
	deadline time.Duration // of one answer
	last     uint64        // the last request's number
	failed   error         // why it was killed
	exited   chan struct{} // closed when the process was reaped
	exit     error         // valid after exited
}

// Bounds on what a child may write: a line, and what may come before an answer.
const (
	maxGPULine  = 64 << 10
	maxGPUNoise = 1 << 20
	maxGPUExtra = 32
	maxGPUText  = 8 << 10
	maxGPUName  = 256
)

func startGPUChild(command []string, deadline time.Duration) (*gpuChild, error) {
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, childIn.Close(), in.Close())
	}
	c := &gpuChild{
		cmd: exec.Command(command[0], command[1:]...), in: in, out: out, lines: bufio.NewReaderSize(out, maxGPULine),
		noise: new(gpuNoise), deadline: deadline, exited: make(chan struct{}),
	}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = childIn, childOut, c.noise
	c.cmd.WaitDelay = time.Second // for grandchildren that keep stderr open
	proc.Group(c.cmd)
	err = c.cmd.Start()
	_, _ = childIn.Close(), childOut.Close()
	if err != nil {
		_, _ = in.Close(), out.Close()
		return nil, err
	}
	go func() {
		c.exit = c.cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

// ask puts one request and waits for its answer, no longer than the deadline. A
// child that does not answer, ends, or breaks the protocol is killed, and so is one
// whose context ends: a call of a driver cannot be called off.
func (c *gpuChild) ask(ctx context.Context, q gpuRequest) (gpuAnswer, error) {
	if c.failed != nil {
		return gpuAnswer{}, c.failed
	}
	a, err := c.exchange(ctx, q)
	if err != nil {
		c.kill()
		c.failed = c.explain(ctx, err)
		return gpuAnswer{}, c.failed
	}
	if a.Failure != nil {
		text := printable(a.Failure.Text, maxGPUText)
		switch a.Failure.Code {
		case gpuUnavailable:
			return gpuAnswer{}, carried{claims.ErrUnavailable, text}
		case gpuWrong:
			return gpuAnswer{}, carried{claims.ErrWrong, text}
		}
		return gpuAnswer{}, errors.New(text)
	}
	return a, nil
}

// carried is an error from the child, whose text has the sentinel's words already.
type carried struct {
	is   error
	text string
}

func (e carried) Error() string { return e.text }
func (e carried) Unwrap() error { return e.is }

func (c *gpuChild) exchange(ctx context.Context, q gpuRequest) (gpuAnswer, error) {
	if err := ctx.Err(); err != nil {
		return gpuAnswer{}, err
	}
	until := time.Now().Add(c.deadline + time.Duration(q.Load*float64(time.Second)))
	if err := errors.Join(c.out.SetReadDeadline(until), c.in.SetWriteDeadline(until)); err != nil {
		return gpuAnswer{}, fmt.Errorf("set a deadline: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = c.out.SetReadDeadline(time.Now()) })()
	c.last++
	q.ID = c.last
	line, err := json.Marshal(q)
	if err != nil {
		return gpuAnswer{}, fmt.Errorf("encode a request: %w", err)
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return gpuAnswer{}, err
	}
	for noise := 0; noise < maxGPUNoise; noise += len(line) {
		if line, err = c.lines.ReadSlice('\n'); err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return gpuAnswer{}, err
		}
		body, ours := bytes.CutPrefix(line, []byte(gpuMark))
		if !ours {
			continue
		}
		var a gpuAnswer
		if err := json.Unmarshal(body, &a); err != nil {
			return gpuAnswer{}, fmt.Errorf("read an answer: %w", err)
		}
		if a.ID != q.ID {
			return gpuAnswer{}, fmt.Errorf("an answer to request %d instead of %d", a.ID, q.ID)
		}
		if len(a.Extra) > maxGPUExtra {
			return gpuAnswer{}, fmt.Errorf("an answer with %d further figures", len(a.Extra))
		}
		if d := a.Device; d != nil {
			for _, s := range []*string{&d.Name, &d.Type, &d.UUID, &d.PCIBusID} {
				*s = printable(*s, maxGPUName)
			}
		}
		return a, nil
	}
	return gpuAnswer{}, fmt.Errorf("more than %d bytes and no answer", maxGPUNoise)
}

// explain says what became of a child that failed.
func (c *gpuChild) explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w within %v; its process was killed", ErrNoAnswer, c.deadline)
	case !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "broken pipe"):
		return fmt.Errorf("the child for GPU probes: %w", err)
	}
	how := "its output ended"
	select {
	case <-c.exited:
		how = "exit status 0"
		if c.exit != nil {
			how = c.exit.Error()
		}
	case <-time.After(time.Second):
	}
	return fmt.Errorf("the child for GPU probes ended early (%s)%s", how, c.noise.text())
}

// end lets the child give the device back, and kills it where it does not.
func (c *gpuChild) end() {
	_ = c.in.Close()
	if c.failed == nil {
		select {
		case <-c.exited:
		case <-time.After(2 * time.Second):
		}
	}
	c.kill()
	select {
	case <-c.exited:
	case <-time.After(time.Second): // in the kernel, where no kill ends it
	}
	_ = c.out.Close()
}

func (c *gpuChild) kill() { proc.KillGroup(c.cmd) }

// gpuNoise keeps the beginning of what the child writes to its standard error.
type gpuNoise struct {
	mu sync.Mutex
	b  []byte
}

const maxGPUStderr = 1 << 10

func (n *gpuNoise) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.b = append(n.b, p[:min(len(p), maxGPUStderr-len(n.b))]...)
	return len(p), nil
}

func (n *gpuNoise) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := printable(string(n.b), maxGPUStderr); s != "" {
		return ": " + s
	}
	return ""
}

// printable is text that a terminal can be shown.
func printable(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7F {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s[:min(len(s), most)], "?"))
	return strings.TrimSpace(s)
}
