package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// ErrLocked marks a file that another process has locked. Its message names that
// process as far as it left its number.
var ErrLocked = errors.New("in use by another process")

// Lock takes a file for this process, makes it if need be, and leaves the
// process's number in it for the next one who asks. Unlock lets go of it, and so
// does the kernel when the process ends, however it ends: what lies in the file
// means nothing.
func Lock(path string) (*os.File, error) {
	dir, name := filepath.Split(path)
	root, err := os.OpenRoot(filepath.Clean(dir))
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	defer root.Close()
	f, err := Open(root, name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	free, err := TryLock(f)
	switch {
	case err != nil:
		f.Close()
		return nil, err
	case !free:
		who := make([]byte, 20)
		n, _ := f.ReadAt(who, 0) // a courtesy
		f.Close()
		return nil, fmt.Errorf("%s: %w (process %q)", path, ErrLocked, bytes.TrimSpace(who[:n]))
	}
	// A full disk here is no reason to stop: the lock is the kernel's.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, nil
}

// probeTime is how long a file that is looked at by Locked may seem locked.
const probeTime = 50 * time.Millisecond

// LockProbed is TryLock for a file at which others look with Locked: that takes
// the lock for an instant, so it is tried again.
func LockProbed(f *os.File) (bool, error) {
	for until := time.Now().Add(probeTime); ; time.Sleep(probeTime / 5) {
		free, err := TryLock(f)
		if free || err != nil || time.Now().After(until) {
			return free, err
		}
	}
}
