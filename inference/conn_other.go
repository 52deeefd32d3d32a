//go:build !linux

package inference

import (
	"errors"
	"os"
	"syscall"
)

// Elsewhere than on Linux arrivals are by our own clock.

type message struct{}

func stampProbe() *os.File { return nil }

func stampReads(syscall.RawConn) error { return errors.ErrUnsupported }

func (cn *conn) pump(uintptr) bool { return true }

func readStamped(syscall.RawConn, []byte) (int, int64, error) {
	return 0, 0, errors.ErrUnsupported
}
