package proc

import (
	"context"
	"fmt"
	"time"
)

// Process is a program that runs, with everything that it started.
type Process struct {
	pid       int    // as we see it
	tempDir   string // gone after the end
	isolation Isolation
	log       *boundedLog
	h         *handle

	done chan struct{}
	exit Exit // whole once done is closed
}

// Isolation says what holds the tree.
func (p *Process) Isolation() Isolation { return p.isolation }

// Done is closed when everything has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns when everything has ended: the program, what it started, and our
// supervisor. It may be called by many, and again.
func (p *Process) Wait() Exit {
	<-p.done
	return p.exit
}

// Stop asks the program to end (SIGTERM), ends everything after the grace time,
// and waits for it. When ctx ends first, everything is ended at once: nothing
// runs on because somebody was in a hurry. Stopping what has ended is no error.
func (p *Process) Stop(ctx context.Context) Exit {
	p.h.stop()
	hung := time.NewTimer(p.h.patience)
	defer hung.Stop()
	hurry := ctx.Done()
	for {
		select {
		case <-p.done:
			return p.exit
		case <-hurry:
			p.h.kill()
			hurry = nil
		case <-hung.C:
			p.h.force()
		}
	}
}

// Tree is the process ids of the program and of all that it started, as we see
// them; empty when it has ended.
func (p *Process) Tree() []int {
	select {
	case <-p.done:
		return nil
	default:
		return p.h.tree()
	}
}

// RSS is the resident memory of the whole tree, and false when it cannot be read
// or has ended. Pages that processes share are counted once for each.
func (p *Process) RSS() (int64, bool) { return rssOf(p.Tree()) }

// Await calls check until it gives no error: until an engine is ready. Between
// two calls it waits for every (0 means 100 ms). It ends with a [*DiedError] as
// soon as the process has died, and with check's last error when ctx ends.
func (p *Process) Await(ctx context.Context, check func(context.Context) error, every time.Duration) error {
	if every <= 0 {
		every = 100 * time.Millisecond
	}
	// A check that hangs must not outlive the process that it asks.
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	gone := make(chan struct{})
	defer close(gone)
	go func() {
		select {
		case <-p.done:
			cancel()
		case <-gone:
		}
	}()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := check(asking)
		select {
		case <-p.done:
			return &DiedError{Exit: p.exit}
		default:
		}
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return &DiedError{Exit: p.exit}
		case <-ctx.Done():
			return fmt.Errorf("waiting for the process to be ready: %w (last: %w)", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}
