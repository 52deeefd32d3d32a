package child

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Errors of a child that is kept.
var (
	// ErrStarting says that the child is not ready yet and has time left: ask
	// again later.
	ErrStarting = errors.New("its process has not finished starting")
	// ErrClosed says that Close was called.
	ErrClosed = errors.New("closed")
)

// KeepOptions are how a child is started and started again.
type KeepOptions struct {
	// Ready is the line by which the child says that it is ready. What it writes
	// before is passed over. Empty: it is ready at once.
	Ready string
	// StartWithin is from the child's start until it is ready; 0: 20 s.
	StartWithin time.Duration
	// Backoff is the wait before a child that failed is started again. It
	// doubles with each failure up to MaxBackoff, and a Do that succeeds
	// resets it; 0: 1 s.
	Backoff time.Duration
	// MaxBackoff is the longest wait; 0: 30 s.
	MaxBackoff time.Duration
}

// NewBackoff gives waits that begin with first, double, and end at longest. They
// are not random: one machine's one child has nobody to collide with.
func NewBackoff(first, longest time.Duration) *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{InitialInterval: first, Multiplier: 2, MaxInterval: longest}
}

// Kept is a child that is started when it is first needed, and after a failure
// started again when a wait has passed. Methods may be called by several
// goroutines.
type Kept struct {
	spec    Spec
	o       KeepOptions
	now     func() time.Time // of retry
	closing atomic.Bool
	live    atomic.Pointer[Process] // p, for Close, which does not wait for mu

	mu      sync.Mutex // one Do at a time
	p       *Process   // nil: none runs
	ready   bool
	wait    *backoff.ExponentialBackOff
	retry   time.Time // not started before
	failure error     // why it is waited for
}

// Keep makes a child that is kept. Nothing is started yet.
func Keep(s Spec, o KeepOptions) *Kept {
	if o.StartWithin <= 0 {
		o.StartWithin = 20 * time.Second
	}
	if o.Backoff <= 0 {
		o.Backoff = time.Second
	}
	if o.MaxBackoff <= 0 {
		o.MaxBackoff = 30 * time.Second
	}
	return &Kept{spec: s, o: o, now: time.Now, wait: NewBackoff(o.Backoff, max(o.Backoff, o.MaxBackoff))}
}

// Do starts the child if none runs, waits until it is ready, and calls f with it
// and with a deadline that is within from then. It gives [ErrStarting] when the
// child needs longer than within to get ready and has time left.
//
// When f gives an error the child is killed and left alone for a while, in which
// Do gives the same error again. The exception is the cause of ctx: the child is
// as it was.
func (k *Kept) Do(ctx context.Context, within time.Duration, f func(p *Process, until time.Time) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := k.start(); err != nil {
		return err
	}
	err := k.await(ctx, within)
	if err == nil {
		err = f(k.p, time.Now().Add(within))
	}
	switch {
	case err == nil:
		k.wait.Reset()
		return nil
	case errors.Is(err, ErrStarting), ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return err
	case k.closing.Load():
		return ErrClosed
	}
	var ended *EndedError
	if stderr := k.p.Stderr(); stderr != "" && !errors.As(err, &ended) {
		err = fmt.Errorf("%w: %s", err, stderr)
	}
	k.p.Kill()
	k.p = nil
	k.live.Store(nil)
	return k.failed(err)
}

// start makes sure that a process runs.
func (k *Kept) start() error {
	if k.closing.Load() {
		return ErrClosed
	}
	if k.p != nil {
		return nil
	}
	if wait := k.retry.Sub(k.now()); wait > 0 {
		return fmt.Errorf("%w; it is started again in %v", k.failure, wait.Round(100*time.Millisecond))
	}
	p, err := Start(k.spec)
	if err != nil {
		return k.failed(fmt.Errorf("starting its process: %w", err))
	}
	k.p, k.ready = p, k.o.Ready == ""
	k.live.Store(p)
	if k.closing.Load() {
		return ErrClosed // Close looked before there was a process, and comes after us
	}
	return nil
}

// await waits until the child is ready.
func (k *Kept) await(ctx context.Context, within time.Duration) error {
	if k.ready {
		return nil
	}
	until, last := time.Now().Add(within), k.p.started.Add(k.o.StartWithin)
	if last.Before(until) {
		until = last
	}
	err := k.p.Receive(ctx, until, func(line []byte) (bool, error) {
		return string(line) == k.o.Ready, nil
	})
	switch {
	case err == nil:
		k.ready = true
	case errors.Is(err, ErrLate) && time.Now().Before(last):
		return ErrStarting
	case errors.Is(err, ErrLate):
		return fmt.Errorf("%w: its process was not ready within %v of its start and was killed", ErrLate, k.o.StartWithin)
	}
	return err
}

// failed notes a failure of the process, after which it is left alone a while.
func (k *Kept) failed(err error) error {
	k.failure = err
	k.retry = k.now().Add(k.wait.NextBackOff())
	return err
}

// PID is the process id of the child that runs, and false when none does. It does
// not wait for a Do that is under way.
func (k *Kept) PID() (pid int, ok bool) {
	if p := k.live.Load(); p != nil {
		return p.cmd.Process.Pid, true
	}
	return 0, false
}

// Close ends the child. A Do that is under way, perhaps one that hangs, fails
// with [ErrClosed].
func (k *Kept) Close(grace time.Duration) {
	if !k.mu.TryLock() {
		k.closing.Store(true)
		if p := k.live.Load(); p != nil {
			p.Kill()
		}
		k.mu.Lock()
	}
	defer k.mu.Unlock()
	k.closing.Store(true)
	if k.p != nil {
		k.p.Close(grace)
		k.p = nil
		k.live.Store(nil)
	}
}
