// Package child runs one program in a process of its own, with a deadline.
//
// Drivers hang in the kernel, signers wait for a touch of a key that nobody
// gives, vendors' tools print without end. None of that may hang, fill or slow
// a measurement, so whatever calls them does it in a child that can be killed.
//
// It promises:
//
//   - every wait has an end. [Process.Send] and [Process.Receive] return at their
//     deadline, and when their context ends, whatever the child does;
//     [Process.Close] and [Process.Kill] return although the child hangs in the
//     kernel, where not even SIGKILL ends it;
//   - what a child writes is bounded: a line, an answer, and the beginning of its
//     standard error, the rest of which is read and dropped, so that the child
//     does not block on it;
//   - a line is whole or is not handed on: half of one that was followed by the
//     child's end is nobody's answer. What a context gave up comes, in order, with
//     the next Receive: numbering questions is the protocol's job;
//   - the child leads a process group, and the group is killed with it and when
//     it ends. On Linux the kernel kills the child when we are killed; elsewhere
//     its input closes then, and it is the child's job to end.
//
// It refuses to hold what leaves the group (a daemon, by setsid): a whole tree is
// held by internal/proc, at the price of a supervisor. It has no polite signal:
// a child is told to end by the end of its input.
package child

import (
	"errors"
	"fmt"
	"time"
)

// Errors of Send and Receive. A child that gave one is fit for nothing more and
// should be killed.
var (
	// ErrLate says that the deadline passed.
	ErrLate = errors.New("no answer in time")
	// ErrFlood says that the child wrote more than the bounds of its Spec.
	ErrFlood = errors.New("it wrote too much")
)

// Spec is what to run and within which bounds.
type Spec struct {
	// Command is the program and its arguments.
	Command []string
	// Dir is where it runs; empty: our own working directory.
	Dir string
	// Env is its environment; nil: that of this process.
	Env []string
	// AddEnv is added to Env.
	AddEnv []string
	// MaxLine is the longest line that it may write, in bytes; 0: 64 KiB.
	MaxLine int
	// MaxAnswer is the most that it may write in one Receive or [Output], in
	// bytes; 0: 1 MiB.
	MaxAnswer int64
	// MaxStderr is how much of the beginning of its standard error is kept, in
	// bytes; 0: 2 KiB.
	MaxStderr int
	// LeaveGroup leaves what the child started running when the child has ended
	// by itself. Zero: that is killed.
	LeaveGroup bool
}

func (s Spec) resolved() Spec {
	if s.MaxLine <= 0 {
		s.MaxLine = 64 << 10
	}
	if s.MaxAnswer <= 0 {
		s.MaxAnswer = 1 << 20
	}
	if s.MaxStderr <= 0 {
		s.MaxStderr = 2 << 10
	}
	return s
}

// EndedError says that the child ended, or closed its output, before its answer
// was whole.
type EndedError struct {
	// Exit is how it ended, as "exit status 1" or "signal: killed"; empty: it
	// closed its output and did not end.
	Exit string
	// Stderr is the beginning of what it wrote to its standard error, as one line
	// that can be printed.
	Stderr string
}

func (e *EndedError) Error() string {
	how := "its process closed its output"
	if e.Exit != "" {
		how = "its process ended: " + e.Exit
	}
	if e.Stderr != "" {
		return how + ": " + e.Stderr
	}
	return how
}

const (
	// collectWithin is how long a process that was killed is waited for. Only one
	// that hangs in the kernel takes longer.
	collectWithin = time.Second
	// explainWithin is how long the end of a process is waited for whose output
	// ended, to say how it ended, if the deadline is not before that. A driver may
	// take seconds to let go of a GPU.
	explainWithin = 5 * time.Second
)

func floodError(what string, limit int64) error {
	return fmt.Errorf("%w: %s of over %d bytes", ErrFlood, what, limit)
}
