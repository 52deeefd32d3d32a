package gpu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/assay-bench/assay/claims"
	"github.com/assay-bench/assay/internal/child"
	"github.com/assay-bench/assay/internal/foreign"
)

// gpuChild is the process that calls the driver. It is used by one goroutine.
type gpuChild struct {
	p        *child.Process
	deadline time.Duration // of one answer
	last     uint64        // the last request's number
	failed   error         // why it was killed
}

// Bounds on what a child may write: a line, and what may come before an answer.
const (
	maxGPULine   = 64 << 10
	maxGPUAnswer = 1 << 20
	maxGPUStderr = 1 << 10
	maxGPUExtra  = 32
	maxGPUBatch  = 1 << 40
	maxGPUText   = 8 << 10
	maxGPUName   = 256
)

func startGPUChild(command []string, deadline time.Duration) (*gpuChild, error) {
	p, err := child.Start(child.Spec{Command: command, MaxLine: maxGPULine, MaxAnswer: maxGPUAnswer, MaxStderr: maxGPUStderr})
	if err != nil {
		return nil, err
	}
	return &gpuChild{p: p, deadline: deadline}, nil
}

// ask puts one request and waits for its answer, no longer than the deadline. A
// child that does not answer, ends, or breaks the protocol is killed, and so is one
// whose context ends: a call of a driver cannot be cancelled.
func (c *gpuChild) ask(ctx context.Context, q gpuRequest) (gpuAnswer, error) {
	if c.failed != nil {
		return gpuAnswer{}, c.failed
	}
	a, err := c.exchange(ctx, q)
	if err != nil {
		c.p.Kill()
		c.failed = c.explain(ctx, err)
		return gpuAnswer{}, c.failed
	}
	if a.Failure != nil {
		text := foreign.Line(a.Failure.Text, maxGPUText)
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

func (c *gpuChild) exchange(ctx context.Context, q gpuRequest) (a gpuAnswer, err error) {
	c.last++
	q.ID = c.last
	request, err := json.Marshal(q)
	if err != nil {
		return gpuAnswer{}, fmt.Errorf("encode a request: %w", err)
	}
	until := time.Now().Add(c.deadline + time.Duration(q.Load*float64(time.Second)))
	if err := c.p.Send(ctx, until, append(request, '\n')); err != nil {
		return gpuAnswer{}, err
	}
	err = c.p.Receive(ctx, until, func(line []byte) (bool, error) {
		body, ours := bytes.CutPrefix(line, []byte(gpuMark))
		if !ours {
			return false, nil
		}
		a, err = readAnswer(body, q.ID)
		return true, err
	})
	return a, err
}

// readAnswer reads the answer to a request.
func readAnswer(body []byte, id uint64) (gpuAnswer, error) {
	var a gpuAnswer
	if err := json.Unmarshal(body, &a); err != nil {
		return gpuAnswer{}, fmt.Errorf("read an answer: %w", err)
	}
	if a.ID != id {
		return gpuAnswer{}, fmt.Errorf("an answer to request %d instead of %d", a.ID, id)
	}
	if len(a.Extra) > maxGPUExtra {
		return gpuAnswer{}, fmt.Errorf("an answer with %d further figures", len(a.Extra))
	}
	if d := a.Device; d != nil {
		for _, s := range []*string{&d.Name, &d.Type, &d.Backend, &d.UUID, &d.PCIBusID} {
			*s = foreign.Line(*s, maxGPUName)
		}
	}
	return a, nil
}

// explain says what became of a child that failed.
func (c *gpuChild) explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, child.ErrLate):
		return fmt.Errorf("%w within %v; its process was killed", ErrNoAnswer, c.deadline)
	}
	return fmt.Errorf("the child for GPU probes: %w", err)
}

// end lets the child give the device back, and kills it where it does not.
func (c *gpuChild) end() {
	if c.failed != nil {
		c.p.Close(0)
		return
	}
	c.p.Close(2 * time.Second)
}
