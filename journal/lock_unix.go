//go:build unix

package journal

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// lock takes the run for this process until the file is closed or the process
// ends, however it ends: the kernel lets go of it, so that a killed run is
// never locked.
func lock(f *os.File) error {
	for try := 0; ; try++ {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		if try == 5 {
			return ErrInUse
		}
		// A reader that looks whether the run is locked holds it for an instant.
		time.Sleep(10 * time.Millisecond)
	}
}

// locked reports whether some process writes the run.
func locked(f *os.File) bool {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if err == nil {
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	}
	return errors.Is(err, syscall.EWOULDBLOCK)
}
