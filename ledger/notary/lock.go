package notary

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lock keeps a second notary out of the directory. The file says who has it, and
// stays when its owner is gone: only the kernel's lock counts.
func lock(dir string, now time.Time) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("%w: lock %s: %w", ErrWrite, dir, err)
	}
	if err := flock(f); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
		who := make([]byte, 200)
		n, _ := f.ReadAt(who, 0)
		return nil, fmt.Errorf("%w: %s is held by %q; stop that one first", ErrLocked, dir, bytes.TrimSpace(who[:n]))
	}
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	who := fmt.Appendf(nil, "process %d on %s since %s\n", os.Getpid(), host, now.UTC().Format(time.RFC3339))
	if err := errors.Join(f.Truncate(0), writeAt(f, who, 0)); err != nil {
		f.Close()
		return nil, fmt.Errorf("%w: lock %s: %w", ErrWrite, dir, err)
	}
	return f, nil
}

func flock(f *os.File) error {
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func writeAt(f *os.File, b []byte, at int64) error {
	_, err := f.WriteAt(b, at)
	return err
}
