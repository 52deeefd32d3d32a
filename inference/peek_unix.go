//go:build unix

package inference

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// peek looks at a connection without taking anything or waiting.
func peek(raw syscall.RawConn) (n int, err error) {
	var b [1]byte
	cerr := raw.Control(func(fd uintptr) {
		n, _, err = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	})
	if cerr != nil {
		return 0, cerr
	}
	return n, err
}

// silent reports whether the connection is open and has nothing to read.
func silent(raw syscall.RawConn) bool {
	_, err := peek(raw)
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)
}

// closed reports whether the connection's end was reached.
func closed(raw syscall.RawConn) bool {
	n, err := peek(raw)
	return n <= 0 && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
}
