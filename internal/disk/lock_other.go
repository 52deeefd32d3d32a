//go:build !unix

package disk

import (
	"errors"
	"os"
)

// TryLock has nothing to lock with here: nobody could tell a dead process's files
// from a living one's.
func TryLock(f *os.File) (bool, error) {
	return false, &os.PathError{Op: "lock", Path: f.Name(), Err: errors.ErrUnsupported}
}
