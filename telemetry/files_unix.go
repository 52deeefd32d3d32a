//go:build unix

package telemetry

import (
	"errors"

	"golang.org/x/sys/unix"
)

// readFile is os.ReadFile for the files of a kernel, dozens of which are read
// ten times a second: without the poller, which cannot wait for them anyway.
func readFile(name string, buf []byte) []byte {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for errors.Is(err, unix.EINTR) {
		fd, err = unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	for {
		if len(buf) == cap(buf) {
			if len(buf) >= maxFile {
				return buf[:maxFile]
			}
			buf = append(buf, make([]byte, 8*cap(buf))...)[:len(buf)]
		}
		n, err := unix.Read(fd, buf[len(buf):cap(buf)])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil
		}
		if n == 0 {
			return buf
		}
		buf = buf[:len(buf)+n]
	}
}
