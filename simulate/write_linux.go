package simulate

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// writeNow writes what the socket takes at once; the descriptor is
// non-blocking, as all of the net package's are.
//
// The system call is a raw one. It does not block, and the scheduler must not
// take the pacer's processor away in the middle of it: getting it back costs
// several times as much as the write.
func writeNow(fd uintptr, b []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, nil
		default:
			return 0, errno
		}
	}
}
