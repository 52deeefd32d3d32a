package telemetry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/assay-bench/assay"
)

// ErrNoAnswer says that a child did not answer in time and was killed. It is
// started again at a later reading; what it would have read meanwhile is absent.
var ErrNoAnswer = errors.New("no answer")

// Describer is a source that can also say which GPUs there are.
type Describer interface {
	Describe(ctx context.Context) ([]assay.GPU, error)
}

// ChildOptions are how long a child is waited for.
type ChildOptions struct {
	// Deadline is for one answer; 0: 2 s.
	Deadline time.Duration
	// StartDeadline is from the child's start until it is ready, which with a
	// driver that is not loaded yet takes longer than an answer; 0: 20 s.
	StartDeadline time.Duration
	// Backoff is the wait before a child that failed is started again. It
	// doubles with each failure, up to 30 s; 0: 1 s.
	Backoff time.Duration
	// Env is the child's environment; nil: that of this process.
	Env []string
}

const maxBackoff = 30 * time.Second

// Child is a source that runs in a process of its own, so that it can be
// killed: native calls cannot be called off, and a driver that hangs must not
// hang the run. The other side is [ServeChild].
//
// A child is started at the first question. One that does not answer in time,
// ends, or breaks the protocol is killed with its whole process group.
type Child struct {
	name    string
	command []string
	o       ChildOptions
	intern  interner
	closing atomic.Bool
	live    atomic.Pointer[childProcess] // p, for Close, which does not wait for mu

	mu      sync.Mutex    // one question at a time
	p       *childProcess // nil: none runs
	seq     uint64
	backoff time.Duration
	retry   time.Time // not started before
	failure error     // why it is waited for
}

// NewChild makes a source out of a command line whose process calls
// [ServeChild]. Nothing is started yet.
func NewChild(name string, command []string, o ChildOptions) *Child {
	if o.Deadline == 0 {
		o.Deadline = 2 * time.Second
	}
	if o.StartDeadline == 0 {
		o.StartDeadline = 20 * time.Second
	}
	if o.Backoff == 0 {
		o.Backoff = time.Second
	}
	return &Child{name: name, command: command, o: o, backoff: o.Backoff, intern: interner{}}
}

// Name is the name of the source that the child runs.
func (c *Child) Name() string { return c.name }

// Read asks the child for its readings. Readings that came before an error
// have been emitted.
func (c *Child) Read(ctx context.Context, emit func(assay.Reading)) error {
	var values slab
	return c.ask(ctx, askRead, func(line []byte) error {
		r, err := parseReading(line, c.intern, &values)
		if err == nil {
			emit(r)
		}
		return err
	})
}

// Describe asks the child which GPUs there are. GPUs that came before an error
// are given with it.
func (c *Child) Describe(ctx context.Context) ([]assay.GPU, error) {
	gpus := []assay.GPU{}
	err := c.ask(ctx, askDescribe, func(line []byte) error {
		if len(gpus) == maxGPUs {
			return fmt.Errorf("it describes more than %d GPUs", maxGPUs)
		}
		g, err := parseGPU(line)
		if err == nil {
			gpus = append(gpus, g)
		}
		return err
	})
	return gpus, err
}

// Close ends the child: by closing its input, and where that does not help
// soon, by force.
func (c *Child) Close() error {
	if !c.mu.TryLock() {
		// A question is under way, perhaps one that hangs: it fails now.
		c.closing.Store(true)
		if p := c.live.Load(); p != nil {
			p.kill()
		}
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	c.closing.Store(true)
	if c.p != nil {
		c.p.end(500 * time.Millisecond)
		c.p = nil
		c.live.Store(nil)
	}
	return nil
}

// ask puts one question and hands the answer's lines of that kind to each.
func (c *Child) ask(ctx context.Context, question string, each func([]byte) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.closing.Load() {
		return errClosed
	}
	if c.p == nil {
		if wait := time.Until(c.retry); wait > 0 {
			return fmt.Errorf("%w; it is started again in %v", c.failure, wait.Round(100*time.Millisecond))
		}
		p, err := startChild(c.command, c.o.Env)
		if err != nil {
			return c.failed(fmt.Errorf("starting its process: %w", err))
		}
		c.p = p
		c.live.Store(p)
		if c.closing.Load() {
			return errClosed // Close looked before there was a process, and comes after us
		}
	}
	c.seq++
	said, err := c.p.exchange(ctx, c.o, question, c.seq, each)
	switch {
	case err == nil:
		c.backoff = c.o.Backoff
		return said
	case errors.Is(err, errStarting), ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return err // the process is well; this question was given up
	}
	if c.closing.Load() {
		return errClosed
	}
	err = c.p.explain(err)
	c.p.kill()
	c.p = nil
	c.live.Store(nil)
	return c.failed(err)
}

// failed notes a failure of the process, after which it is left alone a while.
func (c *Child) failed(err error) error {
	c.failure = err
	c.retry = time.Now().Add(c.backoff)
	c.backoff = min(2*c.backoff, maxBackoff)
	return err
}
