package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/assay-bench/assay/internal/foreign"
)

// ExitError is a command that ran on the machine and did not succeed.
type ExitError struct {
	Command string // its name in the list
	Status  int
	Stderr  string // the beginning, as one line that can be shown
}

func (e *ExitError) Error() string {
	text := fmt.Sprintf("%s: exit status %d", e.Command, e.Status)
	if e.Stderr != "" {
		text += ": " + e.Stderr
	}
	return text
}

const (
	maxStderr = 4 << 10
	maxAnswer = 256 << 10 // of commands that answer in a few lines
)

// call is one run of a command of the list.
type call struct {
	command string
	words   words
	stdin   io.Reader
	within  time.Duration // 0: CommandTimeout
}

// ask runs a command that answers in a few lines.
func (n *Node) ask(ctx context.Context, c call) ([]byte, error) {
	var out bytes.Buffer
	err := n.stream(ctx, c, &out, maxAnswer)
	return out.Bytes(), err
}

// stream runs a command and copies at most limit bytes of what it writes. One that
// writes more is hung up on: ErrHostile.
func (n *Node) stream(ctx context.Context, c call, to io.Writer, limit int64) error {
	line, err := commandLine(c.command, c.words)
	if err != nil {
		return err
	}
	within := c.within
	if within <= 0 {
		within = n.o.CommandTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("%s: no answer within %s", c.command, within))
	defer cancel()
	// A machine may hold up any step of the protocol: the end of the connection ends
	// them all. It is made again by whoever goes on.
	defer context.AfterFunc(ctx, func() { n.end(fmt.Errorf("%w: %w", ErrLost, context.Cause(ctx))) })()
	err = n.session(line, c, to, limit)
	select {
	case <-n.done:
		if !errors.Is(err, ErrHostile) && err != nil {
			return fmt.Errorf("%s: %w", c.command, n.why)
		}
	default:
	}
	return err
}

func (n *Node) session(line string, c call, to io.Writer, limit int64) error {
	s, err := n.client.NewSession()
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrLost, c.command, err)
	}
	defer s.Close()
	stderr := &foreign.Head{Limit: maxStderr}
	s.Stderr, s.Stdin = stderr, c.stdin
	out, err := s.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.Start(line); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrLost, c.command, err)
	}
	got, err := io.Copy(to, io.LimitReader(out, limit+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", c.command, err)
	case got > limit:
		return fmt.Errorf("%w: %s answers with more than %d bytes", ErrHostile, c.command, limit)
	}
	err = s.Wait()
	var exit *ssh.ExitError
	switch {
	case errors.As(err, &exit):
		return &ExitError{c.command, exit.ExitStatus(), stderr.Line(maxStderr)}
	case err != nil:
		return fmt.Errorf("%w: %s: %w", ErrLost, c.command, err)
	}
	return nil
}
