package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/oklog/ulid/v2"
)

// accepted is the file of ids that outboxes took, one a line. It is not synced:
// the page cache outlives a killed process, and that is all it has to outlive.
type accepted struct {
	before int // how many there were at the start

	mu  sync.Mutex
	f   *os.File
	n   int
	err error
}

const idLine = ulid.EncodedSize + 1

func openAccepted(path string) (*accepted, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	whole := bytes.LastIndexByte(b, '\n') + 1
	if whole < len(b) { // a kill tore the last line; the id may be in the log, and nobody has promised it
		if err := f.Truncate(int64(whole)); err != nil {
			return nil, err
		}
	}
	if whole%idLine != 0 {
		return nil, fmt.Errorf("%s: %d bytes are no whole lines", path, whole)
	}
	return &accepted{before: whole / idLine, n: whole / idLine, f: f}, nil
}

// note writes ids down. It is called after the outbox accepted them.
func (a *accepted) note(ids ...ulid.ULID) error {
	line := make([]byte, 0, idLine*len(ids))
	for _, id := range ids {
		line = append(append(line, id.String()...), '\n')
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return a.err
	}
	if _, err := a.f.Write(line); err != nil {
		a.err = fmt.Errorf("write down what was accepted: %w", err)
		return a.err
	}
	a.n += len(ids)
	return nil
}

func (a *accepted) total() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n
}

func (a *accepted) close() error { return a.f.Close() }
