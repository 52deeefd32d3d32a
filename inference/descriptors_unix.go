//go:build unix

package inference

import (
	"os"

	"golang.org/x/sys/unix"
)

// spareDescriptors are left to the rest of the process: what measures must
// still be able to write down what it measured.
const spareDescriptors = 32

// descriptorRoom is how many connections the process can have besides what it
// has open now; 0 when it cannot be known.
func descriptorRoom() int64 {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil || r.Cur >= 1<<30 {
		return 0
	}
	open := 16 // where it cannot be looked up
	if names, err := os.ReadDir("/proc/self/fd"); err == nil {
		open = len(names)
	}
	return max(1, int64(r.Cur)-int64(open)-spareDescriptors)
}
