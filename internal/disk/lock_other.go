//go:build !unix

package disk

import (
	"errors"
	"os"
)

// openNonblock is for pipes, which are no files here.
const openNonblock = 0

// TryLock has nothing to lock with here: nobody could tell a dead process's files
// from a living one's.
func TryLock(f *os.File) (bool, error) {
	return false, &os.PathError{Op: "lock", Path: f.Name(), Err: errors.ErrUnsupported}
}

// Unlock closes the file.
func Unlock(f *os.File) error { return f.Close() }

// Locked cannot say.
func Locked(f *os.File) (bool, error) {
	return false, &os.PathError{Op: "lock", Path: f.Name(), Err: errors.ErrUnsupported}
}
