package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// turn is a share of the lock on a file, until it is closed. Without a file there
// is nothing to share.
type turn struct{ file *os.File }

func share(path string) (turn, error) {
	if path == "" {
		return turn{}, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return turn{}, fmt.Errorf("turn: %w", err)
	}
	t := turn{f}
	return t, t.lock(syscall.LOCK_SH)
}

// alone waits until nobody else has a share, and keeps the others out. The own
// share is given back first: two that wait for each other's would wait for ever.
func (t turn) alone() error {
	return errors.Join(t.lock(syscall.LOCK_UN), t.lock(syscall.LOCK_EX))
}

func (t turn) close() {
	if t.file != nil {
		t.file.Close()
	}
}

func (t turn) lock(how int) error {
	if t.file == nil {
		return nil
	}
	for {
		err := syscall.Flock(int(t.file.Fd()), how)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("lock %s: %w", t.file.Name(), err)
		}
	}
}
