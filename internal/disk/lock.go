package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// ErrLocked marks a file that another process has locked. Its message names that
// process as far as it left its number.
var ErrLocked = errors.New("in use by another process")

// Lock takes a file for this process, makes it if need be, and leaves the
// process's number in it for the next one who asks. Closing the file lets go of
// it, and so does the kernel when the process ends, however it ends: what lies in
// the file means nothing.
func Lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
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
