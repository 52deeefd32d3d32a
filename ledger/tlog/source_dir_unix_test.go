//go:build unix

package tlog

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

// Nobody writes to the pipe: who opens it as a file waits for ever.
func TestADirectorysPipeIsNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "checkpoint"), 0o600); err != nil {
		t.Skip(err)
	}
	l, err := Open(dir, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Checkpoint(t.Context()); !errors.Is(err, ErrAnswer) {
		t.Error(err)
	}
}
