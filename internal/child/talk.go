package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// Send writes a request to the child. An error is the cause of ctx, in which case
// nothing was written, [ErrLate], or an [EndedError].
//
// A request should fit into a pipe, which holds 64 KiB on Linux and at least 4
// elsewhere: a child that answers before it has read all would wait for us as we
// for it. What is larger is for [Output].
func (p *Process) Send(ctx context.Context, until time.Time, request []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	defer p.bound(ctx, until)()
	n, err := p.in.Write(request)
	if n > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w: it read %d bytes of a request of %d", ErrLate, n, len(request))
	}
	return p.failure(ctx, err)
}

// Receive hands the lines that the child writes to each, without their ends,
// until each says that it is done. A line is valid during the call only.
//
// It returns nil, each's error, the cause of ctx, [ErrLate], [ErrFlood] or an
// [EndedError]. When ctx ends the child stays as it is, and the lines that were
// not waited for come with the next Receive.
func (p *Process) Receive(ctx context.Context, until time.Time, each func(line []byte) (done bool, err error)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	defer p.bound(ctx, until)()
	for left := p.spec.MaxAnswer; left > 0; {
		line, err := p.lines.next()
		if err != nil {
			return p.failure(ctx, err)
		}
		if done, err := each(line); done || err != nil {
			return err
		}
		left -= int64(len(line)) + 1
	}
	return floodError("an answer", p.spec.MaxAnswer)
}

// bound lets reads and writes end at a time, or before when ctx ends. Its result
// takes ctx's part back.
func (p *Process) bound(ctx context.Context, until time.Time) (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.call++
	p.quit, p.until = false, until
	p.deadline(until)
	if ctx.Done() == nil {
		return func() {}
	}
	call := p.call
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.call == call { // a later one has a context of its own
			p.quit = true
			p.deadline(time.Now())
		}
	})
	return func() { stop() }
}

func (p *Process) deadline(until time.Time) {
	_ = p.in.SetWriteDeadline(until)
	if !p.ended { // settle has set one for good
		_ = p.out.SetReadDeadline(until)
	}
}

// failure says what an error of the pipes means.
func (p *Process) failure(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrLate
	case errors.Is(err, os.ErrClosed): // by Kill
		return p.endedError(ctx, collectWithin)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE):
		return p.endedError(ctx, min(explainWithin, max(collectWithin, time.Until(p.until))))
	}
	return err
}
