package telemetry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/assay-bench/assay"
	"github.com/assay-bench/assay/internal/child"
)

// ErrNoAnswer says that a child did not answer in time and was killed. It is
// started again at a later reading; what it would have read meanwhile is absent.
var ErrNoAnswer = child.ErrLate

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

// Child is a source that runs in a process of its own, so that it can be
// killed: native calls cannot be cancelled, and a driver that hangs must not
// hang the run. The other side is [ServeChild].
//
// A child is started at the first question. One that does not answer in time,
// ends, or breaks the protocol is killed with its whole process group.
type Child struct {
	name   string
	o      ChildOptions
	kept   *child.Kept
	intern interner

	// What follows is used within kept.Do, one question at a time.
	p       *child.Process
	seq     uint64
	owed    uint64 // the question to p whose answer was not waited for; 0: none
	request []byte // kept to be used again
}

// NewChild makes a source out of a command line whose process calls
// [ServeChild]. Nothing is started yet.
func NewChild(name string, command []string, o ChildOptions) *Child {
	if o.Deadline == 0 {
		o.Deadline = 2 * time.Second
	}
	spec := child.Spec{
		Command: command, Env: o.Env, MaxLine: maxChildLine, MaxAnswer: maxChildAnswer,
		// A child does one thing at a time. With more processors, the runtime would
		// spend several times the work's own CPU time on looking for more of it.
		AddEnv: []string{"GOMAXPROCS=1"},
	}
	kept := child.Keep(spec, child.KeepOptions{Ready: childHello, StartWithin: o.StartDeadline, Backoff: o.Backoff})
	return &Child{name: name, o: o, kept: kept, intern: interner{}}
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
// soon, by force. A question that is under way fails.
func (c *Child) Close() error {
	c.kept.Close(500 * time.Millisecond)
	return nil
}

// ask puts one question and hands the answer's lines of that kind to each.
func (c *Child) ask(ctx context.Context, question string, each func([]byte) error) error {
	var reported error
	err := c.kept.Do(ctx, c.o.Deadline, func(p *child.Process, until time.Time) (err error) {
		reported, err = c.exchange(ctx, p, until, question, each)
		if errors.Is(err, ErrNoAnswer) {
			err = fmt.Errorf("%w: the driver did not answer within %v, and its process was killed", ErrNoAnswer, c.o.Deadline)
		}
		return err
	})
	switch {
	case errors.Is(err, child.ErrClosed):
		return errClosed
	case err != nil:
		return err
	}
	return reported
}

// exchange puts one question to a process and reads its answer. The first result
// is an error that the source in the child reported; the second is one of the
// child itself.
func (c *Child) exchange(ctx context.Context, p *child.Process, until time.Time, question string, each func([]byte) error) (reported, err error) {
	if c.p != p {
		c.p, c.owed = p, 0
	}
	if c.owed != 0 {
		end := string(appendEnd(nil, c.owed))
		err := p.Receive(ctx, until, func(line []byte) (bool, error) { return string(line) == end, nil })
		if err != nil {
			return nil, err
		}
		c.owed = 0
	}
	c.seq++
	c.request = appendRequest(c.request[:0], question, c.seq)
	if err := p.Send(ctx, until, c.request); err != nil {
		return nil, err
	}
	c.owed = c.seq
	a := childAnswer{seq: c.seq, each: each}
	if err := p.Receive(ctx, until, a.line); err != nil {
		return nil, err
	}
	c.owed = 0
	return a.reported, nil
}
