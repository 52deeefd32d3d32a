//go:build unix && !linux

package simulate

import "golang.org/x/sys/unix"

// writeNow writes what the socket takes at once; the descriptor is
// non-blocking, as all of the net package's are.
func writeNow(fd uintptr, b []byte) (int, error) {
	for {
		n, err := unix.Write(int(fd), b)
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, nil
		default:
			return 0, err
		}
	}
}
