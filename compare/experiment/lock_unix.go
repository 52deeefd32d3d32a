//go:build unix

package experiment

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// holdFile keeps other processes from running the same experiment. The kernel
// lets go of it when we end, however we end.
func holdFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrBusy
	}
	if err != nil {
		return fmt.Errorf("holding the experiment's log: %w", err)
	}
	return nil
}
