package child

import (
	"context"
	"errors"
	"io"
	"os"
)

// Result is what a child wrote.
type Result struct {
	Stdout []byte
	Stderr string // the beginning, as one line that can be printed
}

// Output runs a child until it ends, gives it stdin, and returns what it wrote.
// When the context ends the child is killed, and the error is the context's
// cause. A child that writes more than MaxAnswer is killed: [ErrFlood]. One that
// does not exit with 0 gives an [EndedError], with what it wrote beside it.
func Output(ctx context.Context, s Spec, stdin []byte) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	p, err := Start(s)
	if err != nil {
		return Result{}, err
	}
	defer p.Kill()
	defer context.AfterFunc(ctx, p.Kill)()
	go func() {
		_, _ = p.in.Write(stdin) // a child need not read it
		_ = p.in.Close()
	}()
	out, err := p.all()
	if err == nil {
		select {
		case <-p.done:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil || err != nil {
		p.Kill()
		_ = p.await(context.Background(), collectWithin)
	}
	r := Result{Stdout: out, Stderr: p.Stderr()}
	switch {
	case ctx.Err() != nil:
		return r, context.Cause(ctx)
	case err != nil:
		return r, err
	case !p.cmd.ProcessState.Success():
		return r, p.endedError(ctx, 0)
	}
	return r, nil
}

// all reads the child's output to its end.
func (p *Process) all() ([]byte, error) {
	limit := p.spec.MaxAnswer
	var out []byte
	b := make([]byte, 32<<10)
	for {
		n, err := p.read(b)
		if int64(len(out)+n) > limit {
			return append(out, b[:limit-int64(len(out))]...), floodError("an output", limit)
		}
		out = append(out, b[:n]...)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrClosed):
			return out, nil
		case err != nil:
			return out, err
		}
	}
}
