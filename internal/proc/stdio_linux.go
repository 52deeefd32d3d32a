package proc

import (
	"errors"
	"io"
	"os"
	"slices"
	"time"
)

// outputWithin is how long output may still come after everything has ended. It
// is used up only when a process that could not be ended holds the pipe, or when
// the caller's writer blocks.
const outputWithin = 2 * time.Second

// connect makes the pipes, starts to copy from and to them, and gives the
// program's ends.
func (h *handle) connect(s Spec, log *boundedLog) (_ []*os.File, err error) {
	var ours, theirs []*os.File
	defer func() {
		if err != nil {
			for _, f := range slices.Concat(ours, theirs) {
				_ = f.Close()
			}
		}
	}()
	if h.pipes, err = twoPipes(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			h.pipes.closeFar()
			h.pipes.closeNear()
		}
	}()
	var stdin, stdinFar *os.File
	if s.Stdin == nil {
		stdinFar, err = os.Open(os.DevNull)
	} else {
		stdinFar, stdin, err = os.Pipe()
		ours = append(ours, stdin)
	}
	if err != nil {
		return nil, err
	}
	theirs = append(theirs, stdinFar)
	for range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	h.outputs = ours
	if stdin != nil {
		go func() {
			_, _ = io.Copy(stdin, s.Stdin) // a program need not read all of it
			_ = stdin.Close()
		}()
	}
	outs := ours[len(ours)-2:]
	for i, to := range []io.Writer{s.Stdout, s.Stderr} {
		if to == nil {
			to = log
		}
		h.copying.Go(func() { h.copy(to, outs[i]) })
	}
	return theirs, nil
}

// copy goes on reading when the writer fails, so that the program can end.
func (h *handle) copy(to io.Writer, from *os.File) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && to != nil {
			if _, werr := to.Write(buf[:n]); werr != nil {
				h.mu.Lock()
				h.writeErr = errors.Join(h.writeErr, werr)
				h.mu.Unlock()
				to = nil
			}
		}
		if err != nil {
			return
		}
	}
}

// closeOutputs waits for what is still in the pipes, but not for ever.
func (h *handle) closeOutputs() {
	all := make(chan struct{})
	go func() {
		h.copying.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(outputWithin):
	}
	for _, f := range h.outputs {
		_ = f.Close()
	}
}
