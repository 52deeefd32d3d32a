//go:build !unix

package outbox

import (
	"errors"
	"os"
)

// Without flock nobody can tell a dead process's records from a living one's.
func tryLock(f *os.File) (bool, error) {
	return false, &os.PathError{Op: "lock", Path: f.Name(), Err: errors.ErrUnsupported}
}
