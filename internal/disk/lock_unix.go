//go:build unix

package disk

import (
	"errors"
	"os"
	"syscall"
)

// openNonblock lets a pipe be opened without waiting for its other end.
const openNonblock = syscall.O_NONBLOCK

// TryLock takes the lock of an open file, and reports false when somebody else
// has it. The kernel lets go of it when the file is closed or the process ends.
func TryLock(f *os.File) (bool, error) { return flock(f, syscall.LOCK_EX) }

// Unlock lets go of a locked file and closes it. Closing alone does not, while a
// child that is being started has not yet closed what it inherited.
func Unlock(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}

// Locked reports whether another process has locked a file. Who locks such a
// file does it with LockProbed.
func Locked(f *os.File) (bool, error) {
	free, err := flock(f, syscall.LOCK_SH)
	if free {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	}
	return !free && err == nil, err
}

func flock(f *os.File, how int) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case errors.Is(err, syscall.EINTR):
		default:
			return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
}
